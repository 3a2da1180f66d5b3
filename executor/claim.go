package executor

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor/internal/limit"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
	"github.com/strandjobs/strand/shard"
)

// claim is what a job has while it runs: the keys that its success unlocks, its
// lease, its slots. It goes back in the commit that settles the job. The claim of a
// refused job is empty.
type claim struct {
	queue  *queue
	by     holder
	unlock []unlocking
	fresh  []*lock.KeyLock // keys that this very run has locked
	served []string        // the same, of a service of the queue's own

	inTurn bool // it has entered its lane, which queues share

	place *place     // where it has waited for its lease; nil: nowhere
	lease lock.Lease // zero: the job is not unique
	beat  *time.Timer
	slots []slotClaim

	needs   []limit.Need // of limits
	limited *limit.Grant // nil: it runs under no limit, or not any more
	notRun  bool         // of a job that was removed, or given up, before it ran
}

// claimOf returns the claim that a shard has kept for an item without knowing what
// it is; nil: there is none.
func claimOf(kept any) *claim {
	c, _ := kept.(*claim)
	return c
}

// place is where a job waits for its lease.
type place struct {
	*lock.Place
	woken *atomic.Bool
}

// leased returns the lease; one that has ended if there is none.
func (c *claim) leased() lock.Lease {
	if c == nil {
		return lock.Lease{}
	}
	return c.lease
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

// keepAlive extends the leases while the job runs. A TTL counts from here: before,
// the job may have waited for a worker.
func (c *claim) keepAlive() {
	if c.lease != (lock.Lease{}) {
		q := c.queue
		extend := func() bool { return c.lease.Extend(q.locking.leaseTTL) == nil }
		if extend() {
			c.beat = every(q.x, q.locking.heartbeat, extend)
		}
	}
	for _, s := range c.slots {
		s.keepAlive()
	}
}

// every calls f again and again, until it returns false, the timer is stopped, or
// the executor has stopped: a handler that is left behind keeps no lease.
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

// release ends the lease and the turn, and wakes the jobs that wait for them.
func (c *claim) release() {
	if c.inTurn {
		c.inTurn = false
		c.queue.lanes.Leave(c.by.ID)
	}
	if c.beat != nil {
		c.beat.Stop()
	}
	if c.lease != (lock.Lease{}) {
		// It may be lost. A handler may have left a function with
		// [lock.Lease.OnEnd].
		_ = guarded(c.lease.Unlock)
	}
	if c.place != nil {
		c.place.Cancel()
	}
	c.leaveLimits()
}

// withdraw gives back what was taken for a job that does not run now.
func (c *claim) withdraw() {
	if err := c.queue.locking.unlockAll(c.queue.x.handlers, c.served); err != nil {
		c.queue.x.cfg.Logger.Error("keys of a job that does not run stay locked", slog.Any("error", err))
	}
	if len(c.fresh)+len(c.slots) > 0 {
		l, change := &c.queue.x.locks, new(journal.Change)
		l.change(change, func(k *lock.KeyLocks) {
			k.Drop(c.fresh...)
			change.Sets = c.settleSlots(shard.VerdictUnstarted, false)
		})
	}
	c.release()
	*c = claim{queue: c.queue, by: c.by}
}
