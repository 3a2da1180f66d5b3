package store

import (
	"errors"
	"os"
	"syscall"

	"github.com/strandjobs/strand/journal/internal/directory"
)

// keepSize is FALLOC_FL_KEEP_SIZE.
const keepSize = 1

// fill has the disk give the bytes of f between two offsets, which hold nothing
// yet. It leaves the size of the file to the caller.
func fill(f *os.File, from, to int64) error {
	for {
		err := syscall.Fallocate(int(f.Fd()), keepSize, from, to-from)
		switch {
		case err == nil, directory.NoSpace(err):
			return err
		case !errors.Is(err, syscall.EINTR):
			return writeZeroes(f, from, to) // a file system that can't
		}
	}
}

// syncData has the disk write what a file holds, which has its size and its room already.
func syncData(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// unmapPages lets go of the pages of a file that is mapped at base, for reading
// and shared: they are read from the kernel's cache when they are used again.
func unmapPages(base uintptr, bytes int) {
	// An error changes nothing: then they stay.
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, base, uintptr(bytes), syscall.MADV_DONTNEED)
}
