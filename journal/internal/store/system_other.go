//go:build !linux

package store

import "os"

// fill has the disk give the bytes of f between two offsets, which hold nothing
// yet.
func fill(f *os.File, from, to int64) error { return writeZeroes(f, from, to) }

// syncData has the disk write what a file holds.
func syncData(f *os.File) error { return f.Sync() }

// unmapPages lets go of the pages of a file that is mapped at base. Other systems
// take them back by themselves, or have no such call.
func unmapPages(base uintptr, bytes int) {}
