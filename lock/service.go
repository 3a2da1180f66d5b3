package lock

import (
	"context"
	"time"
)

// Service keeps locked keys elsewhere than in the executor, for example in another process. Any
// caller may lock or unlock them. The jobs of a queue wait for them if Locks.Service is set.
//
// All methods may be called by any number of goroutines. When Lock or Unlock returns nil, a later Locked sees the
// change; when it returns an error, nothing was changed. An error, of Locked, too, fails the call that enqueues, or the
// run; only not [ErrNotLocked], which Unlock may return for a key that is not locked: the executor may unlock twice
// around a crash.
type Service interface {
	Lock(ctx context.Context, key string) error
	Unlock(ctx context.Context, key string) error
	Locked(ctx context.Context, key string) (bool, error)
}

// Watcher is a [Service] that can tell when a key becomes unlocked, so that a
// blocked job need not ask again and again. Watch calls wake once, after the change
// is visible and with no mutex held, when key becomes unlocked, and returns true;
// or returns false, without calling wake, when key is not locked now. cancel
// forgets the wake, may be called more than once, and may be too late for one on
// its way.
type Watcher interface {
	Service
	Watch(key string, wake func()) (cancel func(), locked bool)
}

// LockedHandler is a [Service] that decides itself what becomes of a job that some
// locked keys block.
type LockedHandler interface {
	// HandleLockedBy is called each time a worker comes to a job that locked keys block:
	// keys are those, in the order of Locks.BlockedBy. It may let the job wait, come back
	// after a delay, fail, or drop it, and may enqueue another one before: with ctx, that
	// is as if a handler did so. What it enqueues is not in one commit with what becomes
	// of the job: after a crash in between it is called again.
	HandleLockedBy(ctx context.Context, job Job, keys []string) Decision
}

// Job is a job of package executor that is about to run, without the type of its
// payloads.
type Job struct {
	Queue, ID string
	Attempt   int // that it is about to make: 1, 2, 3, …

	// Payloads of the run, each of the type that its queue has, in score order; one with
	// executor.Handle. Those that the codec refuses are left out.
	Payloads []any
}

// Decision is what becomes of a job that is blocked. The zero value lets it wait: it keeps
// its place, and runs when the keys are unlocked, which spends no retry. Of several fields
// that are set the first one counts.
type Decision struct {
	Skip  bool          // it is not run at all
	Fail  error         // not nil: a failed attempt with this error, and the normal retry with back-off
	After time.Duration // above 0: it comes back after this, which spends no retry
}
