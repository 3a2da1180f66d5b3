package executor

import (
	"errors"

	"github.com/strandjobs/strand/shard"
)

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
	w.attempt.end(cause)
	w.errs = repeat(cause, len(w.batch))
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
		w.mu.Lock()
		a, r := w.attempt, w.removal()
		w.mu.Unlock()
		if r != nil {
			a.end(causeOf(r))
		}
	}
}

// byHand reports whether a person has ended it.
func (a *attempt) byHand() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return errors.Is(a.ended, ErrCanceledByOperator) || errors.Is(a.ended, ErrDeletedByOperator)
}

// claimOfNone is that of a job that ends without a worker.
func (q *queue) claimOfNone(id string) shard.Held {
	if q.admission == nil {
		return nil
	}
	return q.admission.Claim(id, nil)
}

// remover returns what ends the payloads of an id on its shard, as a removal says.
func (q *queue) remover(r shard.Removal) func(c *shard.Core, now int64, id string) int {
	return func(c *shard.Core, now int64, id string) int {
		own := r
		own.Claim = q.claimOfNone(id)
		ended, inHand := c.Remove(now, id, &own)
		return ended + inHand
	}
}
