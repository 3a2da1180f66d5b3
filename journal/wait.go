package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// lockPoll is how often a wait for another owner looks again, at a few system
// calls each time: the systems' file locks offer no wait that a context can end.
const lockPoll = 5 * time.Millisecond

// OpenContext is [Open] that waits while the journal is in use, until ctx ends. It
// begins to open within five milliseconds of the other's [Log.Close], or death; of
// several who wait, any may be the next. Whom it waits for is in one line to
// Config.Logger, and one more if it becomes another.
//
// When ctx ends first, the error matches both its cause and the [LockedError] that says who
// has the journal. Once the wait is over, ctx is not looked at again. Everything else is as
// with Open; a ctx that can't be asked is ErrContext.
func OpenContext(ctx context.Context, dir string, cfg Config) (*Log, error) {
	if err := cause(ctx); errors.Is(err, ErrContext) {
		return nil, err
	}
	begin := time.Now()
	var told LockedError
	for {
		l, err := Open(dir, cfg)
		locked, ok := errors.AsType[*LockedError](err)
		if !ok {
			return l, err
		}
		// A new owner locks before it writes who it is.
		if told == (LockedError{}) || locked.PID != 0 && *locked != told {
			if told = *locked; cfg.Logger != nil {
				cfg.Logger.Info("waiting for the process that has the journal", slog.String("dir", told.Dir),
					slog.Int("pid", told.PID), slog.String("host", told.Host), slog.Time("since", told.Since))
			}
		}
		select {
		case <-done(ctx):
			return nil, fmt.Errorf("journal: waited for %v: %w: %w", time.Since(begin).Round(time.Millisecond), ended(ctx), err)
		case <-time.After(lockPoll):
		}
	}
}
