//go:build unix && !solaris && !aix

package directory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// Held returns a LockedError when a process has the journal in dir open. It asks
// for a shared lock and gives it back at once: an owner that starts in these
// microseconds and does not wait would be refused; no other process notices.
func Held(dir string) error {
	f, err := OpenFile(filepath.Join(dir, LockName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was never opened
	}
	if err != nil {
		return fmt.Errorf("journal: lock %s: %w", dir, err)
	}
	defer f.Close()
	if errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK) {
		return LockedBy(dir)
	}
	return nil
}

// UnlockFile gives back the lock of a file, whoever else has this open file: see flock(2).
func UnlockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

// readOnlyDisk are the errors of a disk on which no LOCK can be written.
var readOnlyDisk = []error{syscall.EROFS, syscall.EACCES, syscall.EPERM}

const (
	canSyncDir = true                                    // a directory can be synced
	canLock    = true                                    // a lock that is left behind can be told from one that is held
	CanReplace = true                                    // a file that is open can be renamed over
	openSafely = syscall.O_NOFOLLOW | syscall.O_NONBLOCK // an open waits for nothing and follows nothing
)

// OwnerOf returns whose a file is.
func OwnerOf(info os.FileInfo) (uid, gid int, known bool) {
	s := info.Sys().(*syscall.Stat_t) // all of package os have it
	return int(s.Uid), int(s.Gid), true
}

// Given returns how many bytes the disk has given to a file, which has holes when they are
// fewer than its size, or was compressed.
func Given(info os.FileInfo) (bytes int64, known bool) {
	return int64(info.Sys().(*syscall.Stat_t).Blocks) * 512, true
}

// Deleted reports whether a file that is open has lost its name.
func Deleted(f os.FileInfo) bool {
	return f.Sys().(*syscall.Stat_t).Nlink == 0
}

// noSpace is what a write that finds no room fails with.
var noSpace = []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}
