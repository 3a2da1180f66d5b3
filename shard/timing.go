package shard

import (
	"cmp"
	"math"

	"github.com/strandjobs/strand/journal"
)

// timing says when a lane is due. It looks at a lane and at what happens, and writes
// nothing down.
//
// When a payload arrives: open says when its job is due if it is the first, freshDue if
// others wait, and behind if the id runs. When a run ends: undone says when its job is due
// if the run came to nothing, and restUntil how long the id rests. A retry and a snooze
// say themselves when they are due; that moment is their limit, see Config.Quiet.
type timing struct {
	cfg   Config
	set   *clockSet // when the clock was set last
	shift int64     // by how much the clock was set so far
}

// moves reports whether fresh payloads move due times, so that these depend on more
// than the earliest payload.
func (c *timing) moves() bool { return c.cfg.DuePull || c.cfg.DuePush || c.debounces() }

func (c *timing) debounces() bool { return c.cfg.Quiet > 0 }

// open makes a payload that is due at a time the first of those that wait. Decided: it
// came back from the morgue, and is not put off.
func (c *timing) open(l *lane, due int64, decided bool) {
	l.past().unbound()
	l.due = due
	switch {
	case !c.debounces():
	case decided:
		c.bound(l, due)
		l.past().decided = true
	default:
		l.due = later(due, c.cfg.Quiet)
		if l.item() != nil || l.past() != nil { // else it follows from the due time, see limitOf
			c.bound(l, later(due, c.cfg.MaxWait))
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

// unbound makes the due time of a job its limit, once there is a state of it, and its own. p is of past, which may
// be nil, and not of known.
func (p *runHistory) unbound() {
	if p != nil {
		p.limit, p.bounded, p.decided, p.restEnd = 0, false, false, 0
	}
}

// limitOf returns the latest time for which fresh payloads may put off a job.
func (c *timing) limitOf(l *lane) int64 {
	switch p := l.known(); {
	case p.bounded && (l.retry() < 0 || l.item() != nil): // else the retry is decided upon
		return p.limit
	case p.hasState(): // it was decided upon
		return l.due
	}
	return later(l.due, c.cfg.MaxWait-c.cfg.Quiet) // one payload has come
}

// moved returns when a job is due after a payload has come that is due at a time.
func (c *timing) moved(at, limit, due int64) int64 {
	switch {
	case c.debounces():
		return min(max(at, later(due, c.cfg.Quiet)), limit)
	case c.cfg.DuePull:
		return min(at, due)
	case c.cfg.DuePush:
		return max(at, due)
	}
	return at
}

// freshDue returns when a job is due after a payload has come that is due at a time.
// One that waits for a retry goes by Config.Pull, a new one by DuePull, DuePush or Quiet,
// unless what failed is held.
func (c *timing) freshDue(l *lane, at, limit, due int64, holds bool) int64 {
	switch {
	case l.halted:
	case l.retry() >= 0:
		if c.cfg.Pull {
			return min(at, due)
		}
	case !holds:
		return c.moved(at, limit, due)
	}
	return at
}

// keepsDue reports whether no payload that comes for a job moves its due time.
func (c *timing) keepsDue(l *lane) bool { return !c.moves() && (l.retry() < 0 || !c.cfg.Pull) }

// behind sets the due time of what arrives while its id runs: a job of its own,
// once the run is over.
func (c *timing) behind(l *lane, e *journal.Entry, first bool) {
	if first || e.Restored {
		c.open(l, e.Due, e.Restored)
	} else if c.moves() {
		l.due = c.moved(l.due, c.limitOf(l), e.Due)
	}
	if e.Restored {
		l.unpinned = true // it is older than what waits
	}
}

// gathering reports whether what waits in a lane gathers under Quiet: when it is due has not
// been decided upon.
func (c *timing) gathering(l *lane) bool {
	bounded := l.known().bounded
	if !c.debounces() || l.item() != nil {
		return bounded
	}
	return l.retry() < 0 && (bounded || !l.known().hasState())
}

// handLimit gives an item the limit of its job; what comes behind it has its own.
func (c *timing) handLimit(l *lane, it *Item) {
	if c.debounces() {
		it.limit, it.decided = c.limitOf(l), l.known().decided
	}
	l.past().unbound()
}

// undone returns when the job of an item is due if nothing comes of the run, and the
// limit of that, by the clock as it is now.
func (c *timing) undone(it *Item) (due, limit int64) {
	set := c.shift - it.shift
	return shifted(it.undone, set), shifted(it.limit, set)
}

// takeDue undoes that the due time and the limit of a job are its item's.
func (c *timing) takeDue(l *lane, it *Item) {
	due, limit := c.undone(it)
	l.due = due
	c.bound(l, limit)
	if it.decided {
		l.past().decided = true
	}
}

// restUntil returns when a rest is over that begins now; now if there is none.
func (c *timing) restUntil(now int64) int64 { return later(now, c.cfg.Throttle) }

// throttle has ids rest after a run, under [Config].Throttle, and keeps what has to be
// known of an id that has nothing to do.
type throttle struct {
	written
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

// restOf returns when the rest is over of the id of an item that ends; now: it does not rest. Where no handler was
// called, it rests after the run before, if there was one.
func (c *throttle) restOf(now int64, l *lane, it *Item) int64 {
	switch {
	case !it.Outcome.Unrun || c.cfg.Throttle <= 0:
		return c.restUntil(now)
	case c.supersedes():
		return max(now, c.rested.byID[it.ID].until)
	}
	return max(now, c.restLeft(now, l))
}

// rest has an id with nothing left rest until a time.
func (c *throttle) rest(now, until int64, id string) {
	if until > now && !c.broken() && !c.supersedes() {
		c.writeRest(now, id, rest{until: until})
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

// restAfter has what waits for an id rest until a time.
func (c *throttle) restAfter(now, until int64, l *lane) {
	if until > now {
		l.due = l.remember().dueAfter(l.due, until)
		l.unpinned = l.unpinned || !c.supersedes() // else it stays among the rested
	}
}

// restLeft returns when the rest of an id is over whose job a person ends: a retry or a snooze does not wait for that,
// but what comes after it does. The log tells when a job has failed, and not when it was snoozed.
func (c *throttle) restLeft(now int64, l *lane) int64 {
	ran := l.known().ran
	if last, history := l.known().failures(); ran == 0 { // by the clock of then
		for _, f := range history.Failures(last) {
			ran = max(ran, f.At)
		}
	}
	if ran == 0 { // it has not run
		return l.known().restEnd
	}
	return max(l.known().restEnd, c.restUntil(min(ran, now))) // the clock may have been set
}

// override has a job begin although its id rests until a time. What comes after it, if it comes to no run, rests as if it
// had not been there.
func (c *throttle) override(l *lane, until int64) {
	if until > c.now {
		l.remember().ran = max(until-int64(c.cfg.Throttle), 1)
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
		c.override(l, r.until)
		c.end(r.state)
		return
	}
	l.due = l.remember().dueAfter(l.due, r.until)
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
		return l.remember().dueAfter(due, until)
	}
	return due
}

// restOn has an id rest of which only the state was loaded.
func (c *throttle) restOn(l *lane) {
	p := l.known()
	if !p.resting || p.state.IsZero() {
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
