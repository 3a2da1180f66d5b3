package executor

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
	"github.com/strandjobs/strand/shard"
)

// locks are what the jobs of an executor lock, wait for and reserve, and the
// journal's copy of it. What belongs to a job changes in the commit that
// settles the job.
type locks struct {
	x *Executor

	// mu guards what follows. Under it the journal is given changes, which does
	// not wait; no user code is called.
	mu      sync.Mutex
	barrier barrier
	places  map[holder]*place // of jobs that wait until equal ones have run
	closed  bool              // no timer any more, and what is changed is not written down

	unique lock.Table // keys of jobs that are unique while they run

	// binding guards which holds came with which payload. The journal asks
	// under its own lock, so nothing is called under it.
	binding sync.Mutex
	with    map[journal.Position][]*hold
}

func (l *locks) init(x *Executor) {
	l.x, l.barrier = x, newBarrier()
	l.places = make(map[holder]*place)
	l.with = make(map[journal.Position][]*hold)
}

// change has f change the barrier, and records what that comes to together with
// c, in one commit. Then those whose turn it is are woken.
func (l *locks) change(c *journal.Change, f func(*barrier)) {
	l.mu.Lock()
	l.barrier.now = time.Now().UnixNano()
	f(&l.barrier)
	wakes := l.record(c)
	l.mu.Unlock()
	for _, wake := range wakes {
		wake()
	}
}

// attempt is change for a caller who is told whether it comes to anything: once
// Stop has written the last change down, nothing is changed, and ErrClosed is
// returned.
func (l *locks) attempt(c *journal.Change, f func(*barrier)) error {
	if err := l.x.log.Err(); err != nil && !errors.Is(err, journal.ErrFull) {
		return border(err)
	}
	closed := false
	l.change(c, func(b *barrier) {
		if closed = l.closed; !closed {
			f(b)
		}
	})
	if closed {
		return ErrClosed
	}
	return nil
}

// record writes down what has happened at the barrier. mu is held, so that the
// log has it in the order in which it happened.
func (l *locks) record(c *journal.Change) (wakes []func()) {
	effects, wakes := l.barrier.drain()
	for _, e := range effects {
		if e.dropped {
			l.forget(e.hold)
		} else {
			l.arm(e.hold)
			l.bind(e.hold)
		}
		if !l.x.volatile {
			c.Sets = append(c.Sets, l.written(e))
		}
	}
	l.x.log.Record(c)
	return wakes
}

// arm ends a hold when its time is over.
func (l *locks) arm(h *hold) {
	if h.until == 0 || h.timer != nil || l.closed {
		return
	}
	left := time.Duration(h.until - l.barrier.now)
	h.timer = time.AfterFunc(left, func() {
		l.change(new(journal.Change), func(b *barrier) { b.drop(h) })
	})
}

// bind remembers which payload a hold belongs to, if that is known.
func (l *locks) bind(h *hold) {
	l.binding.Lock()
	defer l.binding.Unlock()
	if h.position != 0 && !slices.Contains(l.with[h.position], h) {
		l.with[h.position] = append(l.with[h.position], h)
	}
}

// forget lets go of a hold that has ended.
func (l *locks) forget(h *hold) {
	if h.timer != nil {
		h.timer.Stop()
	}
	l.binding.Lock()
	defer l.binding.Unlock()
	h.gone = true
	l.unbind(h)
}

// unbind forgets which payload a hold belongs to. binding is held.
func (l *locks) unbind(h *hold) {
	if rest := slices.DeleteFunc(l.with[h.position], func(o *hold) bool { return o == h }); len(rest) > 0 {
		l.with[h.position] = rest
	} else {
		delete(l.with, h.position)
	}
}

// close stops the timers, and ends what is changed by hand.
func (l *locks) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, k := range l.barrier.keys {
		for e := k.holds.Front(); e != nil; e = e.Next() {
			if h := e.Value.(*hold); h.timer != nil {
				h.timer.Stop()
			}
		}
	}
}

// comingWith returns the holds that belong to a payload.
func (l *locks) comingWith(p journal.Position) []*hold {
	l.binding.Lock()
	defer l.binding.Unlock()
	return slices.Clone(l.with[p])
}

// settle records what a shard of q decided, with what it means for the locks of
// the jobs.
func (l *locks) settle(q *queue, c *shard.Change) {
	l.change(&c.Change, func(b *barrier) {
		for _, m := range c.Merged {
			l.merge(b, m)
		}
		for _, claimed := range c.Claims {
			claim := claimOf(claimed.Claim)
			b.leave(claim.by)
			if claimed.Verdict == shard.Done || claimed.Verdict == shard.Discarded {
				for _, u := range claim.unlock {
					l.unlock(b, u, q.locking.counted, claim.by)
				}
			} else if claimed.Over && q.locking.unlockOnBurial {
				l.dropAll(b, b.ofJob(claim.by)) // it went to the morgue
			}
			c.Sets = append(c.Sets, claim.settleSlots(claimed.Verdict, claimed.Over)...)
		}
		if q.locking.unlockOnBurial {
			for i := range c.Buried {
				l.dropAll(b, l.comingWith(c.Buried[i].Ref.Position()))
			}
		}
	})
	for _, claimed := range c.Claims {
		claimOf(claimed.Claim).release()
	}
}

// unlock unlocks a key for a job that has succeeded. Of a counted one it ends the
// hold of the very payload; if that is gone, because a person, a burial or its time
// has ended it, there is nothing to be unlocked for it.
func (l *locks) unlock(b *barrier, u unlocking, counted bool, by holder) {
	if counted {
		for _, h := range l.comingWith(u.position) {
			if h.key == u.key {
				b.drop(h)
				return
			}
		}
	}
	if !u.own {
		b.unlock(u.key, counted, by)
	}
}

// merge settles the holds of a payload that another one replaces. That one has
// locks of its own from when it was enqueued; what a run has locked goes over to
// it, because it runs in its place.
func (l *locks) merge(b *barrier, m shard.Merged) {
	for _, h := range l.comingWith(m.Position) {
		if !h.onRun || b.has(h.by, setting{h.key, m.Into}) {
			b.drop(h)
			continue
		}
		l.rebind(h, m.Into)
		b.effects = append(b.effects, effect{hold: h})
	}
}

// rebind makes a hold another payload's, which may itself be replaced at once.
func (l *locks) rebind(h *hold, into journal.Position) {
	l.binding.Lock()
	defer l.binding.Unlock()
	l.unbind(h)
	h.position = into
	l.with[into] = append(l.with[into], h)
}

func (l *locks) dropAll(b *barrier, holds []*hold) {
	for _, h := range holds {
		b.drop(h)
	}
}

// rename gives the locks of a queue's jobs to the queue's new name.
func (l *locks) rename(former, name string) {
	l.change(new(journal.Change), func(b *barrier) {
		for _, k := range b.keys {
			for e := k.holds.Front(); e != nil; e = e.Next() {
				if h := e.Value.(*hold); h.by.queue == former {
					b.reassign(h, holder{name, h.by.id})
				}
			}
		}
	})
}

// restore brings back what was locked when the last process ended. What has
// expired meanwhile stays so.
func (l *locks) restore() error {
	// Larger than every token of the processes before.
	l.unique.RaiseToken(l.x.log.Stats().Epoch << 32)
	var holds []*hold
	var expired journal.Change
	now := time.Now().UnixNano()
	for s, err := range l.x.log.Keys(lockPrefix) {
		if err != nil {
			return err
		}
		h, err := parseHold(s)
		if err != nil {
			return err
		}
		if h.until != 0 && h.until <= now {
			expired.Sets = append(expired.Sets, journal.Set{Key: s.Key})
			continue
		}
		holds = append(holds, h)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.barrier.now = now
	l.barrier.restore(holds)
	for _, h := range holds {
		if l.arm(h); h.position != 0 {
			l.with[h.position] = append(l.with[h.position], h)
		}
	}
	if len(expired.Sets) > 0 {
		l.x.log.Record(&expired)
	}
	return nil
}
