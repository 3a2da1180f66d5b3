package shard

import (
	"slices"

	"github.com/strandjobs/strand/journal"
)

func (c *ledger) end(ref journal.Ref) { c.change.Ended = append(c.change.Ended, ref) }

func (c *ledger) endPayload(ref journal.Ref) {
	c.went(ref)
	c.end(ref)
}

// endState ends what is written about a job that is over, and takes back what gathers
// in the change: its lane may be another id's before that is recorded.
func (c *ledger) endState(l *lane) {
	if p := l.past(); p != nil {
		c.replaceState(p)
		c.unwrite(p)
	}
}

// replaceState ends the state that the log has.
func (c *ledger) replaceState(p *runHistory) {
	if !p.state.IsZero() {
		c.end(p.state)
		p.state = journal.Ref{}
	}
}

// unwrite takes a state out of the change. The last one there gets its place.
func (c *ledger) unwrite(p *runHistory) {
	if p.pending == 0 {
		return
	}
	at, last := p.pending-1, len(c.stateOf)-1
	p.pending = 0
	if at < last {
		c.stateOf[at], c.change.States[at] = c.stateOf[last], c.change.States[last]
		if moved := c.stateOf[at]; moved != nil {
			moved.past().pending = at + 1
		} else {
			c.rested.moved(last, at)
		}
	}
	c.stateOf[last], c.change.States[last] = nil, journal.JobState{}
	c.stateOf, c.change.States = c.stateOf[:last], c.change.States[:last]
}

// writeState writes down what is known about a waiting job, instead of what
// was written before.
func (c *ledger) writeState(l *lane) {
	if c.loading {
		return // a fold of the log adds nothing to the log
	}
	p := l.remember()
	p.resting = false
	c.replaceState(p)
	if p.pending == 0 {
		c.change.States = append(c.change.States, journal.JobState{})
		c.stateOf = append(c.stateOf, l)
		p.pending = len(c.change.States)
	}
	e := &c.change.States[p.pending-1].Entry
	*e = journal.Entry{
		Queue: c.queue, ID: l.id(&c.lanes.entries), Due: l.due,
		Retry: l.retry(), Halted: l.halted, Error: []byte(p.err), History: p.failures(),
	}
	if p.bounded && !l.holds() && l.retry() < 0 {
		e.Failed = append(e.Failed, 0, journal.Position(p.limit)) // see gathers
	}
	if c.supersedes() && e.Failed == nil {
		e.Failed = append(e.Failed, l.about()) // see stale
	}
	for _, h := range p.held {
		e.Failed = append(e.Failed, h.Ref.Position())
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

// Change is what a shard decided, with what its recorder may want to add to the
// same commit.
type Change struct {
	journal.Change
	Merged []Merged // of Ended
	Claims []claim  // of items that were settled, and of jobs that a person has removed
	Staged []any    // see Item.Stage

	Deleted []journal.Position // of Ended: by a person

	Over    Weight // of the payloads among Ended and Buried
	Surplus Weight // under Config.Weighed: of what was taken in, beyond what Announced says of it
}

// Merged is a payload that another one replaces.
type Merged struct {
	Position, Into journal.Position
	Over           bool // that one has ended, too: it was superseded by what has run, or is dead
}

// Held is what a job has while it runs. It is the recorder's: a Core only carries it.
type Held interface {
	// Settle ends it as the verdict says, and returns what belongs into the commit of
	// the item; over: none of the item's payloads runs again.
	Settle(v Verdict, over bool) []journal.Set
	// Release lets others have it, once that is recorded.
	Release(over bool)
}

// claim is what was held for an item while it ran.
type claim struct {
	Held
	Verdict Verdict
	Over    bool // none of the item's payloads runs again
}

// Recorder makes a change durable in the next commit, and sets the Ref of each
// state. It does not wait for that commit.
type Recorder interface{ Record(*Change) }

// Record writes the change that has gathered into log, and forgets it. After an
// error of the Core it writes nothing.
func (c *ledger) Record(log Recorder) {
	if c.broken() || len(c.change.Ended)+len(c.change.States)+len(c.change.Buried)+len(c.change.Claims)+len(c.change.Exhumed) == 0 && c.change.Surplus == (Weight{}) {
		return
	}
	log.Record(&c.change)
	rewritten, at := c.rewritten, c.change.Rewritten
	for i, l := range c.stateOf {
		if l == nil {
			c.rested.written(i, c.change.States[i].Ref)
			continue
		}
		p := l.past()
		p.state, p.pending = c.change.States[i].Ref, 0
	}
	c.change.Ended = emptied(c.change.Ended)
	c.change.States = emptied(c.change.States)
	c.change.Buried = emptied(c.change.Buried)
	c.change.Exhumed = emptied(c.change.Exhumed)
	c.change.Sets = emptied(c.change.Sets)
	c.change.Merged = emptied(c.change.Merged)
	c.change.Claims = emptied(c.change.Claims)
	c.change.Deleted = emptied(c.change.Deleted)
	c.change.Staged = emptied(c.change.Staged)
	c.change.FollowUps = journal.FollowUps{}
	c.change.Over, c.change.Surplus = Weight{}, Weight{}
	c.stateOf = emptied(c.stateOf)
	if len(rewritten) > 0 {
		c.rewritten, c.change.Rewritten = nil, nil
		c.noteRewritten(rewritten, at)
		c.Record(log)
	}
}

// emptied returns s for the next use, unless a burst has made it large.
func emptied[T any](s []T) []T {
	if cap(s) > 1<<12 {
		return nil
	}
	clear(s)
	return s[:0]
}
