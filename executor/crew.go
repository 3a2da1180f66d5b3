package executor

import (
	"errors"
	"log/slog"
	"slices"

	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/shard"
)

// hire starts a worker with a place in the crash recorder. x.mu is held.
func (x *Executor) hire(place int) {
	w := &worker{x: x, seat: x.dispatcher.Seat(), place: place, words: x.words}
	w.hand.Worker = w
	x.workers = append(x.workers, w)
	x.dispatcher.Expect(len(x.workers))
	x.working.Go(w.main)
}

// crew returns the workers there are now.
func (x *Executor) crew() []*worker {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.workers)
}

// newWatchdog returns what looks after the workers. Their handlers are stuck when their time
// has been over for Config.Stuck.After.
func (x *Executor) newWatchdog() *attempt.Watchdog {
	hands := func() (all []*attempt.Hand) {
		for _, w := range x.crew() {
			all = append(all, &w.hand)
		}
		return all
	}
	return attempt.NewWatchdog(attempt.Config{After: x.cfg.Stuck.After, Hands: hands, Replace: x.replace, Report: func(s attempt.Stuck) {
		x.cfg.Logger.Error("handler is stuck", slog.Any("jobs", s.Worker.(*worker).jobs()),
			slog.Duration("after", s.Age), slog.String("stack", s.Goroutine.Stack()))
	}})
}

// hasTime reports whether the watchdog has to look at the handlers of the queue.
func (q *queue) hasTime() bool { return q.timeout > 0 || q.heartbeat > 0 }

// replace starts a worker in the place of a stuck one, if there is a spare one and
// the batch is still in hand.
func (x *Executor) replace(s attempt.Stuck) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state != started || len(x.spares) == 0 {
		return
	}
	w := s.Worker.(*worker)
	w.hand.Lock()
	defer w.hand.Unlock()
	run := w.hand.Replace(s)
	if run == nil {
		return
	}
	// The worker can't give the run back before this is in the mailbox.
	run.Shard.Tell(func(c *shard.Core) { c.Exempt(run) })
	x.dispatcher.Excuse(w.seat)
	last := len(x.spares) - 1
	x.hire(x.spares[last])
	x.spares = x.spares[:last]
}

// dismiss lets a worker go that was replaced and has returned after all. Its place
// is free for another one.
func (x *Executor) dismiss(w *worker) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.workers = slices.DeleteFunc(x.workers, func(other *worker) bool { return other == w })
	x.spares = append(x.spares, w.place)
	x.dispatcher.Expect(len(x.workers))
}

// How a person ends jobs. What waits ends on its shard, in one change with all that it
// holds. For what runs the shard notes what is wanted, and has the last word when the
// worker gives the item back; here the context of its handler ends. The worker makes
// its context known and then looks for the note, and who has had the note made looks
// for the context: so one of the two finds the other.

// causeOf is what the context of a handler ends with.
func causeOf(r *shard.Removal) error {
	if r.Verdict == shard.VerdictDeleted {
		return ErrDeletedByOperator
	}
	return canceledByHand(r.Reason)
}

// canceledByHand is ErrCanceledByOperator with what the person says.
type canceledByHand string

func (c canceledByHand) Error() string { return string(c) }

// Unwrap returns ErrCanceledByOperator.
func (c canceledByHand) Unwrap() error { return ErrCanceledByOperator }

// heed reports whether a person wants some of what the worker has in hand to be gone.
// Then no handler is called, and the rest of its batch runs again.
func (w *worker) heed() bool {
	r := w.removal()
	if r == nil {
		return false
	}
	cause := causeOf(r)
	w.attempt.End(cause)
	w.errs = slices.Repeat([]error{cause}, len(w.batch))
	return true
}

var errPaused = errors.New("executor: paused") // of what no handler was called for: it runs again

// paused reports whether a pause has returned that means some of what the worker has in hand, while a
// condition or user code kept it from its handler. Then none is called, and all of it goes back.
func (w *worker) paused() bool {
	if w.pauses == w.x.pauses.Changes.Load() {
		return false
	}
	paused, ids := false, make([]string, len(w.batch))
	for i, it := range w.batch {
		ids[i] = it.ID
	}
	if err := w.run.Shard.Do(w.x.handlers, func(c *shard.Core) { paused = slices.ContainsFunc(ids, c.Paused) }); err != nil || !paused { // or it may be asked yet
		return false
	}
	w.attempt.End(errPaused)
	w.errs = slices.Repeat([]error{errPaused}, len(w.batch))
	return true
}

// removal returns what a person wants of what the worker has in hand. The worker calls
// it, or a holder of mu.
func (w *worker) removal() *shard.Removal {
	for _, it := range w.batch {
		if r := it.Removal(w.queue.core.Single); r != nil {
			return r
		}
	}
	return nil
}

// endRemoved ends the contexts of what runs and is to be gone. No user code is called
// under a lock: a context may have functions that wait for its end.
func (x *Executor) endRemoved() {
	for _, w := range x.crew() {
		w.hand.Lock()
		a, r := w.attempt, w.removal()
		w.hand.Unlock()
		if r != nil {
			a.End(causeOf(r))
		}
	}
}

// claimOfNone is that of a job that ends without a worker.
func (q *queue) claimOfNone(id string) shard.Held {
	if q.Admission == nil {
		return nil
	}
	return q.Admission.Claim(id, nil)
}
