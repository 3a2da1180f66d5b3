package directory

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile locks f for this handle alone, also against the same process. The
// system drops the lock when the process ends, however it ends. What is locked is
// a byte where the file never is: a lock on its text would keep others from
// reading who the owner is.
func lockFile(f *os.File) error {
	const never = math.MaxUint32
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{Offset: never, OffsetHigh: never})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errHeld
	}
	return err
}
