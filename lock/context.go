package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// ErrContext is returned for a context that can't be asked whether it has ended: it
// is nil, or a method of it panicked. It counts as one that has ended.
var ErrContext = errors.New("lock: unusable context")

var errNilContext = fmt.Errorf("%w: it is nil; context.Background() is one that never ends", ErrContext)

// A context is its caller's code. It is asked under no mutex, and before a place is
// taken, which would stay taken if it panicked.

// done returns the channel that is closed when ctx ends.
func done(ctx context.Context) (c <-chan struct{}, err error) {
	if ctx == nil {
		return nil, errNilContext
	}
	defer contain(&err)
	return ctx.Done(), nil
}

// end returns why ctx has ended, an error that is both ctx.Err() and
// context.Cause(ctx); nil while it has not.
func end(ctx context.Context) (err error) {
	if ctx == nil {
		return errNilContext
	}
	defer contain(&err)
	err = ctx.Err()
	if cause := context.Cause(ctx); err != nil && cause != err {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// contain makes an error of a context's panic. It is deferred.
func contain(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: it panicked: %v", ErrContext, r)
	}
}

// ctxError is the error of a call whose ctx has ended.
func ctxError(ctx context.Context, keys []string) error {
	err := cmp.Or(end(ctx), fmt.Errorf("%w: it has ended and gives no reason", ErrContext))
	return fmt.Errorf("lock: acquire %q: %w", keys, err)
}

// child is context.WithCancelCause of a parent that may be unusable: then the child
// has ended.
func child(parent context.Context) (ctx context.Context, cancel context.CancelCauseFunc) {
	err := errNilContext
	if parent != nil {
		func() {
			defer contain(&err)
			ctx, cancel = context.WithCancelCause(parent)
			err = nil
		}()
	}
	if err != nil {
		ctx, cancel = context.WithCancelCause(context.Background())
		cancel(err)
	}
	return ctx, cancel
}
