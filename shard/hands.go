package shard

import (
	"cmp"
	"hash/maphash"
	"slices"
	"time"
	"unsafe"
)

// hands hands payloads out to workers, in runs, and takes back what comes to nothing.
type hands struct {
	gather
	ids    idArena
	spare  []*laneExtra // not in use
	runs   map[*Run]struct{}
	young  []*Run // of runs, those that reclaim has to look at, oldest first
	pace   int    // batches in the next run
	exempt int    // of runs, that don't count against Concurrency
}

const (
	// maxRun bounds the items in one run, and so how much a worker may have in
	// hand. A batch may be larger.
	maxRun = 64
	// Quantum is after how long reclaim takes back what a worker is not at work on.
	// It bounds how long an id waits for another one that was handed out with it.
	Quantum = time.Millisecond
)

// ready returns the due time of the oldest job, and whether a run of it may
// begin now.
func (c *hands) ready(now int64) (due int64, ok bool) {
	due = c.NextDue()
	return due, due <= now && !c.paused && !c.saturated() && !c.broken()
}

// Take hands out the oldest due jobs, as many as are likely to be done within
// the quantum, oldest first. It reports false when none is due or the shard
// has as many runs as it may.
func (c *hands) Take(now int64, r *Run) bool {
	if c.paused || c.saturated() || c.broken() {
		return false
	}
	r.Items, r.size = r.Items[:0], 0
	most := c.pace * c.cfg.BatchSize
	if c.short() {
		most = c.cfg.BatchSize
	}
	c.lanes.prefetchIDs(c.due.first, now, most)
	for l := c.next(); r.size < most && l != nil && l.due <= now; l = c.next() {
		c.leave(l)
		r.Items = r.Items[:len(r.Items)+1] // the others stay where they are: lanes point to them
		it := &r.Items[len(r.Items)-1]
		c.handOut(l, it, c.limit(most-r.size))
		r.size += c.size(it.Payloads)
	}
	if len(r.Items) == 0 || c.broken() {
		return false
	}
	r.taken, r.exempt, r.Elapsed, r.next = now, false, 0, 0
	c.runs[r] = struct{}{}
	if r.size > 1 {
		c.young = append(c.young, r)
	}
	return true
}

// limit is how many payloads of an id a run with room for so many more takes;
// 0: all.
func (c *hands) limit(room int) int {
	if most := c.cfg.MaxPayloads; !c.cfg.Single || most > 0 && most < room {
		return most
	}
	return room
}

// size is how many calls of a handler an item with these payloads is worth.
func (c *hands) size(payloads []Payload) int {
	if c.cfg.Single {
		return len(payloads)
	}
	return 1
}

// saturated reports whether the shard has as many runs as it may.
func (c *hands) saturated() bool { return len(c.runs)-c.exempt >= c.cfg.Concurrency || c.swift() }

// swift reports whether a run is out that is likely to be over within the quantum:
// where jobs take microseconds, a second worker would have more to do with the shard
// than with them.
func (c *hands) swift() bool { return len(c.young) > 0 && c.pace > 1 && c.pace == c.maxPace() }

// Exempt makes room for another run beside r, whose worker is stuck: only the
// ids in r wait for it any longer.
func (c *hands) Exempt(r *Run) {
	if _, out := c.runs[r]; out && !r.exempt {
		r.exempt = true
		c.exempt++
	}
}

// NewRun returns a run that is large enough for Take.
func (c *hands) NewRun() *Run { return &Run{Items: make([]Item, 0, c.maxPace()*c.cfg.BatchSize)} }

// maxPace is the most batches in a run.
func (c *hands) maxPace() int { return max(1, maxRun/c.cfg.BatchSize) }

// left is how much of an item the worker did not come to.
func (c *hands) left(it *Item) int {
	switch v := it.Outcome.Verdict; {
	case v == VerdictUnstarted:
		return c.size(it.Payloads[it.Outcome.Done:])
	case v == VerdictDone && c.cfg.Single:
		return len(it.Payloads) - it.Outcome.Done - 1
	}
	return 0
}

// handOut gives the waiting payloads of a lane, up to limit, to an item.
func (c *hands) handOut(l *lane, it *Item, limit int) {
	if l.rest != nil && l.rest.id != "" {
		it.ID, l.rest.id = l.rest.id, ""
		it.hash = uint32(maphash.String(hashSeed, it.ID))
	} else {
		id := l.id(&c.lanes.entries) // which is read beside a payload
		it.ID, it.hash = c.ids.clone(id), hashOf(id)
	}
	c.lanes.prefetchEqual(l, limit)
	c.handLimit(l, it)
	it.begin(l, limit)
	if c.cfg.Fold != nil {
		slices.SortFunc(it.Payloads, func(p, q Payload) int { return cmp.Compare(p.Ref.Position(), q.Ref.Position()) })
	}
	if n := len(c.spare); l.rest == nil && n > 0 {
		l.rest, c.spare = c.spare[n-1], c.spare[:n-1]
	}
	it.shift = c.shift
	l.more().item = it
	c.counts.Running++
}

// release ends the hand-out of a lane.
func (c *hands) release(l *lane) {
	r := l.rest
	r.item = nil
	c.counts.Running--
	if r.past == nil && r.bag == nil && r.id == "" && r.retry < 0 { // it is newRest
		if len(c.spare) < maxRun {
			c.spare = append(c.spare, l.rest)
		}
		l.rest = nil
	}
}

// age ends the time in which a run is looked at.
func (c *hands) age(r *Run) {
	c.young = slices.DeleteFunc(c.young, func(o *Run) bool { return o == r })
}

// putBack undoes that an item was handed out.
func (c *hands) putBack(l *lane, it *Item) {
	if c.supersedes() && l.n() > 0 {
		c.giveWay(l, it)
		return
	}
	c.release(l)
	c.takeDue(l, it)
	c.returnTo(l, it.Payloads, it.held)
	c.enqueue(l, l.due)
}

// undo puts back what ran and came to nothing. A replay would make something
// else of the due time if payloads came or went meanwhile: then it is written.
func (c *hands) undo(l *lane, it *Item) {
	gaveWay := c.supersedes() && l.n() > 0
	ran := it.state.Load() == started
	changed := l.n() > 0 || len(it.Outcome.Parts) > 0 || it.removals.Load() != nil || it.shift != c.shift
	c.putBack(l, it)
	if ran && changed && !gaveWay {
		c.writeState(l)
	}
	l.unpinned = false
}

// again puts payloads, and those behind them, back with a new due time and retry
// count, which hold for the id as a whole. On a disk that is short of room that is not
// written if nothing has ended and no room was taken for it: many failures would take the room
// for what ends. A crash then is one before the run, until catchUp.
func (c *hands) again(l *lane, it *Item, payloads, behind []Payload, retry int, due int64, err string) {
	l.remember().history = it.History
	if it.held || c.cfg.Block && it.Outcome.Verdict == VerdictFailed {
		c.restart(l, payloads, behind, retry, due, err)
	} else {
		c.restart(l, nil, it.Payloads[len(it.Payloads)-len(payloads)-len(behind):], retry, due, err)
	}
	if l.halted || len(payloads)+len(behind) < len(it.Payloads) || it.Outcome.Room > 0 {
		c.writeState(l)
		return
	}
	if !c.writeStateSoon(l) && c.debounces() {
		c.bound(l, l.due) // what no state says gathers nothing either
	}
}

// restart puts payloads back, those that are to be held and the others, with all
// that a state says of their job.
func (c *hands) restart(l *lane, held, others []Payload, retry int, due int64, err string) {
	l.remember().err = err
	c.release(l)
	if len(held) > 0 {
		c.returnTo(l, held, true)
	}
	c.returnTo(l, others, false)
	l.past().unbound()
	c.setRetry(l, retry)
	c.enqueue(l, due)
	l.unpinned = false
}

// idArena makes strings of the ids that are handed out, many in one allocation. One
// that stays keeps its neighbours in memory: so they are few, and a long one
// stands alone.
type idArena struct{ room []byte }

const (
	idsRoom = 512
	longID  = idsRoom / 8
)

func (s *idArena) clone(id []byte) string {
	if len(id) == 0 || len(id) > longID {
		return string(id)
	}
	if len(id) > len(s.room) {
		s.room = make([]byte, idsRoom)
	}
	n := copy(s.room, id)
	clone := unsafe.String(&s.room[0], n) // never written to again
	s.room = s.room[n:]
	return clone
}
