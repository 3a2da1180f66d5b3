package store

import "syscall"

// unmapPages lets go of the pages of a file that is mapped at base, for reading
// and shared: they are read from the kernel's cache when they are used again.
func unmapPages(base uintptr, bytes int) {
	// An error changes nothing: then they stay.
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, base, uintptr(bytes), syscall.MADV_DONTNEED)
}
