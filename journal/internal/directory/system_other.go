//go:build !unix || solaris || aix

package directory

import (
	"os"
	"syscall"
)

// canSyncDir: these systems order a rename themselves, or offer no way to ask for it.
const canSyncDir = false

// openSafely: what is opened is looked at before and after.
const openSafely = 0

// canLock: some of these systems have no such locks, and others don't remove or
// rename what is open.
const canLock = false

// OwnerOf: these systems have other rights, or other calls for them.
func OwnerOf(os.FileInfo) (uid, gid int, known bool) { return 0, 0, false }

// Given: these systems have other calls for it.
func Given(os.FileInfo) (bytes int64, known bool) { return 0, false }

// CanReplace: a file that is open can't be renamed over.
const CanReplace = false

// Deleted: the name of an open file can't go.
func Deleted(os.FileInfo) bool { return false }

// noSpace is what a write that finds no room fails with: ERROR_DISK_FULL and
// ERROR_HANDLE_DISK_FULL of Windows.
var noSpace = []syscall.Errno{112, 39}
