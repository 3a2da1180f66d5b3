package shard

import (
	"slices"

	"github.com/strandjobs/strand/journal"
)

// Load takes in an entry that was live when the journal was opened. Entries
// come in position order, before anything is delivered; Loaded follows.
func (c *Core) Load(e *journal.Entry, ref journal.Ref) {
	c.loading = true
	if e.Kind == journal.KindEnqueued {
		c.deliver(e, ref)
		return
	}
	if c.loadRest(e, ref) {
		return
	}
	l := c.lanes.find(e.ID)
	if c.broken() {
		return
	}
	if c.stale(l, e) || rests(e) && l != nil && l.hasState() { // what rests had nothing to do, under another name of the queue
		c.end(ref)
		if e.Crashed {
			c.inherit(string(e.ID), l.one.Ref.Position())
			c.enqueue(l, l.due)
		}
		return
	}
	if l == nil {
		// The payload that the state was written for has been replaced by a
		// later one, or nothing comes: Loaded sees to that.
		l = c.lanes.add(e.ID)
		c.loosen(l)
	}
	c.endState(l)
	p := l.remember()
	p.state, p.err, p.crashed, p.pulled, p.resting = ref, string(e.Error), e.Crashed, false, rests(e)
	p.history = slices.Clone(e.History)
	l.unbound()
	due := e.Due
	switch {
	case gathers(e):
		c.bound(l, int64(e.Failed[1]))
	case restsUntil(e):
		due = l.dueAfter(due, int64(e.Failed[1]))
	case p.resting && l.n() > 0:
		due = l.dueAfter(l.due, due)
	case len(e.Failed) > 0 && !p.resting:
		c.loosen(l)
	}
	c.setRetry(l, e.Retry)
	c.setHalted(l, e.Halted)
	c.enqueue(l, due)
}

// gathers reports whether a state is that of a job with a limit: then it stands in the
// place of the failed payloads, behind a position that none has. A version of this
// package that knows no limits finds no payload by it.
func gathers(e *journal.Entry) bool { return len(e.Failed) == 2 && e.Failed[0] == 0 }

// restsUntil reports whether a state is that of a job whose id rests: its due time is the job's
// own, and the end of the rest stands behind a position that none has, before that of the payload.
func restsUntil(e *journal.Entry) bool { return len(e.Failed) == 3 && e.Failed[0] == 0 }

// Loaded ends the loading.
func (c *Core) Loaded() {
	c.loading = false
	for _, l := range c.loose {
		l.loose = false
		if c.cfg.Block {
			c.regroup(l)
		}
		switch {
		case c.outrun(l):
		case l.empty():
			c.displace(l)
			hash := hashOf(l.id(&c.lanes.entries))
			c.restOn(l)
			c.drop(l, hash)
		case l.past() != nil && l.past().pulled:
			l.past().pulled = false
			c.writeState(l)
		case l.unpinned:
			c.pinDue(l)
		}
	}
	c.loose = nil
}

// regroup holds the payloads that failed according to the state of a lane, and
// merges the others.
func (c *gather) regroup(l *lane) {
	var e journal.Entry
	if l.hasState() {
		c.lanes.entries.read(l.past().state, &e)
	}
	failed := e.Failed
	if len(failed) > 0 && failed[0] == 0 {
		failed = nil // it says something else
	}
	slices.Sort(failed)
	var others []Payload
	for l.n() > 0 {
		p := l.take()
		_, found := slices.BinarySearch(failed, p.Ref.Position())
		if found && !(c.cfg.Single && l.holds()) { // as many as run at a time
			l.past().held = append(l.past().held, p)
		} else {
			others = append(others, p)
		}
	}
	for _, p := range others {
		c.lanes.entries.read(p.Ref, &e)
		c.merge(l, p, &e)
	}
}
