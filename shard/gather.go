package shard

import (
	"slices"

	"github.com/strandjobs/strand/journal"
)

// gather says what becomes of a payload that arrives for a lane: all are kept, equal ones
// are merged, or the newest supersedes the others, see [MergeSupersede].
//
// When a payload arrives: join puts it beside the others of its id, and arrive in their
// place. What its arrival changes about the due time of its job, as timing has it, is
// written down here, as far as a replay of the payloads that are left would not find it.
// When a run ends: returnTo puts what is to run again among those that came meanwhile.
type gather struct {
	dead
	seen  journal.Position // the highest so far
	folds []*Fold          // that nobody has got
}

// join takes in a payload that stands beside those of its id, whose lane is l; nil: it has
// none yet. It returns the position of an equal one that it was merged into, or 0.
func (c *gather) join(l *lane, e *journal.Entry, ref journal.Ref) (into journal.Position) {
	if e.Restored && len(c.outlived) > 0 {
		c.Forget(string(e.ID), e.Position)
	}
	if l == nil {
		l = c.lanes.add(e.ID)
		c.open(l, e.Due, e.Restored)
		c.rouse(l, e)
	}
	if l.item() != nil {
		c.freshOut(l, e)
	}
	first := l.n() == 0
	c.came(e, ref)
	if into = c.merge(l, Payload{e.Score, ref}, e); into != 0 {
		c.counts.Replaced-- // its caller hears of it at once
	}
	if c.cfg.Fold != nil && !c.loading {
		c.expectFold(l, ref, e.Restored) // not when payloads come back, one by one, which are older
	}
	switch {
	case l.item() != nil:
		c.behind(l, e, first)
	case e.Restored:
		c.freshStart(l, e.Due)
	case first && !l.holds():
		due := l.due
		if c.loading && l.known().resting {
			due = l.dueAfter(e.Due, due)
		}
		c.enqueue(l, due)
	default:
		c.fresh(l, e.Due)
	}
	return into
}

// returnTo puts payloads that were handed out among those that wait, or holds
// them before those.
func (c *gather) returnTo(l *lane, payloads []Payload, hold bool) {
	if hold {
		// A copy: the slice may be the item's own.
		l.remember().held = append([]Payload(nil), payloads...)
		return
	}
	if l.n() == 0 && len(payloads) == 1 {
		l.one = payloads[0]
		return
	}
	var e journal.Entry
	for _, p := range payloads {
		c.lanes.entries.read(p.Ref, &e)
		c.merge(l, p, &e)
	}
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
	if c.gathering(l) && !l.halted && !holds {
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

// willHold reports, while loading, whether payloads of a job have failed that are held
// when all is loaded.
func (c *gather) willHold(l *lane) bool {
	if !c.cfg.Block || !l.hasState() {
		return false
	}
	var e journal.Entry
	c.lanes.entries.read(l.past().state, &e)
	return len(e.Failed) > 0 && e.Failed[0] != 0
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
		if p := l.known(); p.pending > 0 || !p.state.IsZero() && p.state.Position() > e.Position {
			c.writeStateOut(l, it) // a replay has that last: this one had been accepted, and not delivered
		}
	}
	if l.retry() >= 0 {
		it.limit = it.undone // as limitOf
	}
	if !it.held && l.retry() < 0 && c.atLimit(l, to, limit) {
		c.writeStateOut(l, it)
	}
}

// freshStart makes a waiting job new and due at a time, because a payload came
// back to it from the morgue.
func (c *gather) freshStart(l *lane, due int64) {
	moved := l.hasState() || l.due != due
	l.unbound()
	c.bound(l, due)
	c.setRetry(l, -1)
	c.setHalted(l, false)
	c.enqueue(l, due)
	if moved {
		c.writeState(l)
	}
}

// pinDue writes the due time of a job down where no state says it yet. Without
// that a replay would take it from the earliest payload that is left.
func (c *gather) pinDue(l *lane) {
	if l.item() != nil || c.loading {
		l.unpinned = true // finish, or Loaded, sees to it
		if c.loading {
			c.loosen(l)
		}
		return
	}
	l.unpinned = false
	if !l.pinned() && !l.empty() {
		c.bound(l, c.limitOf(l))
		c.writeState(l)
	}
}

// pinDueOut is pinDue for a job that runs while a payload that waits behind it is gone:
// a crash puts them all back, and the due time may have come from that one. The finish
// is too late for that.
func (c *gather) pinDueOut(l *lane, gone journal.Position) {
	it := l.item()
	if it == nil || l.pinned() && !it.moved {
		return
	}
	if !c.moves() && !it.moved && slices.ContainsFunc(it.Payloads, func(p Payload) bool { return p.Ref.Position() < gone }) {
		return
	}
	c.writeStateOut(l, it)
}

// writeStateOut writes down what a crash is to find of a job whose item is out: it is
// due as if the item were not. What supersedes the item is all that a crash leaves.
func (c *gather) writeStateOut(l *lane, it *Item) {
	p := l.remember()
	if c.supersedes() && l.n() > 0 {
		c.writeState(l)
		e := &c.change.States[p.pending-1].Entry
		e.Retry, e.Error, e.History = -1, nil, nil
		return
	}
	due, limit, bounded := l.due, p.limit, p.bounded
	if it.held {
		p.held = it.Payloads
	}
	c.takeDue(l, it)
	c.writeState(l)
	l.due, p.limit, p.bounded, p.held = due, limit, bounded, nil
	it.moved = false
}
