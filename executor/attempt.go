package executor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/shard"
)

// attempt is the context of one call of a handler. Most handlers never wait for
// theirs, so what one can wait for is made when it is asked for: two contexts and a
// timer would cost more than all else that happens to a job.
type attempt struct {
	parent   context.Context // of all handlers
	deadline time.Time       // from the call of the handler on; zero: none
	called   time.Time       // when the handler was; zero: it was not, or no reader of events wanted to know

	// mu guards what follows. No user code is called under it.
	mu     sync.Mutex
	ended  error           // the cause; nil: the attempt goes on
	queue  *queue          // of the handler; nil before its call
	inHand []*shard.Item   // what the handler was called with; nil once that is over
	full   context.Context // nil until the handler asks for it
	cancel context.CancelCauseFunc
	staged *attemptStage // see landing.go; nil: nothing yet

	worker *worker // set before the handler is called
}

// attemptsAtOnce are made in one allocation.
const attemptsAtOnce = 32

// newAttempt begins the context of the next call of a handler. Contexts are not
// used again, because a goroutine that a handler left behind may have one. w.mu is
// held.
func (w *worker) newAttempt() *attempt {
	if len(w.attempts) == 0 {
		w.attempts = make([]attempt, attemptsAtOnce)
	}
	w.attempt, w.attempts = &w.attempts[0], w.attempts[1:]
	w.attempt.parent, w.attempt.worker = w.x.handlers, w
	if w.queue.heartbeat > 0 {
		w.hand.attempt = w.attempt
	}
	return w.attempt
}

// takeOn says what the handler is called with. Its time counts from here: before, its jobs
// may have waited for the disk.
func (a *attempt) takeOn(q *queue, items []*shard.Item) {
	a.queue, a.inHand = q, items
	if q.timeout > 0 {
		a.deadline = time.Now().Add(q.timeout)
	}
}

// late reports whether the deadline is over.
func (a *attempt) late() bool { return !a.deadline.IsZero() && !time.Now().Before(a.deadline) }

// end ends the context with a cause. Only the first one counts.
func (a *attempt) end(cause error) {
	a.mu.Lock()
	if a.ended == nil {
		a.ended = cause
	}
	if cause == ErrReturned {
		a.inHand = nil // it is the shard's again
	}
	cancel := a.cancel
	a.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}

// whole returns a context that can be waited for.
func (a *attempt) whole() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.full == nil {
		a.full, a.cancel = context.WithCancelCause(a.parent)
		if a.ended != nil {
			a.cancel(a.ended)
		} else if !a.deadline.IsZero() {
			a.addDeadline()
		}
	}
	return a.full
}

func (a *attempt) addDeadline() {
	cancel := a.cancel
	full, stop := context.WithDeadlineCause(a.full, a.deadline, ErrTimeout)
	a.full, a.cancel = full, func(cause error) {
		cancel(cause)
		stop()
	}
}

// Deadline implements [context.Context].
func (a *attempt) Deadline() (time.Time, bool) { return a.deadline, !a.deadline.IsZero() }

// Done implements [context.Context].
func (a *attempt) Done() <-chan struct{} { return a.whole().Done() }

// Err implements [context.Context].
func (a *attempt) Err() error {
	a.mu.Lock()
	plain := a.full == nil && a.ended == nil
	a.mu.Unlock()
	if plain && !a.late() {
		return a.parent.Err()
	}
	return a.whole().Err()
}

// Value implements [context.Context].
func (a *attempt) Value(key any) any {
	if key == (attemptKey{}) {
		return a
	}
	if key == (handlerKey{}) { // what is asked with it is for handlers that still run
		a.mu.Lock()
		over := a.ended != nil
		a.mu.Unlock()
		if over {
			return nil
		}
		return a.parent.Value(key)
	}
	return a.whole().Value(key)
}

// inherited gives the contexts of handlers their values: those of the context that
// Start was called with, and nothing else of it.
type inherited struct {
	context.Context
	from atomic.Pointer[context.Context]
}

// Value implements [context.Context].
func (i *inherited) Value(key any) (value any) {
	if from := i.from.Load(); from != nil {
		_ = guarded(func() error { value = (*from).Value(key); return nil })
	}
	return value
}

func (i *inherited) inherit(ctx context.Context) { i.from.Store(new(context.WithoutCancel(ctx))) }
