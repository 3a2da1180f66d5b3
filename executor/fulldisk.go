package executor

import (
	"errors"
	"time"
)

// What happens on a full disk, from the outside in: the journal refuses what it has
// no room for and goes on with the rest, so jobs run and end; Enqueue returns a
// [FullError] with Disk; a job whose handler passes that on waits, and spends no
// retry; Err returns [ErrFull]; and the journal, which looks for room by itself,
// logs the begin and the end.

// retryFullDisk is the FullError.RetryAfter of a disk, and the shortest pause of a
// job that waits for one.
const retryFullDisk = time.Second

// diskFull is the error of a call that the journal had no room for.
func diskFull(cause error) error {
	return &FullError{Disk: true, RetryAfter: retryFullDisk, cause: cause}
}

// fromFullDisk reports whether an error says that there is no room on the disk, for a
// follow-up mostly: that is not the fault of the job.
func fromFullDisk(err error) bool {
	full, ok := errors.AsType[*FullError](err)
	return ok && full.Disk
}
