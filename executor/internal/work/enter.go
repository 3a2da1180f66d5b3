package work

import (
	"log/slog"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// enter finds out which jobs of the batch may run now. What some of them have must be on
// disk before the others are asked for the rest, however long that takes.
func (w *worker) enter() {
	for _, it := range w.batch { // before user code may end the goroutine
		it.Claim = w.queue.Admission.Claim(it.ID, it)
	}
	w.enterAll(false)
	if !w.queue.Admission.Durable() || len(w.batch) == 0 {
		return
	}
	if !w.crew.Volatile {
		w.hand.Lock()
		w.hand.End(w.crew.Watchdog) // until watchAnew: a slow disk says so itself
		w.hand.Unlock()
		if err := w.crew.Log.Settled(w.crew.Starting); err != nil {
			for len(w.batch) > 0 {
				w.refuse(0, err)
			}
		}
		w.watchAnew()
	}
	w.enterAll(true)
}

// enterAll removes from the batch the jobs that can't run now: those that have to wait go
// back to their shard, the others won't run.
func (w *worker) enterAll(late bool) {
	defer w.mark(len(w.batch))
	for i := 0; i < len(w.batch); {
		it := w.batch[i]
		c := admit.ClaimOf(it.Claim)
		switch err := c.Enter(w.crew.Handlers, late); err {
		case nil:
			i++
		case admit.ErrWaits:
			w.setAside(i)
			w.postpone(it, c)
		default:
			w.refuse(i, err)
		}
	}
}

// refuse sets an item aside that does not run, with what becomes of it.
func (w *worker) refuse(i int, err error) {
	w.refused, w.refusals = append(w.refused, w.batch[i]), append(w.refusals, err)
	w.setAside(i)
}

// setAside takes an item out of the batch.
func (w *worker) setAside(i int) {
	w.hand.Lock()
	defer w.hand.Unlock()
	w.batch = append(w.batch[:i], w.batch[i+1:]...)
}

// postpone gives a job back that has to wait. If it is woken before the shard hears
// of it, it is not parked.
func (w *worker) postpone(it *shard.Item, waits *admit.Claim) {
	w.crew.Quarantine.StandAside(w.queue.Name, it.ID)
	q, id := w.queue, it.ID // it is the shard's in a moment
	if q.Events.Watched() {
		q.Events.Parked(it)
	}
	w.run.Shard.Tell(func(c *shard.Core) {
		c.Postpone(it, !waits.Woken())
		q.Admission.StepAside(c, id)
	})
}

// mark tells the crash recorder what there is, and is left, of a batch of n.
func (w *worker) mark(n int) {
	for i := range min(n, w.words) {
		if i < len(w.batch) {
			w.crew.Recorder.Set(w.place*w.words+i, w.queue.Core.InHand(w.batch[i])[0].Ref.Position())
		} else {
			w.crew.Recorder.Clear(w.place*w.words + i)
		}
	}
}

// rejoin puts what was refused back into the batch, with what was said of it.
func (w *worker) rejoin() {
	if len(w.refused) == 0 {
		return
	}
	if w.errs == nil {
		w.errs = make([]error, len(w.batch))
	}
	w.errs = append(w.errs, w.refusals...)
	w.hand.Lock()
	w.batch = append(w.batch, w.refused...)
	w.hand.Unlock()
	w.refused, w.refusals = nil, nil
}

// engaged calls the handler, which keeps what the batch holds. The attempt ends with the
// first lease that is lost.
func (w *worker) engaged(handle func()) {
	forgets := make([]func(), 0, len(w.batch))
	defer func() {
		for _, forget := range forgets {
			forget()
		}
	}()
	for _, it := range w.batch {
		forgets = append(forgets, admit.ClaimOf(it.Claim).Watch(w.attempt.End))
	}
	handle()
	for i, it := range w.batch { // what the job holds may have a part in its success
		if w.failed(i) {
			continue
		}
		if err := admit.ClaimOf(it.Claim).Conclude(w.crew.Handlers); err != nil {
			w.crew.Logger.Error("job did its work, but not its locks",
				slog.String("queue", w.queue.Name), slog.String("id", it.ID), slog.Any("error", err))
			w.undo(i, err)
		}
	}
}

// returned ends what the batch holds only while its handler runs.
func (w *worker) returned() {
	if w.queue.Admission.Asked() {
		for _, it := range w.batch {
			admit.ClaimOf(it.Claim).Returned()
		}
	}
}

// Payloads decodes what a worker has in hand. What does not decode asks for nothing.
func (q *Queue) Payloads(it *shard.Item) (all []admit.Payload, err error) {
	for i, p := range q.Core.InHand(it) {
		var e journal.Entry
		if err := p.Ref.Read(&e); err != nil {
			return nil, &Unread{Err: err}
		}
		if it.Folded != nil {
			if i > 0 {
				break // they became one
			}
			e.Payload = it.Folded
		}
		if value, err := q.Decode(e.Payload); err == nil {
			all = append(all, admit.Payload{Position: uint64(e.Position), Raw: e.Payload, Value: value})
		}
	}
	return all, nil
}
