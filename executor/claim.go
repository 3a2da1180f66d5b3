package executor

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
	"github.com/strandjobs/strand/shard"
)

// claim is what a job has while it runs: the keys that its success unlocks, its
// lease, its slots. It goes back in the commit that settles the job. That of a
// job that was refused is empty.
type claim struct {
	queue  *queue
	by     holder
	unlock []string
	fresh  []*hold  // keys that this very run has locked
	served []string // the same, of a service of the queue's own

	place *place     // where it has waited for its lease; nil: nowhere
	lease lock.Lease // zero: the job is not unique
	beat  *time.Timer
	slots []slotClaim
}

// place is where a job waits for its lease.
type place struct {
	*lock.Place
	woken *atomic.Bool
}

// lost returns why the job no longer has what it was started with, or nil.
func (c *claim) lost() error {
	if c.lease != (lock.Lease{}) && !c.lease.Held() {
		return lock.ErrLockLost
	}
	for _, s := range c.slots {
		if s.lost() {
			return lock.ErrLockLost
		}
	}
	return nil
}

// watch calls f with the reason when a lease is lost, until forget is called.
func (c *claim) watch(f func(reason error)) (forget func()) {
	lost := func(reason error) {
		if !errors.Is(reason, lock.ErrUnlocked) { // a slot that was cleared by hand
			f(reason)
		}
	}
	forgets := make([]func(), 0, 1+len(c.slots))
	if c.lease != (lock.Lease{}) {
		forgets = append(forgets, c.lease.OnEnd(lost))
	}
	for _, s := range c.slots {
		forgets = append(forgets, s.lease().OnEnd(lost))
	}
	return func() {
		for _, forget := range forgets {
			forget()
		}
	}
}

// keepAlive extends the leases while the job runs.
func (c *claim) keepAlive() {
	if c.lease != (lock.Lease{}) {
		q := c.queue
		c.beat = every(q.x, q.locking.heartbeat, func() bool { return c.lease.Extend(q.locking.leaseTTL) == nil })
	}
	for _, s := range c.slots {
		s.keepAlive()
	}
}

// every calls f again and again, until it returns false, the timer is stopped,
// or the executor has stopped: a handler that is left behind keeps no lease.
func every(x *Executor, d time.Duration, f func() bool) *time.Timer {
	var timer *time.Timer
	ready := make(chan struct{})
	timer = time.AfterFunc(d, func() {
		<-ready
		if context.Cause(x.handlers) == nil && f() {
			timer.Reset(d)
		}
	})
	close(ready)
	return timer
}

// settleSlots decides about the slots and returns what the journal has to know.
func (c *claim) settleSlots(v shard.Verdict, over bool) (sets []journal.Set) {
	for _, s := range c.slots {
		sets = append(sets, s.settle(v, over)...)
	}
	return sets
}

// release ends the lease. Whoever waits for it is woken.
func (c *claim) release() {
	if c.beat != nil {
		c.beat.Stop()
	}
	if c.lease != (lock.Lease{}) {
		_ = c.lease.Unlock() // it may be lost
	}
	if c.place != nil {
		c.place.Cancel()
	}
}

// withdraw gives back what was taken for a job that does not run now.
func (c *claim) withdraw() {
	if err := c.queue.locking.unlockAll(c.queue.x.handlers, c.served); err != nil {
		c.queue.x.cfg.Logger.Error("keys of a job that does not run stay locked", slog.Any("error", err))
	}
	if len(c.fresh)+len(c.slots) > 0 {
		l, change := &c.queue.x.locks, new(journal.Change)
		l.change(change, func(b *barrier) {
			l.dropAll(b, c.fresh)
			change.Sets = c.settleSlots(shard.Unstarted, false)
		})
	}
	c.release()
	*c = claim{queue: c.queue, by: c.by}
}

// enter finds out which jobs of the batch may run now.
func (w *worker) enter() {
	if durable := w.admitAll(); durable || w.x.volatile {
		return
	}
	// A slot that a handler has seen must never be another job's.
	err := w.x.log.Flush(w.x.handlers)
	if errors.Is(err, journal.ErrFull) {
		err = Snooze(askAgain) // that is not the job's fault
	}
	if err != nil {
		w.refuseAll(err)
	}
}

// admitAll sends those of the batch that have to wait back to their shard, and
// sets those aside that won't run. It reports whether nothing that the others
// got has to be on disk before they run.
func (w *worker) admitAll() (durable bool) {
	defer w.remark(len(w.batch))
	durable = true
	for i := 0; i < len(w.batch); {
		it := w.batch[i]
		c := &claim{queue: w.queue, by: holder{w.queue.name, it.ID}}
		it.Claim = c // from now on: user code may end the goroutine
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
// nothing: it is told by what it will be woken. An error says what becomes of
// one that does not run.
func (w *worker) admit(it *shard.Item, c *claim) (woken *atomic.Bool, err error) {
	l := &w.queue.locking
	c.place = w.x.locks.takePlace(c.by)
	want, err := l.wants(it)
	if err == nil {
		woken, err = w.pass(it, c, want)
	}
	if woken == nil && err == nil && len(want.unique) > 0 {
		woken, err = w.passUnique(it, c, want.unique)
	}
	for i := 0; woken == nil && err == nil && i < len(l.slots); i++ {
		woken, err = w.reserve(it, c, l.slots[i])
	}
	if woken != nil || err != nil {
		c.withdraw()
		return woken, err
	}
	c.unlock = want.unlock
	return nil, nil
}

// pass locks what the job locks when it runs, unless it is blocked.
func (w *worker) pass(it *shard.Item, c *claim, want wants) (woken *atomic.Bool, err error) {
	l := &w.queue.locking
	if len(want.blockedBy)+len(want.set) == 0 {
		return nil, nil
	}
	if l.service != nil {
		return w.passService(it, c, want)
	}
	r := request{c.by, want.blockedBy, want.set, int64(l.ttl)}
	w.x.locks.change(new(journal.Change), func(b *barrier) {
		var key string
		if c.fresh, key = b.enter(r); key == "" {
			return
		}
		if l.blocked.Action != lock.ActionPark {
			err = b.lockedError(key, c.by)
			return
		}
		var wake func()
		woken, wake = w.waker(it)
		if err = b.wait(r, key, wake); err != nil {
			woken = nil
		}
	})
	if _, locked := errors.AsType[*lock.LockedError](err); locked {
		err = refusal(l.blocked, err)
	}
	return woken, err
}

// refusal is what a job that is blocked gets instead of parking.
func refusal(d lock.Decision, why error) error {
	switch d.Action {
	case lock.ActionRequeue:
		return Snooze(d.After)
	case lock.ActionSkip:
		return Discard()
	}
	if d.Err == nil || d.Err == lock.ErrLocked {
		return why // which says more
	}
	return d.Err
}

// passService is pass with the queue's own service.
func (w *worker) passService(it *shard.Item, c *claim, want wants) (woken *atomic.Bool, err error) {
	l, ctx := &w.queue.locking, w.x.handlers
	var locked []string
	for _, key := range want.blockedBy {
		err := guarded(func() error {
			is, err := l.service.Locked(ctx, key)
			if is {
				locked = append(locked, key)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(locked) == 0 {
		keys := want.keysToSet()
		if err := l.lockAll(ctx, keys); err != nil {
			return nil, err
		}
		c.served = keys
		return nil, nil
	}
	decision := l.blocked
	if handler, ok := l.service.(lock.LockedHandler); ok {
		if err := guarded(func() error { decision = handler.HandleLockedBy(ctx, locked); return nil }); err != nil {
			return nil, err
		}
	}
	if decision.Action != lock.ActionPark {
		return nil, refusal(decision, &lock.LockedError{Key: locked[0]})
	}
	watcher, ok := l.service.(lock.Watcher)
	if !ok {
		return nil, Snooze(askAgain)
	}
	woken, wake := w.waker(it)
	var blocked bool
	if err := guarded(func() error { _, blocked = watcher.Watch(locked[0], wake); return nil }); err != nil {
		return nil, err
	}
	if !blocked {
		woken.Store(true) // it was unlocked just now
	}
	return woken, nil
}

// passUnique takes the lease of a job that is unique while it runs.
func (w *worker) passUnique(it *shard.Item, c *claim, keys []string) (woken *atomic.Bool, err error) {
	l, ttl := &w.x.locks, w.queue.locking.leaseTTL
	if p := c.place; p != nil && slices.Equal(p.Keys(), keys) {
		lease, granted := p.Lease()
		if !granted { // something else has woken it: it keeps its place
			return l.keepPlace(c), nil
		}
		if lease.Extend(ttl) == nil {
			c.lease, c.place = lease, nil
			return nil, nil
		}
	}
	if c.place != nil {
		c.place.Cancel() // it has other payloads now, or was too late
	}
	woken, wake := w.waker(it)
	p, err := l.unique.Queue(lock.Options{Owner: c.by.String(), TTL: ttl}, wake, keys...)
	if err != nil {
		return nil, err
	}
	c.place = &place{p, woken}
	if lease, ok := p.Lease(); ok && !woken.Load() {
		c.lease, c.place = lease, nil
		return nil, nil
	}
	return l.keepPlace(c), nil
}

// keepPlace puts the place of a job down until it is woken.
func (l *locks) keepPlace(c *claim) (woken *atomic.Bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.places[c.by] = c.place
	woken, c.place = c.place.woken, nil
	return woken
}

// takePlace returns where a job waits for its lease, nil if it does not.
func (l *locks) takePlace(by holder) *place {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.places[by]
	delete(l.places, by)
	return p
}

// reserve takes a slot, or waits until one is given back.
func (w *worker) reserve(it *shard.Item, c *claim, s SlotSource) (woken *atomic.Bool, err error) {
	reserve := func() error {
		return guarded(func() error {
			claimed, err := s.reserve(w.x.handlers, c)
			if err == nil {
				c.slots = append(c.slots, claimed)
			}
			return err
		})
	}
	if err = reserve(); !errors.Is(err, lock.ErrNoFreeSlot) {
		return nil, err
	}
	woken, wake := w.waker(it)
	cancel := s.watch(wake)
	// One may have been given back before that.
	if err = reserve(); errors.Is(err, lock.ErrNoFreeSlot) && len(s.holders()) > 0 {
		return woken, nil
	}
	cancel()
	return nil, err // perhaps that nobody has one who could give it back
}

// waker returns what makes a parked job run again, and whether it was called.
func (w *worker) waker(it *shard.Item) (*atomic.Bool, func()) {
	woken, s, id := new(atomic.Bool), w.run.Shard, it.ID
	return woken, func() {
		woken.Store(true)
		s.Tell(func(c *shard.Core) { c.Unpark(id) })
	}
}

// postpone gives a job back that has to wait. If it is woken before the shard
// hears of it, it is not parked.
func (w *worker) postpone(it *shard.Item, woken *atomic.Bool) {
	w.x.standAside(w.queue, it.ID)
	w.run.Shard.Tell(func(c *shard.Core) { c.Postpone(it, !woken.Load()) })
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

// engage starts what goes on while the handler runs, and returns its context,
// which ends with the first lease that is lost.
func (w *worker) engage(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	forgets := make([]func(), 0, len(w.batch))
	for _, it := range w.batch {
		c := it.Claim.(*claim)
		c.keepAlive()
		forgets = append(forgets, c.watch(cancel))
	}
	return ctx, func() {
		for _, forget := range forgets {
			forget()
		}
		cancel(nil)
	}
}

// conclude completes a success: a service of the queue's own unlocks what the
// journal does not, and a slot that was lost meanwhile may be another job's.
func (w *worker) conclude() {
	for i, it := range w.batch {
		if i < len(w.errs) && w.errs[i] != nil {
			continue
		}
		if err := w.concludeOne(it.Claim.(*claim)); err != nil {
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
	keys := c.unlock
	c.unlock = nil
	return w.queue.locking.unlockAll(w.x.handlers, keys)
}
