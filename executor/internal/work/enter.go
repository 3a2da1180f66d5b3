package work

import (
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/shard"
)

// admission has what is in hand meet the conditions of its queue: before its handler is called,
// while that runs, and when it has returned.
type admission struct {
	*inHand
	refused  []*shard.Item // of batch: those that did not get what they need to run
	refusals []error       // and why

	// How far it has come, for the next goroutine if user code ends this one.
	late   bool // the disk has what the first conditions give
	ran    bool // the handler has returned
	at     int  // in batch: the job that is next
	asking bool // user code is called for it
}

// begin makes the claims of the batch: before user code may end the goroutine.
func (a *admission) begin() {
	for _, it := range a.batch {
		it.Claim = a.queue.Admission.Claim(it.ID, it)
	}
	a.late, a.ran, a.at = false, false, 0
}

// ask calls user code for the job that is next. If that has ended the goroutine, the next one says so.
func (a *admission) ask(call func() error) error {
	if a.asking {
		a.asking = false
		return attempt.ErrExited
	}
	a.asking = true
	err := call()
	a.asking = false
	return err
}

// enter finds out which jobs of the batch may run now. What some of them have must be on
// disk before the others are asked for the rest, however long that takes.
func (a *admission) enter() {
	if !a.late {
		a.enterAll()
		if !a.queue.Admission.Durable() || len(a.batch) == 0 {
			return
		}
		if !a.crew.Volatile {
			a.hand.Lock()
			a.hand.End(a.crew.Watchdog) // until watchAnew: a slow disk says so itself
			a.hand.Unlock()
			if err := a.crew.Log.Settled(a.crew.Starting); err != nil {
				for len(a.batch) > 0 {
					a.batch[0].Outcome.Unrun = true
					admit.ClaimOf(a.batch[0].Claim).Withdraw()
					a.refuse(0, err)
				}
			}
			a.watchAnew()
		}
		a.late, a.at = true, 0
	}
	a.enterAll()
}

// enterAll removes from the batch the jobs that can't run now: those that have to wait go
// back to their shard, the others won't run.
func (a *admission) enterAll() {
	defer a.mark(len(a.batch))
	for a.at < len(a.batch) {
		it := a.batch[a.at]
		c := admit.ClaimOf(it.Claim)
		switch err := a.ask(func() error { return c.Enter(a.crew.Handlers, a.late) }); err {
		case nil:
			a.at++
		case admit.ErrWaits:
			a.setAside(a.at)
			a.postpone(it, c)
		default:
			c.Withdraw() // it has not, if it has ended the goroutine
			a.refuse(a.at, err)
		}
	}
}

// refuse sets an item aside that does not run, with what becomes of it.
func (a *admission) refuse(i int, err error) {
	a.refused, a.refusals = append(a.refused, a.batch[i]), append(a.refusals, err)
	a.setAside(i)
}

// postpone gives a job back that has to wait. If it is woken before the shard hears
// of it, it is not parked.
func (a *admission) postpone(it *shard.Item, waits *admit.Claim) {
	a.crew.Quarantine.StandAside(a.queue.Name, it.ID)
	q, id := a.queue, it.ID // it is the shard's in a moment
	if q.Events.Watched() {
		q.Events.Parked(it)
	}
	a.run.Shard.Tell(func(c *shard.Core) {
		c.Postpone(it, !waits.Woken())
		q.Admission.Yield(c, id)
	})
}

// rejoin puts what was refused back into the batch, with what was said of it.
func (a *admission) rejoin() {
	if len(a.refused) == 0 {
		return
	}
	a.errs = append(append(a.errs, make([]error, len(a.batch)-len(a.errs))...), a.refusals...)
	a.hand.Lock()
	a.batch = append(a.batch, a.refused...)
	a.hand.Unlock()
	a.refused, a.refusals = nil, nil
}

// engaged calls the handler, which keeps what the batch holds. The attempt ends with the
// first lease that is lost.
func (a *admission) engaged(handle func()) {
	for _, it := range a.batch {
		defer admit.ClaimOf(it.Claim).Watch(a.attempt.End)()
	}
	handle()
	a.ran, a.at = true, 0
	a.concludeAll()
}

// concludeAll has what the jobs hold that are done have its part in that.
func (a *admission) concludeAll() {
	for ; a.at < len(a.batch); a.at++ {
		if a.failed(a.at) {
			continue
		}
		c := admit.ClaimOf(a.batch[a.at].Claim)
		if err := a.ask(func() error { return c.Conclude(a.crew.Handlers, shard.VerdictDone) }); err != nil {
			a.undo(a.at, err)
		}
	}
}

// returned ends what the batch holds only while its handler runs.
func (a *admission) returned() {
	if a.queue.Admission.Asked() {
		for _, it := range a.batch {
			admit.ClaimOf(it.Claim).Returned()
		}
	}
}
