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

// ReadOnlyDisk are the errors of a disk on which no LOCK can be written.
var ReadOnlyDisk = []error{syscall.EROFS, syscall.EACCES, syscall.EPERM}
