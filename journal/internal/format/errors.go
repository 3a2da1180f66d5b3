package format

import (
	"errors"
	"fmt"
	"time"
)

// Errors of opening a journal.
var (
	// ErrLocked is matched by the [LockedError] that Open returns when another
	// process, or this one, has the journal open.
	ErrLocked = errors.New("journal: in use")

	// ErrTooNew is returned when the journal was written by a newer version of
	// this package. The file is not touched.
	ErrTooNew = errors.New("journal: written by a newer version; upgrade to read it")

	// ErrNotJournal is returned when the file exists and is something else.
	ErrNotJournal = errors.New("journal: not a journal")

	// ErrExists is returned when a new journal is to be made where something is.
	ErrExists = errors.New("journal: already exists; give a new directory")

	// ErrCorrupt is matched by the [CorruptError] that reading returns when a
	// checksum, a length or the sequence of blocks is wrong.
	ErrCorrupt = errors.New("journal: corrupt")
)

// Errors of a running log.
var (
	// ErrClosed is returned by calls after Close.
	ErrClosed = errors.New("journal: closed")

	// ErrFailed is returned after a commit failed. The log refuses everything
	// from then on; only opening the journal again can tell what is on disk.
	ErrFailed = errors.New("journal: failed; open it again")

	// ErrFull is returned while the disk has no room but what is kept for
	// results. Nothing was written, and nothing will be; the call can be repeated.
	ErrFull = errors.New("journal: no space left on the device; free some and repeat the call")

	// ErrUnknown is returned when a commit failed, or the caller's context
	// ended, after the entries were handed to the committer: they may or may
	// not be on disk. Half of a call is never on disk.
	ErrUnknown = errors.New("journal: outcome unknown")

	// ErrTooLarge is returned when one entry does not fit into a block.
	ErrTooLarge = errors.New("journal: entry too large")

	// ErrQueueName is returned for a name that can't be a queue's.
	ErrQueueName = errors.New("journal: the name of a queue has 1 to 4096 bytes")

	// ErrNotFound is returned when a buried payload is not in the morgue.
	ErrNotFound = errors.New("journal: not in the morgue")
)

// LockedError says who holds the journal. It matches [ErrLocked].
type LockedError struct {
	Dir   string    // the journal's directory
	PID   int       // process id of the owner, on its Host; 0 when it is not known
	Host  string    // name of the owner's host or container; empty when it is not known
	Since time.Time // when the owner locked it; zero when it is not known
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	if e.Host != "" {
		who += " on " + e.Host
	}
	if !e.Since.IsZero() {
		who += " since " + e.Since.Format(time.RFC3339)
	}
	return fmt.Sprintf("journal: %s is in use by %s; stop it first", e.Dir, who)
}

// Is makes errors.Is(err, ErrLocked) true.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// CorruptError says where a journal is damaged. It matches [ErrCorrupt].
type CorruptError struct {
	Block  uint64 // sequence number of the block, 0 when the damage is outside the log
	Offset int    // byte in the block, -1 when the block as a whole is wrong
	Reason string
}

func (e *CorruptError) Error() string {
	switch {
	case e.Block == 0:
		return "journal: corrupt: " + e.Reason
	case e.Offset < 0:
		return fmt.Sprintf("journal: corrupt: block %d: %s", e.Block, e.Reason)
	}
	return fmt.Sprintf("journal: corrupt: block %d at byte %d: %s", e.Block, e.Offset, e.Reason)
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// Damaged is a CorruptError about something outside the log.
func Damaged(format string, args ...any) error {
	return &CorruptError{Reason: fmt.Sprintf(format, args...)}
}

// BrokenValue is a CorruptError about a value beside the log.
func BrokenValue(name Bucket, key []byte, cause error) error {
	return Damaged("bucket %q, key %q: %v", name, key, cause)
}

// NotJournal says what is at a path instead; it matches ErrNotJournal.
func NotJournal(path, what string) error {
	return fmt.Errorf("%w: %s is %s", ErrNotJournal, path, what)
}
