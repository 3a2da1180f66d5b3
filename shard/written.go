package shard

import (
	"slices"

	"github.com/strandjobs/strand/journal"
)

// written is what a shard has on record of its jobs: what a replay of the payloads that are
// left would not find. It gathers in the change.
type written struct {
	ledger
	loose   []*lane            // lanes that loaded has to look at again
	owed    map[*lane]struct{} // lanes whose state the disk had no room for; see again
	stateOf []subject          // whose each state in change is
	rested  rested             // ids that have nothing to do, and may not run again at once; under MergeSupersede see newest
}

// subject is whose a state is: that of a lane, or of an id that rests.
type subject struct {
	lane  *lane // nil: the id rests
	rests string
}

// loosen has loaded look at a lane again.
func (c *written) loosen(l *lane) {
	if !l.loose {
		l.loose = true
		c.loose = append(c.loose, l)
	}
}

// drop forgets an id with nothing left. It has this hash.
func (c *written) drop(l *lane, hash uint32) {
	if c.broken() {
		return // it is not known whether this is its id
	}
	c.endState(l)
	c.setRetry(l, -1)
	c.setHalted(l, false)
	c.lanes.remove(l, hash)
	if c.lanes.len() == 0 {
		c.due = dueQueue{} // turns that are stale must not outlive the lanes
	}
}

// writeState writes down what is known about a waiting job, instead of what
// was written before.
func (c *written) writeState(l *lane) {
	if c.loading {
		return // a fold of the log adds nothing to the log
	}
	delete(c.owed, l)
	p := l.remember()
	p.resting = false
	c.replaceState(p)
	if p.pending == 0 {
		c.change.States = append(c.change.States, journal.JobState{})
		c.stateOf = append(c.stateOf, subject{lane: l})
		p.pending = len(c.change.States)
	}
	e := &c.change.States[p.pending-1].Entry
	last, failures := p.failures()
	*e = journal.Entry{
		Queue: c.queue, ID: l.id(&c.lanes.entries), Due: l.due,
		Retry: l.retry(), Halted: l.halted, Crashed: l.halted && p.crashed, Error: []byte(last), History: failures,
	}
	if p.bounded && !l.holds() && l.retry() < 0 {
		e.Failed = append(e.Failed, 0, journal.Position(p.limit)) // see gathers
	}
	if p.restEnd != 0 {
		e.Due, e.Failed = p.own, []journal.Position{0, journal.Position(p.restEnd), l.about()} // see restsUntil
	}
	if c.supersedes() && e.Failed == nil {
		e.Failed = append(e.Failed, l.about()) // see stale
	}
	for _, h := range p.held {
		e.Failed = append(e.Failed, h.Ref.Position())
	}
}

// endState ends what is written about a job that is over, and takes back what gathers
// in the change: its lane may be another id's before that is recorded.
func (c *written) endState(l *lane) {
	if p := l.past(); p != nil {
		delete(c.owed, l)
		c.replaceState(p)
		c.unwrite(p)
	}
}

// replaceState ends the state that the log has.
func (c *written) replaceState(p *runHistory) {
	if !p.state.IsZero() {
		c.end(p.state)
		p.state = journal.Ref{}
	}
}

// unwrite takes a state out of the change. The last one there gets its place.
func (c *written) unwrite(p *runHistory) {
	if p.pending == 0 {
		return
	}
	at, last := p.pending-1, len(c.stateOf)-1
	p.pending = 0
	if at < last {
		c.stateOf[at], c.change.States[at] = c.stateOf[last], c.change.States[last]
		if moved := c.stateOf[at].lane; moved != nil {
			moved.past().pending = at + 1
		}
	}
	c.stateOf[last], c.change.States[last] = subject{}, journal.JobState{}
	c.stateOf, c.change.States = c.stateOf[:last], c.change.States[:last]
}

// writeStateOut writes down what a crash is to find of a job whose item is out: it is
// due as if the item were not. What supersedes the item is all that a crash leaves.
func (c *written) writeStateOut(l *lane, it *Item) {
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
	l.due, p.limit, p.bounded, p.held, it.moved = due, limit, bounded, nil, false
}

// pinDue writes the due time of a job down where no state says it yet. Without
// that a replay would take it from the earliest payload that is left.
func (c *written) pinDue(l *lane) {
	if l.item() != nil || c.loading {
		l.unpinned = true // finish, or loaded, sees to it
		if c.loading {
			c.loosen(l)
		}
		return
	}
	l.unpinned = false
	if !l.known().pinned() && !l.empty() {
		c.bound(l, c.limitOf(l))
		c.writeState(l)
	}
}

// pinDueOut is pinDue for a job that runs while a payload that waits behind it is gone:
// a crash puts them all back, and the due time may have come from that one. The finish
// is too late for that.
func (c *written) pinDueOut(l *lane, gone journal.Position) {
	it := l.item()
	older := func(p Payload) bool { return p.Ref.Position() < gone }
	if it != nil && (it.moved || !l.known().pinned() && (c.moves() || !slices.ContainsFunc(it.Payloads, older))) {
		c.writeStateOut(l, it)
	}
}

// pinAhead is pinDue for a payload that has come and is due earlier than the journal says.
func (c *written) pinAhead(e *journal.Entry) {
	l := c.lanes.find(e.ID)
	if l == nil {
		return // it was over at once
	}
	if b := l.bag(); b != nil {
		b.due = max(b.due, e.Accepted)
	}
	switch it := l.item(); {
	case it != nil:
		c.writeStateOut(l, it)
	case l.known().pinned() && c.moves(): // a replay would move it by that payload
		c.writeState(l)
		return
	}
	c.pinDue(l)
}

func (c *written) short() bool { return c.cfg.Short != nil && c.cfg.Short() }

// writeStateSoon is writeState where the disk is not short of room, and otherwise leaves that to catchUp. It
// reports whether the state is written.
func (c *written) writeStateSoon(l *lane) bool {
	if !c.short() {
		c.writeState(l)
		return true
	}
	l.remember() // so that endState knows of it
	c.owed[l] = struct{}{}
	return false
}

// owedAtOnce is how many states catchUp writes down at once, at most.
const owedAtOnce = 16

// catchUp writes down some of what a disk that was short of room had none for, once it has. It
// reports whether there may be more.
func (c *written) catchUp() (more bool) {
	n := 0
	for l := range c.owed {
		if n++; n > owedAtOnce || c.short() {
			return n > owedAtOnce
		}
		if it := l.item(); it != nil {
			c.writeStateOut(l, it)
		} else {
			c.writeState(l)
		}
	}
	return false
}

// Record writes the change that has gathered into log, and forgets it. After an
// error of the Core it writes nothing.
func (c *written) Record(log Recorder) {
	if c.broken() || c.change.empty() {
		return
	}
	log.Record(&c.change)
	rewritten, at := c.rewritten, c.change.Rewritten
	for i, of := range c.stateOf {
		state := c.change.States[i].Ref
		if of.lane == nil {
			rest := c.rested.byID[of.rests]
			rest.state = state
			c.rested.byID[of.rests] = rest
			continue
		}
		p := of.lane.past()
		p.state, p.pending = state, 0
	}
	c.change.Ended, c.change.States = emptied(c.change.Ended), emptied(c.change.States)
	c.change.Buried, c.change.Exhumed = emptied(c.change.Buried), emptied(c.change.Exhumed)
	c.change.Sets, c.change.Merged = emptied(c.change.Sets), emptied(c.change.Merged)
	c.change.Claims, c.change.Deleted = emptied(c.change.Claims), emptied(c.change.Deleted)
	c.change.Staged = emptied(c.change.Staged)
	c.change.FollowUps, c.change.With, c.change.Heirs, c.change.After, c.change.Room = nil, nil, nil, nil, 0
	c.change.Over, c.change.Surplus = Weight{}, Weight{}
	c.stateOf = emptied(c.stateOf)
	if len(rewritten) > 0 {
		c.rewritten, c.change.Rewritten = nil, nil
		for i, h := range rewritten {
			if c.cfg.Weighed {
				c.change.Surplus.Bytes += at[i].Ref.Size() - h.Ref.Size() // the recorder is told how they have grown
			}
			h.Ref = at[i].Ref
		}
		c.Record(log)
	}
}
