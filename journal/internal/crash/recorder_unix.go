//go:build unix && !solaris && !aix

package crash

import (
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// inFile reports whether what is mapped is in the file.
const inFile = true

// mapWords maps the first n words of a file. The map needs the file to be open no more.
func mapWords(f *os.File, n int) (words []atomic.Uint64, unmap func() error, err error) {
	mem, err := syscall.Mmap(int(f.Fd()), 0, 8*n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, err
	}
	words = unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(&mem[0])), n)
	return words, func() error { return syscall.Munmap(mem) }, nil
}
