package format

import (
	"errors"
	"fmt"
	"time"
)

// Errors of opening a journal. What each says is written where users see it, in
// journal/names.go.
var (
	ErrTooNew     = errors.New("journal: written by a newer version; upgrade to read it")
	ErrNotJournal = errors.New("journal: not a journal")
	ErrExists     = errors.New("journal: already exists; give a new directory")
	ErrCorrupt    = errors.New("journal: corrupt")
)

// Errors of a running log.
var (
	ErrClosed    = errors.New("journal: closed")
	ErrFailed    = errors.New("journal: failed; open it again")
	ErrFull      = errors.New("journal: no space left on the device; free some and repeat the call")
	ErrUnknown   = errors.New("journal: outcome unknown")
	ErrTooLarge  = errors.New("journal: entry too large")
	ErrQueueName = errors.New("journal: the name of a queue has 1 to 4096 bytes")
	ErrNotFound  = errors.New("journal: not in the morgue")
)

// LockedError says who holds the journal.
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

// DamagedBlock is a CorruptError about a block as a whole.
func DamagedBlock(seq uint64, format string, args ...any) error {
	return &CorruptError{Block: seq, Offset: -1, Reason: fmt.Sprintf(format, args...)}
}

// BrokenValue is a CorruptError about a value beside the log.
func BrokenValue(name Bucket, key []byte, cause error) error {
	return Damaged("bucket %q, key %q: %v", name, key, cause)
}

// NotJournal says what is at a path instead; it matches ErrNotJournal.
func NotJournal(path, what string) error {
	return fmt.Errorf("%w: %s is %s", ErrNotJournal, path, what)
}
