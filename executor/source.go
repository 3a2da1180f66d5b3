package executor

import (
	"context"
	"fmt"

	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/journal"
)

// FromSource accepts a call only if offset is greater than the last one that was
// accepted under name, by any queue of the executor; otherwise the call returns a
// [StaleError]. The offset is written in the commit of the payload. So what comes from
// a source that can be read again is accepted once, across crashes, too: the ticks of a
// clock, a partition with its offsets, numbered webhooks.
//
// An offset may be negative. A name has 1 to 512 bytes; choose one that does not begin
// with "cron/", because the schedules of executor/cron use those. Calls with the same
// name go one at a time: the next one waits until the outcome of the last is known, or
// its ctx ends. A refused call does not move the offset. A call with several names
// needs a new offset for each. The journal keeps an offset
// until [Executor.DeleteSourceOffset].
func FromSource(name string, offset int64) Option {
	return Option{kind: optionSource, name: name, offset: offset}
}

// StaleError says which offset was there. It matches [ErrStale].
type StaleError struct {
	Source string
	Offset int64 // of the refused call
	Last   int64 // what was accepted before
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("executor: offset %d of %q is not above %d, which was accepted before", e.Offset, e.Source, e.Last)
}

// Is makes errors.Is(err, ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// SourceOffset returns the last offset that was accepted under name, and whether
// there is one. What is under way does not count yet. It returns ErrInvalidKey,
// ErrClosed after Stop, or an error of the journal.
func (x *Executor) SourceOffset(name string) (offset int64, found bool, err error) {
	if err := checkName(name); err != nil {
		return 0, false, err
	}
	return x.readOffset(name)
}

func (x *Executor) readOffset(name string) (offset int64, found bool, err error) {
	key := statekey.OffsetPrefix + name
	value, err := x.log.Get(key)
	if err != nil || value == nil {
		return 0, false, border(err)
	}
	if offset, err = statekey.ParseOffset(value); err != nil {
		return 0, false, statekey.Refused(key, err)
	}
	return offset, true, nil
}

// SetSourceOffset writes an offset, whatever was there: to begin somewhere, or to
// go back and take in again what follows. It returns ErrInvalidKey, ErrContext,
// ErrFull, ErrClosed, ErrFailed or the cause of ctx, and then nothing has changed;
// after ErrUnknown it may be either way.
func (x *Executor) SetSourceOffset(ctx context.Context, name string, offset int64) error {
	return x.putOffset(ctx, name, statekey.Offset(offset))
}

// DeleteSourceOffset forgets an offset: the next one is accepted, whatever it is.
// Its errors are those of SetSourceOffset.
func (x *Executor) DeleteSourceOffset(ctx context.Context, name string) error {
	return x.putOffset(ctx, name, nil)
}

func (x *Executor) putOffset(ctx context.Context, name string, value []byte) error {
	if err := checkName(name); err != nil {
		return err
	}
	ctx, err := usable(ctx)
	if err != nil {
		return err
	}
	g, err := x.enter(ctx, statekey.OffsetPrefix+name)
	if err != nil {
		return border(err)
	}
	// The next one inside reads what is committed, and a later commit comes later.
	defer x.gates.Leave(g)
	return border(x.log.Put(ctx, journal.Set{Key: statekey.OffsetPrefix + name, Value: value}))
}

// checkOffset refuses an offset that is not new.
func (x *Executor) checkOffset(s sourceOffset) error {
	last, found, err := x.readOffset(s.name)
	if err == nil && found && s.offset <= last {
		err = &StaleError{Source: s.name, Offset: s.offset, Last: last}
	}
	return err
}
