package work

import (
	"errors"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/shard"
)

// inHand is what a worker has in hand, and what became of it so far. It belongs to the goroutine
// of the worker, except where something else is said.
type inHand struct {
	crew *Crew

	run   *shard.Run // what the worker works on; nil while idle
	queue *Queue     // of run
	start time.Time  // of run

	attempt *attempt.Attempt // the context of the last call of a handler
	called  time.Time        // when that was; zero: it was not, or no reader of events wanted to know
	taken   int              // items that it was called with
	errs    []error          // what became of batch; nil: all are done
	pauses  uint64           // pause.Board.Changes when it was taken in hand

	place, words int // its part of the crash recorder

	// hand guards writes to batch and attempt, and reads by others. No user code is called under its lock.
	hand  attempt.Hand
	batch []*shard.Item // what the handler gets, or has
}

// watch has the watchdog count from here, if the queue has a timeout. The lock of hand is held.
func (h *inHand) watch() {
	if q := h.queue; q.hasTime() {
		h.hand.Begin(h.crew.Watchdog, h.run, h.attempt, q.Timeout, q.Heartbeat)
	}
}

// watchAnew has the watchdog count again from here: what jobs need before they run, user code
// or the disk may be slow to give, and that is not the handler's time.
func (h *inHand) watchAnew() {
	if h.queue.hasTime() {
		h.hand.Lock()
		h.watch()
		h.hand.Unlock()
		h.crew.Watchdog.Wake()
	}
}

// setAside takes an item out of the batch.
func (h *inHand) setAside(i int) {
	h.hand.Lock()
	defer h.hand.Unlock()
	h.batch = append(h.batch[:i], h.batch[i+1:]...)
}

// mark tells the crash recorder what there is, and is left, of a batch of n.
func (h *inHand) mark(n int) {
	for i := range min(n, h.words) {
		if i < len(h.batch) {
			h.crew.Recorder.Set(h.place*h.words+i, h.queue.Core.InHand(h.batch[i])[0].Ref.Position())
		} else {
			h.crew.Recorder.Clear(h.place*h.words + i)
		}
	}
}

// undo makes the success of an item none.
func (h *inHand) undo(i int, err error) {
	h.errs = append(h.errs, make([]error, len(h.batch)-len(h.errs))...)
	h.errs[i] = err
}

func (h *inHand) failed(i int) bool { return i < len(h.errs) && h.errs[i] != nil }

// Jobs names what the worker has in hand. Any goroutine may call it.
func (h *inHand) Jobs() []admit.Owner {
	h.hand.Lock()
	defer h.hand.Unlock()
	return each.Of(h.batch, func(it *shard.Item) admit.Owner { return admit.Owner{Queue: h.queue.Name, ID: it.ID} })
}

// show returns what others see. What the worker writes without the lock of its hand, it writes
// while that is nothing.
func (h *inHand) show(now time.Time) engine.Hand {
	h.hand.Lock()
	seen := engine.Hand{Goroutine: h.hand.Goroutine}
	if seen.More = max(len(h.batch)-brief.Most, 0); len(h.batch) > 0 {
		seen.Queue, seen.Worker, seen.Since, seen.Age, seen.Timeout, seen.Stuck = h.queue.Name, h.place, h.start, now.Sub(h.start), h.queue.Timeout, h.hand.Stuck
	}
	for _, it := range h.batch[:len(h.batch)-seen.More] {
		p, retry := it.InHand()
		seen.Jobs = append(seen.Jobs, inspect.RunningJob{ID: it.ID, Attempt: retry + admin.FirstAttempt, Position: uint64(p.Ref.Position()), Payloads: len(it.Payloads)})
	}
	a := h.attempt
	h.hand.Unlock()
	if len(seen.Jobs) > 0 {
		if r, said := a.Said(); said {
			seen.Progress = &r
		}
	}
	return seen
}

// How a person ends jobs. What waits ends on its shard, in one change with all that it holds. For what runs
// the shard notes what is wanted, and has the last word when the worker gives the item back; here the
// context of its handler ends. The worker makes its context known and then looks for the note, and who has
// had the note made looks for the context: so one of the two finds the other.

// causeOf is what the context of a handler ends with.
func causeOf(r *shard.Removal) error {
	if r.Verdict == shard.VerdictDeleted {
		return attempt.ErrDeleted
	}
	return attempt.Canceled(r.Reason)
}

// heed reports whether a person wants some of what the worker has in hand to be gone.
// Then no handler is called, and the rest of its batch runs again.
func (h *inHand) heed() bool {
	r := h.removal()
	if r != nil {
		h.skip(causeOf(r))
	}
	return r != nil
}

// skip ends what is in hand before its handler is called.
func (h *inHand) skip(cause error) {
	h.attempt.End(cause)
	h.errs = slices.Repeat([]error{cause}, len(h.batch))
	for _, it := range h.batch {
		it.Outcome.Unrun = true
		admit.ClaimOf(it.Claim).Withdraw() // or a dead letter would keep it
	}
}

var errPaused = errors.New("executor: paused") // of what no handler was called for: it runs again

// paused reports whether a pause has returned that means some of what the worker has in hand, while a
// condition or user code kept it from its handler. Then none is called, and all of it goes back.
func (h *inHand) paused() bool {
	if h.pauses == h.crew.Pauses.Changes.Load() {
		return false
	}
	paused, ids := false, each.Of(h.batch, func(it *shard.Item) string { return it.ID })
	if err := h.run.Shard.Do(h.crew.Handlers, func(c *shard.Core) { paused = slices.ContainsFunc(ids, c.Paused) }); err != nil || !paused { // or it may be asked yet
		return false
	}
	h.skip(errPaused)
	return true
}

// removal returns what a person wants of what the worker has in hand. The worker calls
// it, or who has locked its hand.
func (h *inHand) removal() *shard.Removal {
	for _, it := range h.batch {
		if r := it.Removal(h.queue.Core.Single); r != nil {
			return r
		}
	}
	return nil
}

// endRemoved ends the context of what runs and is to be gone. No user code is called
// under a lock: a context may have functions that wait for its end.
func (h *inHand) endRemoved() {
	h.hand.Lock()
	a, r := h.attempt, h.removal()
	h.hand.Unlock()
	if r != nil {
		a.End(causeOf(r))
	}
}
