package shard

import (
	"time"

	"github.com/strandjobs/strand/journal"
)

// FreshDue says what a fresh payload does to the due time of a job that waits for
// it, and not for a retry.
type FreshDue uint8

const (
	// FreshDueKeep leaves it as it is. The default.
	FreshDueKeep FreshDue = iota
	// FreshDuePull makes the job due when the fresh payload is, if that is earlier.
	FreshDuePull
	// FreshDuePush makes the job due when the fresh payload is, if that is later.
	FreshDuePush
)

func (f FreshDue) String() string { return name(f, "KeepDue", "PullDue", "PushDue") }

// Debounce has a job wait until no payload has come for some time.
//
// A job gathers from its first payload on: it is due Quiet after its latest payload,
// and MaxWait after its first at the latest, where the time of a payload is when it
// is due by itself. That moment is its limit. Payloads that come while it runs gather
// for the next run. A due time that was decided upon, by a retry, a snooze, RunNow or
// a payload from the morgue, is its own limit: the job is put off no more.
type Debounce struct {
	Quiet   time.Duration // 0: there is none
	MaxWait time.Duration // Quiet at least
}

// moves reports whether fresh payloads move due times, so that these depend on more
// than the earliest payload.
func (c *timing) moves() bool { return c.cfg.FreshDue != FreshDueKeep || c.debounces() }

func (c *timing) debounces() bool { return c.cfg.Debounce.Quiet > 0 }

// opening returns when a job is due whose first payload is due at a time.
func (c *timing) opening(due int64) int64 { return later(due, c.cfg.Debounce.Quiet) }

// open makes a payload that is due at a time the first of those that wait. Decided: it
// came back from the morgue, and is not put off.
func (c *timing) open(l *lane, due int64, decided bool) {
	l.due = due
	if decided {
		c.bound(l, due)
		return
	}
	if c.debounces() {
		l.due = c.opening(due)
		if l.item() != nil || l.past() != nil { // else it follows from the due time, see limitOf
			c.bound(l, later(due, c.cfg.Debounce.MaxWait))
		}
	}
}

// bound gives a job a limit.
func (c *timing) bound(l *lane, limit int64) {
	if c.debounces() {
		p := l.remember()
		p.limit, p.bounded = limit, true
	}
}

// unbound makes the due time of a job its limit, once there is a state of it.
func (l *lane) unbound() {
	if p := l.past(); p != nil {
		p.limit, p.bounded = 0, false
	}
}

// limitOf returns the latest time for which fresh payloads may put off a job.
func (c *timing) limitOf(l *lane) int64 {
	switch p := l.past(); {
	case p != nil && p.bounded && l.retry() < 0:
		return p.limit
	case l.hasState(): // it was decided upon
		return l.due
	}
	d := &c.cfg.Debounce // one payload has come
	return later(l.due, d.MaxWait-d.Quiet)
}

// moved returns when a job is due after a payload has come that is due at a time.
func (c *timing) moved(at, limit, due int64) int64 {
	switch {
	case c.debounces():
		return min(max(at, c.opening(due)), limit)
	case c.cfg.FreshDue == FreshDuePull:
		return min(at, due)
	case c.cfg.FreshDue == FreshDuePush:
		return max(at, due)
	}
	return at
}

// freshDue returns when a job is due after a payload has come that is due at a time.
// One that waits for a retry goes by Config.OnFresh, a new one by FreshDue or Debounce,
// unless what failed is held.
func (c *timing) freshDue(l *lane, at, limit, due int64, holds bool) int64 {
	switch {
	case l.halted:
	case l.retry() >= 0:
		if c.cfg.OnFresh == OnFreshPull {
			return min(at, due)
		}
	case !holds:
		return c.moved(at, limit, due)
	}
	return at
}

// keepsDue reports whether no payload that comes for a job moves its due time.
func (c *timing) keepsDue(l *lane) bool {
	return !c.moves() && (l.retry() < 0 || c.cfg.OnFresh != OnFreshPull)
}

// fresh lets a payload move the due time of a job that waits. While there is no state
// of the job, a replay of its payloads moves it as they did; so it is written down only
// if there is one.
func (c *gather) fresh(l *lane, due int64) {
	if c.keepsDue(l) {
		return
	}
	holds := l.retry() < 0 && (l.holds() || c.loading && c.willHold(l))
	limit := c.limitOf(l)
	to := c.freshDue(l, l.due, limit, due, holds)
	if c.debounces() && l.retry() < 0 && !l.halted && !holds {
		c.bound(l, limit)
		if c.atLimit(l, to, limit) {
			c.enqueue(l, to)
			c.writeState(l)
			return
		}
	}
	if to == l.due {
		return
	}
	c.enqueue(l, to)
	if !l.hasState() {
		return
	}
	if !c.loading {
		c.writeState(l)
		return
	}
	// Loaded writes it down, unless a state follows: the next start won't find the
	// payload if it has been merged by then.
	l.remember().pulled = true
	c.loosen(l)
}

// atLimit reports whether a job that is put off no more has no state to say so: what is
// left of a run is due, and a replay would not know that.
func (c *gather) atLimit(l *lane, due, limit int64) bool {
	return c.debounces() && due == limit && !l.hasState() && !c.loading
}

// freshOut is fresh for a job whose item is out: it says when that is due if nothing
// comes of the run, as a replay would. What came back from the morgue is behind it.
func (c *gather) freshOut(l *lane, e *journal.Entry) {
	it := l.item()
	if e.Restored {
		c.writeStateOut(l, it) // a replay has it in its old place
		return
	}
	if c.keepsDue(l) {
		return
	}
	due, limit := c.undone(it)
	to := c.freshDue(l, due, limit, e.Due, it.held)
	if to != due {
		it.undone, it.moved = it.undone+to-due, true
		if l.stateAfter(e.Position) {
			c.writeStateOut(l, it) // a replay has that last
		}
	}
	if l.retry() >= 0 {
		it.limit = it.undone // as limitOf
	}
	if !it.held && l.retry() < 0 && c.atLimit(l, to, limit) {
		c.writeStateOut(l, it)
	}
}

// willHold reports, while loading, whether payloads of a job have failed that are held
// when all is loaded.
func (c *gather) willHold(l *lane) bool {
	if c.cfg.OnFailure != OnFailureBlock || !l.hasState() {
		return false
	}
	var e journal.Entry
	c.lanes.entries.read(l.past().state, &e)
	return len(e.Failed) > 0 && e.Failed[0] != 0
}

// handLimit gives an item the limit of its job; what comes behind it has its own.
func (c *timing) handLimit(l *lane, it *Item) {
	if c.debounces() {
		it.limit = c.limitOf(l)
		l.unbound()
	}
}

// undone returns when the job of an item is due if nothing comes of the run, and the
// limit of that, by the clock as it is now.
func (c *timing) undone(it *Item) (due, limit int64) {
	set := c.shift - it.shift
	return it.undone + set, min(it.limit, farFuture-max(set, 0)) + set
}

// takeDue undoes that the due time and the limit of a job are its item's.
func (c *timing) takeDue(l *lane, it *Item) {
	due, limit := c.undone(it)
	l.due = due
	c.bound(l, limit)
}

// writeStateOut writes down what a crash is to find of a job whose item is out: it is
// due as if the item were not.
func (c *gather) writeStateOut(l *lane, it *Item) {
	p := l.remember()
	due, limit, bounded := l.due, p.limit, p.bounded
	if it.held {
		p.held = it.Payloads
	}
	c.takeDue(l, it)
	c.writeState(l)
	l.due, p.limit, p.bounded, p.held = due, limit, bounded, nil
	it.moved = false
}
