//go:build !linux

package store

// unmapPages lets go of the pages of a file that is mapped at base. Other systems
// take them back by themselves, or have no such call.
func unmapPages(base uintptr, bytes int) {}
