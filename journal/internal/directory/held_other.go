//go:build !unix || solaris || aix

package directory

import (
	"io/fs"
	"os"
)

// Held leaves the question to bbolt's own lock, which an owner here has alone.
func Held(string) error { return nil }

// UnlockFile does nothing: there the lock of a reader stays while it reads.
func UnlockFile(*os.File) error { return nil }

// ReadOnlyDisk are the errors of a disk on which no LOCK can be written.
var ReadOnlyDisk = []error{fs.ErrPermission}
