//go:build !unix || solaris || aix

package directory

import (
	"io/fs"
	"os"
	"syscall"
)

const (
	canSyncDir = false // they order a rename themselves, or offer no way to ask for it
	canLock    = false // some have no such locks, and others don't remove or rename what is open
	CanReplace = false // a file that is open can't be renamed over
	openSafely = 0     // what is opened is looked at before and after
)

// Held leaves the question to bbolt's own lock, which an owner here has alone.
func Held(string) error { return nil }

// UnlockFile does nothing: there the lock of a reader stays while it reads.
func UnlockFile(*os.File) error { return nil }

// readOnlyDisk are the errors of a disk on which no LOCK can be written.
var readOnlyDisk = []error{fs.ErrPermission}

// OwnerOf: these systems have other rights, or other calls for them.
func OwnerOf(os.FileInfo) (uid, gid int, known bool) { return 0, 0, false }

// Given: these systems have other calls for it.
func Given(os.FileInfo) (bytes int64, known bool) { return 0, false }

// Deleted: the name of an open file can't go.
func Deleted(os.FileInfo) bool { return false }

// noSpace is what a write that finds no room fails with: ERROR_DISK_FULL and
// ERROR_HANDLE_DISK_FULL of Windows.
var noSpace = []syscall.Errno{112, 39}
