package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
)

// Errors of this package. What was asked for was not done.
var (
	// ErrEmptyKey is returned when no key is given, or one of them is empty.
	ErrEmptyKey = errors.New("lock: empty key")
	// ErrConfig is returned when what has no default is missing, and for a limit, a TTL or
	// the length of a lease that is negative, or zero where that has no meaning.
	ErrConfig = errors.New("lock: invalid config")

	// ErrLocked is returned when a key is held, or promised to a waiter, and the
	// call does not wait. The error is a [*LockedError].
	ErrLocked = errors.New("lock: locked")
	// ErrNotLocked is returned when a key that is not held is broken, or one that
	// is not locked is unlocked.
	ErrNotLocked = errors.New("lock: not locked")

	// ErrLockLost is returned when a lease is used that does not hold its keys, or no longer: a zero Lease, a second
	// unlock. The error also matches the reason, one of the three below. For a lease of one key the reason is known
	// until the key is leased again; for several keys it is always known.
	ErrLockLost = errors.New("lock: lock lost")
	// ErrExpired is the reason when the TTL passed before the holder extended or
	// unlocked.
	ErrExpired = errors.New("lock: lease expired")
	// ErrBroken is the reason when [Table.Break] was called.
	ErrBroken = errors.New("lock: lease broken")
	// ErrUnlocked is the reason when the holder itself unlocked.
	ErrUnlocked = errors.New("lock: lease unlocked")

	// ErrNoFreeSlot is returned when the MaxSteps values after the last one are all
	// taken.
	ErrNoFreeSlot = errors.New("lock: no free slot")
	// ErrNotLeader is returned when a candidate that does not hold the flag resigns,
	// changes the lease, or asks for its context.
	ErrNotLeader = errors.New("lock: not the leader")
)

var errDuration = fmt.Errorf("%w: a duration must be positive", ErrConfig)

// LockedError says who is in the way. It is an [ErrLocked].
type LockedError struct {
	Key    string // the first key, in sorted order, that was not free
	Holder Held   // its holder; the zero Held (token 0) when the key is promised to a waiter
}

func (e *LockedError) Error() string {
	if e.Holder.Token == 0 {
		return fmt.Sprintf("lock: %q is promised to a waiter", e.Key)
	}
	return fmt.Sprintf("lock: %q is held by %q (token %d)", e.Key, e.Holder.Owner, e.Holder.Token)
}

// Unwrap makes the error an [ErrLocked].
func (e *LockedError) Unwrap() error { return ErrLocked }

// lostError says which lease ended and why. It is an [ErrLockLost].
type lostError struct {
	Key    string // first key of the lease; "" for the zero Lease
	Token  uint64 // token of the lease that ended
	Reason error  // [ErrExpired], [ErrBroken], [ErrUnlocked], or nil when the key has had another holder since
}

func (e *lostError) Error() string {
	if e.Reason == nil {
		return fmt.Sprintf("lock: lock lost: token %d does not hold %q", e.Token, e.Key)
	}
	return fmt.Sprintf("lock: lock lost: token %d of %q: %s", e.Token, e.Key, strings.TrimPrefix(e.Reason.Error(), "lock: "))
}

// Unwrap makes the error an [ErrLockLost] and, when known, its reason.
func (e *lostError) Unwrap() []error {
	if e.Reason == nil {
		return []error{ErrLockLost}
	}
	return []error{ErrLockLost, e.Reason}
}

// DeadlockError is returned when waiting would close a cycle of owners that wait for each
// other, or when an owner asks for a key that it holds. It names the cycle.
type DeadlockError struct {
	Cycle []Hop // one per owner, starting with the one who asked; the last leads back to it
}

// Hop is one step of a cycle: Owner waits for Key, which Holder has or will have
// first.
type Hop struct{ Owner, Key, Holder string }

func (e *DeadlockError) Error() string {
	hops := make([]string, len(e.Cycle))
	for i, hop := range e.Cycle {
		hops[i] = fmt.Sprintf("%q waits for %q of %q", hop.Owner, hop.Key, hop.Holder)
	}
	return "lock: deadlock: " + strings.Join(hops, ", ")
}

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
