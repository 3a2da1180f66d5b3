package wal

import (
	"errors"
	"os"
	"syscall"
)

// sync has the disk write what the file holds: its size and its room stay as they are.
func sync(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
