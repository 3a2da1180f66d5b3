package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// ErrContext is returned for a context that can't be asked whether it has ended:
// it is nil, or a method of it, or of its cause, panicked. It counts as one that has ended.
var ErrContext = errors.New("journal: unusable context")

// A context is its caller's code, which may block, panic or call the log back.
// So it is asked here only, and never under a lock or in the middle of
// something. One that can't be asked counts as ended.

// done returns the channel that is closed when ctx ends.
func done(ctx context.Context) (c <-chan struct{}) {
	defer func() {
		if recover() != nil { // ctx may be nil
			c = settled.done
		}
	}()
	return ctx.Done()
}

// cause returns why ctx has ended, nil while it has not.
func cause(ctx context.Context) (err error) {
	if ctx == nil {
		return fmt.Errorf("%w: it is nil; context.Background() is one that never ends", ErrContext)
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: it panicked: %v", ErrContext, r)
		}
	}()
	err = context.Cause(ctx)
	_ = errors.Is(err, ErrContext) // whoever gets it asks, too
	return err
}

// ended is cause for a context whose channel is closed.
func ended(ctx context.Context) error {
	return cmp.Or(cause(ctx), fmt.Errorf("%w: it has ended and gives no reason, or its Done panicked", ErrContext))
}
