package executor

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
	"github.com/strandjobs/strand/shard"
)

// locks are what the jobs of an executor lock, wait for and reserve, and the
// journal's copy of it. What belongs to a job changes in the commit that settles
// the job.
type locks struct {
	x    *Executor
	base time.Time // when the clock of keys was 0

	// mu guards what follows. Under it the journal is given changes, which does not
	// wait; no user code is called.
	mu     sync.Mutex
	keys   lock.KeyLocks
	alarm  alarm             // of the next key-lock that ends by itself
	places map[holder]*place // of jobs that wait until equal ones have run
	closed bool              // no alarm any more, and what is changed is not written down

	unique lock.Table // keys of jobs that are unique while they run

	// binding guards which key-locks came with which payload, and the positions of
	// those that were set by an enqueue. The journal asks under its own lock, so
	// nothing is called under it.
	binding sync.Mutex
	with    map[journal.Position][]*lock.KeyLock
}

// holder is a job; zero: a person.
type holder = lock.Owner

// gone is the position of a key-lock that has ended.
const gone = math.MaxUint64

func (l *locks) init(x *Executor) {
	l.x, l.base = x, time.Now()
	l.places = make(map[holder]*place)
	l.with = make(map[journal.Position][]*lock.KeyLock)
}

// change lets f change the keys, records the outcome together with c, in one
// commit, and wakes the jobs whose turn it is.
func (l *locks) change(c *journal.Change, f func(*lock.KeyLocks)) {
	l.mu.Lock()
	l.keys.At(time.Since(l.base))
	f(&l.keys)
	wake := l.record(c)
	l.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// attempt is change for a caller who has to know whether it happened: once Stop has
// written the last change, it changes nothing and returns ErrClosed.
func (l *locks) attempt(c *journal.Change, f func(*lock.KeyLocks)) error {
	if err := l.x.log.Err(); err != nil && !errors.Is(err, journal.ErrFull) {
		return border(err)
	}
	closed := false
	l.change(c, func(k *lock.KeyLocks) {
		if closed = l.closed; !closed {
			f(k)
		}
	})
	if closed {
		return ErrClosed
	}
	return nil
}

// record writes down what has happened to the keys. mu is held, so that the log has
// it in the order in which it happened.
func (l *locks) record(c *journal.Change) (wake func()) {
	changes, wake := l.keys.Drain()
	for _, change := range changes {
		if change.Ended {
			l.forget(change.Lock)
		} else {
			l.bind(change.Lock)
		}
		if !l.x.volatile && !awaitsPosition(change) {
			c.Sets = append(c.Sets, l.written(change))
		}
	}
	l.arm()
	l.x.log.Record(c)
	return wake
}

// awaitsPosition reports whether a key-lock is written with the payload that it came
// with, when that has its position.
func awaitsPosition(c lock.Change) bool {
	h := c.Lock
	return !c.Ended && !h.OnRun && h.Position == 0 && h.Owner != (holder{})
}

// arm sets the alarm to the next end of a key-lock. mu is held.
func (l *locks) arm() {
	at, ok := l.keys.Next()
	l.alarm.set(l.base, at, ok && !l.closed, l.expire)
}

// expire is what the alarm calls.
func (l *locks) expire() {
	l.change(new(journal.Change), func(k *lock.KeyLocks) {
		if l.alarm.rang(); !l.closed {
			k.Expire()
		}
	})
}

// bind remembers which payload a key-lock belongs to, if that is known.
func (l *locks) bind(h *lock.KeyLock) {
	l.binding.Lock()
	defer l.binding.Unlock()
	if p := journal.Position(h.Position); p != 0 && !slices.Contains(l.with[p], h) {
		l.with[p] = append(l.with[p], h)
	}
}

// forget lets go of a key-lock that has ended.
func (l *locks) forget(h *lock.KeyLock) {
	l.binding.Lock()
	defer l.binding.Unlock()
	l.unbind(h)
	h.Position = gone
}

// unbind forgets which payload a key-lock belongs to. binding is held.
func (l *locks) unbind(h *lock.KeyLock) {
	p := journal.Position(h.Position)
	if rest := slices.DeleteFunc(l.with[p], func(o *lock.KeyLock) bool { return o == h }); len(rest) > 0 {
		l.with[p] = rest
	} else {
		delete(l.with, p)
	}
}

// close stops the alarm, and ends what is changed by hand.
func (l *locks) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.arm()
}

// comingWith returns the key-locks that belong to a payload.
func (l *locks) comingWith(p journal.Position) []*lock.KeyLock {
	l.binding.Lock()
	defer l.binding.Unlock()
	return slices.Clone(l.with[p])
}

// settle records what a shard of q decided, with what it means for the locks of the
// jobs.
func (l *locks) settle(q *queue, c *shard.Change) {
	l.change(&c.Change, func(k *lock.KeyLocks) {
		for _, m := range c.Merged {
			if q.supersedes() { // the other one has locked what it needs
				k.Drop(l.comingWith(m.Position)...)
				continue
			}
			k.Replace(l.comingWith(m.Position), uint64(m.Into), func(h *lock.KeyLock) { l.rebind(h, m.Into) })
		}
		for _, claimed := range c.Claims {
			claim := claimOf(claimed.Claim)
			k.Leave(claim.by)
			if claim.notRun {
				c.Sets = append(c.Sets, l.letGo(q, claim, claimed.Verdict, claimed.Over)...)
			}
			if claimed.Verdict == shard.VerdictDone || claimed.Verdict == shard.VerdictDiscarded {
				for _, u := range claim.unlock {
					l.unlock(k, u, q.locking.counted, claim.by)
				}
			} else if claimed.Over && (q.locking.unlockOnBurial || claimed.Verdict == shard.VerdictDeleted) {
				k.Drop(k.OfJob(claim.by)...) // it went to the morgue
			}
			c.Sets = append(c.Sets, claim.settleSlots(claimed.Verdict, claimed.Over)...)
		}
		for _, p := range c.Exhumed {
			k.Drop(l.comingWith(p)...)
		}
		for _, p := range c.Deleted {
			k.Drop(l.comingWith(p)...)
		}
		if q.locking.unlockOnBurial {
			for i := range c.Buried {
				k.Drop(l.comingWith(c.Buried[i].Ref.Position())...)
			}
		}
		if len(c.Staged) > 0 {
			l.lockFollowUps(k, c) // after the unlocks: those of a key may end all its locks
		}
	})
	q.leaveLanes(&c.Change)
	for _, claimed := range c.Claims {
		claimOf(claimed.Claim).release()
	}
}

// unlock unlocks a key for a job that has succeeded. Of a counted one it ends the
// lock of the very payload; if that is gone, because a person, a burial or its time
// has ended it, there is nothing to be unlocked for it.
func (l *locks) unlock(k *lock.KeyLocks, u unlocking, counted bool, by holder) {
	if counted {
		for _, h := range l.comingWith(journal.Position(u.Position)) {
			if h.Key == u.Key {
				k.Drop(h)
				return
			}
		}
	}
	if !u.own {
		k.Unlock(u.Key, counted, by)
	}
}

// rebind makes a key-lock another payload's, which may itself be replaced at once.
func (l *locks) rebind(h *lock.KeyLock, into journal.Position) {
	l.binding.Lock()
	defer l.binding.Unlock()
	l.unbind(h)
	h.Position = uint64(into)
	l.with[into] = append(l.with[into], h)
}

// rename gives the locks of a queue's jobs to the queue's new name.
func (l *locks) rename(former, name string) {
	l.change(new(journal.Change), func(k *lock.KeyLocks) { k.Rename(former, name) })
}

// restore brings back what was locked when the last process ended. What has expired
// meanwhile stays so.
func (l *locks) restore() error {
	// Larger than every token of the processes before.
	l.unique.RaiseToken(l.x.log.Stats().Epoch << 32)
	var held []*lock.KeyLock
	var expired journal.Change
	now := time.Now()
	for s, err := range l.x.log.Keys(statekey.LockPrefix) {
		if err != nil {
			return err
		}
		h, until, err := l.parse(s, now)
		if err != nil {
			return err
		}
		if until != 0 && until <= now.UnixNano() {
			expired.Sets = append(expired.Sets, journal.Set{Key: s.Key})
			continue
		}
		held = append(held, h)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys.At(now.Sub(l.base))
	l.keys.Restore(held)
	for _, h := range held {
		l.bind(h)
	}
	l.arm()
	if len(expired.Sets) > 0 {
		l.x.log.Record(&expired)
	}
	return nil
}

// held shows a key-lock to people. Its number takes the place of a token.
func (l *locks) held(h *lock.KeyLock) lock.Held {
	now := time.Now()
	wall, age := now.Round(0), now.Sub(l.base)
	held := lock.Held{Keys: []string{h.Key}, Owner: nameOf(h.Owner), Token: h.Number, Since: wall.Add(h.Since - age)}
	if h.Until != 0 {
		held.Until = wall.Add(h.Until - age)
		held.TTL = held.Until.Sub(held.Since)
	}
	return held
}

// nameOf names the holder of a key-lock.
func nameOf(by holder) string { return cmp.Or(by.String(), "a person") }

// lockedError names the holder of a key that blocks a job. mu is held.
func (l *locks) lockedError(key string, by holder) error {
	err := &lock.LockedError{Key: key}
	for _, h := range l.keys.Locked(key) {
		if h.Owner != by {
			err.Holder = l.held(h)
			break
		}
	}
	return err
}
