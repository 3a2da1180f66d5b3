//go:build !linux

package wal

import "os"

// sync has the disk write what the file holds.
func sync(f *os.File) error { return f.Sync() }
