package executor

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/strandjobs/strand/journal"
)

// markPrefix begins the state keys of marks; the value is 8 bytes big endian.
const markPrefix = "mark/"

// Once has a call accepted only if mark is greater than the last one that was
// accepted under name, by any queue of the executor; otherwise it returns a
// [StaleError]. The mark is written in the same commit as the payload. So a
// source that can be read again (the ticks of a clock, a partition with its
// offsets, numbered webhooks) is taken in once, across crashes, too.
//
// A name has from 1 to 512 bytes; those that begin with "cron/" belong to the
// schedules. Calls with one name are let through one at a time: the next waits
// until the outcome of the last is known, or its ctx ends. A refused call moves
// nothing. A mark is kept until [Executor.DeleteMark].
func Once(name string, mark int64) Option { return Option{kind: optionOnce, name: name, mark: mark} }

// StaleError says which mark was there. It matches [ErrStale].
type StaleError struct {
	Name string
	Mark int64 // of the refused call
	Last int64 // what was accepted before
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("executor: mark %d of %q is not above %d, which was accepted before", e.Mark, e.Name, e.Last)
}

// Is makes errors.Is(err, ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Mark returns the last mark that was accepted under name, and whether there is
// one. What is under way does not count yet. It returns ErrInvalidKey, ErrClosed
// after Stop, or an error of the journal.
func (x *Executor) Mark(name string) (mark int64, found bool, err error) {
	if err := checkName(name); err != nil {
		return 0, false, err
	}
	return x.readMark(name)
}

func (x *Executor) readMark(name string) (int64, bool, error) {
	value, err := x.log.Get(markPrefix + name)
	if err != nil || value == nil {
		return 0, false, border(err)
	}
	if len(value) != 8 {
		return 0, false, fmt.Errorf("executor: mark %q: %w", name, &journal.CorruptError{Reason: fmt.Sprintf("%d bytes instead of 8", len(value))})
	}
	return int64(binary.BigEndian.Uint64(value)), true, nil
}

func encodeMark(mark int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(mark)) }

// SetMark writes a mark, whatever was there: to begin somewhere, or to go back
// and take in again what follows. It returns ErrInvalidKey, ErrContext, ErrFull,
// ErrClosed, ErrFailed or the cause of ctx, and then nothing has changed; after ErrUnknown
// it may be either way.
func (x *Executor) SetMark(ctx context.Context, name string, mark int64) error {
	return x.putMark(ctx, name, encodeMark(mark))
}

// DeleteMark forgets a mark: the next one is accepted, whatever it is. Its
// errors are those of SetMark.
func (x *Executor) DeleteMark(ctx context.Context, name string) error {
	return x.putMark(ctx, name, nil)
}

func (x *Executor) putMark(ctx context.Context, name string, value []byte) error {
	if err := checkName(name); err != nil {
		return err
	}
	ctx, err := usable(ctx)
	if err != nil {
		return err
	}
	g, err := x.enter(ctx, markPrefix+name)
	if err != nil {
		return border(err)
	}
	// The next one inside reads what is committed, and a later commit comes later.
	defer x.gates.Leave(g)
	return border(x.log.Put(ctx, journal.Set{Key: markPrefix + name, Value: value}))
}

func checkName(name string) error {
	if name == "" || len(name) > MaxIDBytes {
		return fmt.Errorf("%w: it has %d bytes, it must have from 1 to %d", ErrInvalidKey, len(name), MaxIDBytes)
	}
	return nil
}

// checkMark refuses a mark that is not new.
func (x *Executor) checkMark(c *conditions) error {
	if c.mark == "" {
		return nil
	}
	last, found, err := x.readMark(c.mark)
	if err == nil && found && c.at <= last {
		err = &StaleError{Name: c.mark, Mark: c.at, Last: last}
	}
	return err
}
