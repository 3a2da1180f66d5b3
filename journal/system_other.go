//go:build !unix || solaris || aix

package journal

import (
	"errors"
	"os"
	"syscall"
)

// lockFile relies on bbolt, which locks its own file on these systems; only
// the owner's pid is then not known.
func lockFile(*os.File) error { return nil }

// syncDir does nothing: these systems order a rename themselves, or offer no
// way to ask for it.
func syncDir(string) error { return nil }

const errorDiskFull = syscall.Errno(112) // ERROR_DISK_FULL of Windows

// noSpace reports whether a write failed for want of room.
func noSpace(err error) bool { return errors.Is(err, errorDiskFull) }
