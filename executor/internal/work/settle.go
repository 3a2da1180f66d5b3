package work

import (
	"log/slog"
	"slices"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/await"
	"github.com/strandjobs/strand/executor/internal/followup"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/verdict"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// takeRoom takes the room that follow-ups need on the disk. The success of a job that gets none is none.
func (w *worker) takeRoom(s *attempt.Stage) {
	w.staged = make([]followup.Landing, len(w.batch))
	for i, it := range w.batch {
		if w.failed(i) {
			continue
		}
		if w.queue.Core.Single { // its attempt has one job
			it = nil
		}
		l, ok := followup.Take(w.crew.Engine, s, it)
		if w.staged[i] = l; !ok {
			w.undo(i, w.crew.Border(journal.ErrFull))
		}
	}
}

// handOn hands the follow-ups of those in the batch that are done to the shard, and drops the others.
func (w *worker) handOn() {
	all := w.staged
	w.staged = nil
	for i, l := range all {
		switch {
		case l.Room == 0:
		case w.failed(i): // after it had its room
			w.crew.Log.GiveRoomBack(l.Room)
		default:
			l.HandOn(w.batch[i], w.crew.Now)
			w.followed = true
		}
	}
}

// settle turns the errors of a batch into outcomes, from the first item that has none on.
func (w *worker) settle() {
	w.phase = settling
	if w.staged != nil {
		w.handOn()
	}
	if w.passOn() {
		return
	}
	for ; w.settled < len(w.batch); w.settled++ {
		it, unrun := w.batch[w.settled], w.uncalled(w.settled)
		if w.errs == nil || w.errs[w.settled] == nil {
			it.Outcome.Verdict, it.Outcome.Unrun = shard.VerdictDone, unrun
			continue
		}
		w.judge = verdict.Judge{
			Engine: w.crew.Engine, Rules: &w.queue.Rules, Queue: w.queue.To, Attempt: w.attempt, Unrun: unrun, Fatal: w.judge.Fatal,
		}
		w.judge.End(it, &w.errs[w.settled])
		if w.queue.Awaited.Any() {
			w.queue.noteFailure(it, w.errs[w.settled])
		}
	}
	if w.queue.Events.Watched() {
		w.queue.Events.Outcomes(w.batch, w.taken, w.errs != nil, w.called) // before user code is called
	}
	if w.judge.Fatal != nil {
		w.crew.End(w.judge.Fatal)
		w.judge.Fatal = nil
	}
	w.admission.returned()
	w.phase = ending
	w.tellExhausted()
	w.tellBuried()
	w.tellFailed()
	w.endBatch()
}

// uncalled reports whether no handler was called with the item at a place in the batch, before it is judged: it was kept
// from that, refused, or nothing of it decodes. An error that says the latter is not looked at.
func (h *inHand) uncalled(i int) bool {
	it := h.batch[i]
	refused := len(it.Outcome.Parts)
	return it.Outcome.Unrun || i >= h.taken || refused > 0 && refused == len(h.queue.Core.InHand(it))
}

// tellExhausted calls the hook for those that failed for the last time.
func (h *inHand) tellExhausted() {
	if h.queue.Exhausted == nil || h.errs == nil {
		return
	}
	last := slices.DeleteFunc(slices.Clone(h.batch), func(it *shard.Item) bool { return !h.queue.Core.Exhausts(it) })
	if len(last) > 0 {
		guard.Hook(h.crew.Logger, "RetriesExhausted", func() { h.queue.Exhausted(h.crew.Handlers, last) })
	}
}

// tellBuried logs what of the batch goes to the morgue.
func (h *inHand) tellBuried() {
	for _, it := range h.batch {
		if n, first, reason := h.queue.Doomed(it); n > 0 {
			q, id, at := h.queue, it.ID, uint64(it.Payloads[first].Ref.Position())
			q.say(it, func() { q.Lines.Buried(id, at, reason, slog.Int("payloads", n)) }, nil)
		}
	}
}

// say logs what becomes of an item. A state may give way to a newer one yet: then it has not died, or halted its id. So
// that is said, and told, by the shard, on a goroutine of its own: a logger is user code.
func (q *Queue) say(it *shard.Item, line func(), told *events.Event) {
	if q.Core.Merge != shard.MergeSupersede {
		line()
		return
	}
	it.Outcome.Say = func() {
		if told != nil {
			q.Events.Tell(*told)
		}
		go line()
	}
}

// tellFailed logs the failures of the batch that are neither burials nor panics,
// which have lines of their own.
func (h *inHand) tellFailed() {
	if h.errs == nil {
		return
	}
	for i, it := range h.batch {
		_, panicked := guard.StackOf(h.errs[i])
		switch exhausted := h.queue.Core.Exhausts(it); {
		case it.Outcome.Verdict != shard.VerdictFailed:
		case exhausted && h.queue.Core.Halt:
			q, id, attempt, reason := h.queue, it.ID, it.Retry+admin.FirstAttempt, it.Outcome.Error
			q.say(it, func() { q.Lines.Halted(id, attempt, reason) }, q.Events.Halted(it))
		case !exhausted && !panicked:
			h.queue.Lines.Failed(it.ID, it.Retry+admin.FirstAttempt, it.Outcome.Error)
		}
	}
}

// noteFailure tells those who wait for the payloads of an item why they are not done.
func (q *Queue) noteFailure(it *shard.Item, err error) {
	_ = guard.Call(func() error { // methods of the error are user code
		each := q.Wish(it, err).Payloads
		parts := it.Outcome.Parts
		for i, p := range q.Core.InHand(it) {
			at, verdict, own := p.Ref.Position(), it.Outcome.Verdict, err
			if len(parts) > 0 && parts[0].Index == i {
				verdict, parts = parts[0].Verdict, parts[1:]
			}
			if named := each[uint64(at)]; named != nil && q.Apart {
				own = named
			}
			switch verdict {
			case shard.VerdictDiscarded:
				q.Awaited.Ending(at, await.Discarded)
			case shard.VerdictFailed, shard.VerdictCanceled:
				q.Awaited.Failed(at, own)
			case shard.VerdictSnoozed, shard.VerdictInterrupted:
				q.Awaited.Ending(at, await.Done) // in a later attempt
			}
		}
		return nil
	})
}

// Record writes down what the shards of the queue decide. It implements [shard.Recorder].
func (q *Queue) Record(c *shard.Change) {
	if q.Events.Watched() {
		defer q.Events.Decided(c)()
	}
	if len(c.Heirs)+len(c.Merged) > 0 {
		q.Suspects.Follow(c)
	}
	locks := len(c.Staged) > 0 && followup.Land(c)
	if q.Admission == nil && !locks {
		q.Log.Record(&c.Change)
	} else {
		q.Ledger.Settle(q.Admission, c, func() { followup.Lock(c, q.Keys) })
		followup.Locked(c)
	}
	q.Crew.Quarantine.Ended(q.Name, c)
	q.Backlog.Settle(c.Over, c.Surplus)
	if q.Awaited.Any() {
		q.Awaited.Record(c, q.Log.Recorded(&c.Change))
	}
	if len(c.Buried) > 0 {
		q.Dead.Buried()
	}
	if c.After != nil {
		c.After()
	}
}
