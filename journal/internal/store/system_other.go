//go:build !linux

package store

import "os"

// fill has the disk give the bytes of f between two offsets, which hold nothing
// yet.
func fill(f *os.File, from, to int64) error { return writeZeroes(f, from, to) }

// unmapPages lets go of the pages of a file that is mapped at base. Other systems
// take them back by themselves, or have no such call.
func unmapPages(base uintptr, bytes int) {}
