package executor

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
	"github.com/strandjobs/strand/shard"
)

// pass locks what the job locks when it runs, unless it is blocked.
func (w *worker) pass(it *shard.Item, c *claim, want wants) (woken *atomic.Bool, err error) {
	l := &w.queue.locking
	if len(want.blockedBy)+len(want.set) == 0 {
		return nil, nil
	}
	if l.service != nil {
		return w.passService(it, c, want)
	}
	waker := func() (wake func()) {
		woken, wake = w.waker(it)
		return wake
	}
	if l.blocked.Action != lock.ActionPark {
		waker = nil
	}
	r := lock.Request{Owner: c.by, BlockedBy: want.blockedBy, Lock: want.set, TTL: l.ttl}
	w.x.locks.change(new(journal.Change), func(k *lock.KeyLocks) {
		var key string
		if c.fresh, key, err = k.Enter(r, waker); key != "" && waker == nil {
			err = w.x.locks.lockedError(key, c.by)
		}
	})
	if waker == nil && err != nil {
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
		if err := guarded(func() error { decision = handler.HandleLockedBy(ctx, want.job(w.queue, it), locked); return nil }); err != nil {
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
	l := &w.x.locks
	if p := c.place; p != nil && slices.Equal(p.Keys(), keys) {
		lease, granted := p.Lease()
		if !granted { // something else has woken it: it keeps its place
			return l.keepPlace(c), nil
		}
		if lease.Held() {
			c.lease, c.place = lease, nil
			return nil, nil
		}
	}
	if c.place != nil {
		c.place.Cancel() // it has other payloads now
	}
	woken, wake := w.waker(it)
	// The lease has no TTL yet: that counts from the start of the run, see
	// keepAlive.
	p, err := l.unique.Queue(lock.Options{Owner: c.by.String()}, wake, keys...)
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

// keepPlace keeps the place of a job until the job is woken.
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

// sureOfNone is how often in a row a job has to find that no value is free and no
// job has one, before it takes that for more than a coincidence.
const sureOfNone = 100

// reserve takes a slot, or waits until one is given back.
func (w *worker) reserve(it *shard.Item, c *claim, s SlotSource, job lock.Job) (woken *atomic.Bool, err error) {
	reserve := func() error {
		return guarded(func() error {
			claimed, err := s.reserve(w.x.handlers, c, job)
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
	// One may have been given back before that, and taken by another job, which
	// gives it back before we ask which jobs have one.
	for range sureOfNone {
		if err = reserve(); !errors.Is(err, lock.ErrNoFreeSlot) {
			break
		}
		if woken.Load() || len(s.holders()) > 0 {
			return woken, nil
		}
	}
	cancel()
	return nil, err // ErrNoFreeSlot: no job has one that it could give back
}
