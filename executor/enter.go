package executor

import (
	"log/slog"
	"sync/atomic"

	"github.com/strandjobs/strand/lock"
	"github.com/strandjobs/strand/shard"
)

// enter finds out which jobs of the batch may run now.
func (w *worker) enter() {
	if w.admitAll() {
		return
	}
	// A slot that a handler has seen must never be another job's.
	if !w.x.volatile {
		if err := w.x.log.Settled(w.x.handlers); err != nil {
			w.refuseAll(err)
		}
	}
	w.startLate()
}

// startLate goes on with those that have slots, which are on disk now, however long that
// took. The time of a slot counts from here, and so does a start under a limit. A job
// whose slot has expired meanwhile asks for another one.
func (w *worker) startLate() {
	defer w.remark(len(w.batch))
	for i := 0; i < len(w.batch); {
		it := w.batch[i]
		c := claimOf(it.Claim)
		woken := c.renewSlots()
		if len(c.slots) > 0 && w.queue.locking.limited {
			woken, _ = w.passLimits(it, c, woken, nil)
		}
		if woken == nil {
			i++
			continue
		}
		c.withdraw()
		w.setAside(i)
		w.postpone(it, woken)
	}
}

// renewSlots returns nil if the job has its slots, and otherwise says that it may ask again.
func (c *claim) renewSlots() (woken *atomic.Bool) {
	for _, s := range c.slots {
		if !s.renew() {
			woken = new(atomic.Bool)
			woken.Store(true)
		}
	}
	return woken
}

// admitAll sends those of the batch that have to wait back to their shard, and sets
// those aside that won't run. It reports whether nothing that the others got has to
// be on disk before they run.
func (w *worker) admitAll() (durable bool) {
	defer w.remark(len(w.batch))
	for _, it := range w.batch { // before user code may end the goroutine
		it.Claim = &claim{queue: w.queue, by: holder{Queue: w.queue.name, ID: it.ID}}
	}
	durable = true
	for i := 0; i < len(w.batch); {
		it := w.batch[i]
		c := claimOf(it.Claim)
		switch woken, err := w.admit(it, c); {
		case woken != nil:
			w.setAside(i)
			w.postpone(it, woken)
		case err != nil:
			w.setAside(i)
			w.refused, w.refusals = append(w.refused, it), append(w.refusals, err)
		default:
			durable = durable && len(c.slots) == 0
			i++
		}
	}
	return durable
}

// admit takes all that a job needs before it runs. A job that has to wait holds
// nothing, and woken says later that it may go on. An error says what becomes of a
// job that does not run.
func (w *worker) admit(it *shard.Item, c *claim) (woken *atomic.Bool, err error) {
	l := &w.queue.locking
	c.place = w.x.locks.takePlace(c.by)
	woken = w.awaitTurn(it, c)
	var want wants
	if woken == nil {
		want, err = l.wants(it)
	}
	if woken == nil && err == nil {
		woken, err = w.pass(it, c, want)
	}
	if woken == nil && err == nil && len(want.unique) > 0 {
		woken, err = w.passUnique(it, c, want.unique)
	}
	for i := 0; woken == nil && err == nil && i < len(l.slots); i++ {
		woken, err = w.reserve(it, c, l.slots[i], want.job(w.queue, it))
	}
	c.needs = want.limits
	if l.limited && (woken != nil || err != nil || len(c.slots) == 0) { // else startLate does
		woken, err = w.passLimits(it, c, woken, err)
	}
	if woken != nil || err != nil {
		c.withdraw()
		return woken, err
	}
	c.unlock = want.unlock
	return nil, nil
}

// setAside takes an item out of the batch.
func (w *worker) setAside(i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.batch = append(w.batch[:i], w.batch[i+1:]...)
}

// remark tells the crash recorder what is left of a batch of n.
func (w *worker) remark(n int) {
	for i := range min(n, w.words) {
		if i < len(w.batch) {
			w.x.running.Set(w.place*w.words+i, w.batch[i].Payloads[0].Ref.Position())
		} else {
			w.x.running.Clear(w.place*w.words + i)
		}
	}
}

func (w *worker) refuseAll(err error) {
	for len(w.batch) > 0 {
		c := claimOf(w.batch[0].Claim)
		c.withdraw()
		if w.queue.locking.limited {
			_, _ = w.passLimits(w.batch[0], c, nil, err)
		}
		w.refused, w.refusals = append(w.refused, w.batch[0]), append(w.refusals, err)
		w.setAside(0)
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
	w.mu.Lock()
	w.batch = append(w.batch, w.refused...)
	w.mu.Unlock()
	w.refused, w.refusals = nil, nil
}

// keepAlive keeps what the batch holds while the handler runs.
func (w *worker) keepAlive() {
	for _, it := range w.batch {
		claimOf(it.Claim).keepAlive()
	}
}

// engaged calls the handler. The attempt ends with the first lease that is lost.
func (w *worker) engaged(handle func()) {
	forgets := make([]func(), 0, len(w.batch))
	defer func() {
		for _, forget := range forgets {
			forget()
		}
	}()
	for _, it := range w.batch {
		forgets = append(forgets, claimOf(it.Claim).watch(w.attempt.end))
	}
	handle()
	w.conclude()
}

// conclude completes a success: a service of the queue's own unlocks what the
// journal does not, and a slot that was lost meanwhile may be another job's.
func (w *worker) conclude() {
	for i, it := range w.batch {
		if i < len(w.errs) && w.errs[i] != nil {
			continue
		}
		if err := w.concludeOne(claimOf(it.Claim)); err != nil {
			w.x.cfg.Logger.Error("job did its work, but not its locks",
				slog.String("queue", w.queue.name), slog.String("id", it.ID), slog.Any("error", err))
			w.errs = append(w.errs, make([]error, len(w.batch)-len(w.errs))...)
			w.errs[i] = err
		}
	}
}

func (w *worker) concludeOne(c *claim) error {
	for _, s := range c.slots {
		if !s.renew() {
			return lock.ErrLockLost
		}
	}
	if w.queue.locking.service == nil {
		return nil
	}
	keys := make([]string, len(c.unlock))
	for i, u := range c.unlock {
		keys[i] = u.Key
	}
	c.unlock = nil
	return w.queue.locking.unlockAll(w.x.handlers, keys)
}
