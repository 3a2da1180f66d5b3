package shard

import (
	"cmp"
	"math"

	"github.com/strandjobs/strand/journal"
)

// throttle has ids rest after a run, under [Config].Throttle, and keeps what has to be
// known of an id that has nothing to do.
type throttle struct {
	ledger
	now int64 // as of the last Tick
}

// rested are ids that rest, or that something has to be known of, and that need no lane: it is
// written down as a state without a payload.
type rested struct {
	byID map[string]rest
	ends heap[restEnd]
}

type rest struct {
	until int64 // 0: it is here for what has run alone
	state journal.Ref
	ran   version // of the newest that has, under MergeSupersede, if it has a score of its own
}

type restEnd struct {
	until int64
	id    string
}

func (e restEnd) before(o restEnd) bool { return e.until < o.until }

// endsAtOnce bounds how many rests end in one change.
const endsAtOnce = 256

func (r *rested) add(id string, at rest) {
	if r.byID == nil {
		r.byID = make(map[string]rest)
	}
	r.byID[id] = at
	if at.until != 0 {
		r.ends.push(restEnd{at.until, id})
	}
}

// rests reports whether a state is that of an id that rests and has nothing else
// to do: like a state with a limit, see gathers.
func rests(e *journal.Entry) bool { return len(e.Failed) == 1 && e.Failed[0] == 0 }

// Tick says what time it is. What comes to wait from now on and is due soon is
// prompt: it has no slack.
func (c *throttle) Tick(now int64) {
	c.now, c.soon = now, later(now, patience*c.cfg.Slack)
	r := &c.rested // what is over ends with the next job: an idle shard has no timer for that
	for n := 0; n < endsAtOnce && len(r.ends) > 0 && r.ends[0].until <= now; n++ {
		end := r.ends.pop()
		if at, rests := r.byID[end.id]; rests && at.until == end.until && at.ran.at == 0 {
			delete(r.byID, end.id)
			c.end(at.state)
		}
	}
}

// rest has an id with nothing left rest after its run.
func (c *throttle) rest(now int64, id string) {
	if c.cfg.Throttle > 0 && !c.broken() && !c.supersedes() {
		c.writeRest(now, id, rest{until: c.restUntil(now)})
	}
}

// writeRest writes down that an id rests, and what has run of it.
func (c *throttle) writeRest(now int64, id string, r rest) {
	failed := []journal.Position{0}
	if r.ran.at != 0 {
		failed = append(failed, 0, journal.Position(math.Float64bits(r.ran.score)), r.ran.at) // see versions
	}
	c.change.States = append(c.change.States, journal.JobState{Entry: journal.Entry{
		Queue: c.queue, ID: []byte(id), Due: cmp.Or(r.until, now), Retry: -1, Failed: failed,
	}})
	c.stateOf = append(c.stateOf, subject{rests: id})
	c.rested.add(id, r)
}

// restAfter has what waits for an id rest after its run.
func (c *throttle) restAfter(now int64, l *lane) {
	if c.cfg.Throttle > 0 {
		l.due = l.dueAfter(l.due, c.restUntil(now))
		l.unpinned = l.unpinned || !c.supersedes() // else it stays among the rested
	}
}

// rouse makes a new lane for an id that may be resting: it is due when that is over,
// by the state that said so, or when its first payload is, if that is later.
func (c *throttle) rouse(l *lane, e *journal.Entry) {
	if len(c.rested.byID) == 0 {
		return
	}
	r, rests := c.rested.byID[string(e.ID)]
	if !rests {
		return
	}
	delete(c.rested.byID, string(e.ID))
	if e.Restored || r.until <= c.now {
		c.end(r.state)
		return
	}
	l.due = l.dueAfter(l.due, r.until)
	l.past().state, l.past().resting = r.state, true
}

// rouseFor is rouse for a payload whose id may be resting, and stays among the rested. What
// waits behind a run rests after that.
func (c *throttle) rouseFor(l *lane, e *journal.Entry, due int64) int64 {
	if e.Restored || l.item() != nil {
		return due
	}
	return c.dueWhenRested(l, string(e.ID), due)
}

func (c *throttle) dueWhenRested(l *lane, id string, due int64) int64 {
	if until := c.rested.byID[id].until; until > c.now {
		return l.dueAfter(due, until)
	}
	return due
}

// restOn has an id rest of which only the state was loaded.
func (c *throttle) restOn(l *lane) {
	p := l.known()
	if c.cfg.Throttle <= 0 || !p.resting || p.state.IsZero() {
		return
	}
	c.rested.add(string(l.id(&c.lanes.entries)), rest{until: l.due, state: p.state})
	p.state = journal.Ref{} // it outlives the lane
}

// shiftRests keeps rests as long as they were when the clock is set. Noted: it is written down.
func (c *throttle) shiftRests(before, step int64, noted bool) {
	r := &c.rested
	r.ends = nil
	for id, at := range r.byID {
		if at.until == 0 {
			continue
		}
		over := at.until <= min(before, before+step) // and stays so
		if !over {
			at.until = shifted(at.until, step)
		}
		if over || !noted {
			r.add(id, at)
			continue
		}
		c.end(at.state)
		at.state = journal.Ref{}
		c.writeRest(before+step, id, at)
	}
}
