//go:build unix && !solaris && !aix

package directory

import (
	"errors"
	"os"
	"syscall"
)

// lockFile locks f for this open file alone, also against the same process.
// The system drops the lock when the process ends, however it ends.
func lockFile(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errHeld
	}
	return err
}

// canSyncDir: a directory can be synced.
const canSyncDir = true

// openSafely has an open wait for nothing and follow nothing.
const openSafely = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// canLock: a lock that is left behind can be told from one that is held.
const canLock = true

// OwnerOf returns whose a file is.
func OwnerOf(info os.FileInfo) (uid, gid int, known bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(s.Uid), int(s.Gid), true
}

// Given returns how many bytes the disk has given to a file, which has holes when they are
// fewer than its size, or was compressed.
func Given(info os.FileInfo) (bytes int64, known bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int64(s.Blocks) * 512, true
}

// CanReplace: a file that is open can be renamed over.
const CanReplace = true

// Deleted reports whether a file that is open has lost its name.
func Deleted(f os.FileInfo) bool {
	s, ok := f.Sys().(*syscall.Stat_t)
	return ok && s.Nlink == 0
}

// noSpace is what a write that finds no room fails with.
var noSpace = []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}
