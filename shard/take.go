package shard

import (
	"hash/maphash"
	"math"
	"slices"
	"time"
)

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
	if c.cfg.Short != nil && c.cfg.Short() {
		most = c.cfg.BatchSize
	}
	c.prefetchIDs(now, most)
	for r.size < most && c.NextDue() <= now {
		l := c.next()
		c.leave(l)
		r.grow()
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

// handOut gives the waiting payloads of a lane, up to limit, to an item.
func (c *hands) handOut(l *lane, it *Item, limit int) {
	c.identify(l, it)
	c.prefetchEqual(l, limit)
	c.handLimit(l, it)
	it.begin(l, limit)
	if c.cfg.Fold != nil {
		it.inOrderOfAcceptance()
	}
	if n := len(c.spare); l.rest == nil && n > 0 {
		l.rest, c.spare = c.spare[n-1], c.spare[:n-1]
	}
	it.shift = c.shift
	l.more().item = it
	c.counts.Running++
}

// identify tells an item the id of its lane, which is read beside a payload unless
// it has just run.
func (c *hands) identify(l *lane, it *Item) {
	if l.rest != nil && l.rest.id != "" {
		it.ID, l.rest.id = l.rest.id, ""
		it.hash = uint32(maphash.String(hashSeed, it.ID))
		return
	}
	id := l.id(&c.lanes.entries)
	it.ID, it.hash = c.ids.clone(id), hashOf(id)
}

// release ends the hand-out of a lane.
func (c *hands) release(l *lane) {
	l.rest.item = nil
	c.counts.Running--
	if *l.rest == newRest {
		if len(c.spare) < maxRun {
			c.spare = append(c.spare, l.rest)
		}
		l.rest = nil
	}
}

// grow adds an item without moving the others: lanes point to them.
func (r *Run) grow() {
	if r.Items = r.Items[:len(r.Items)+1]; len(r.Items) > cap(r.Items) {
		panic("shard: bug: a run is too small for its items")
	}
}

// NewRun returns a run that is large enough for Take.
func (c *hands) NewRun() *Run {
	return &Run{Items: make([]Item, 0, c.maxPace()*c.cfg.BatchSize)}
}

// maxPace is the most batches in a run.
func (c *hands) maxPace() int { return max(1, maxRun/c.cfg.BatchSize) }

// reclaim takes runs apart that workers have had for longer than the quantum: what
// such a worker has in hand is a slow job. What stands behind that is taken back,
// because another worker could have it. What ran before it is settled: its ids, and
// all that they hold, don't wait for the slow one. Under Config.Single the same
// holds for the payloads of the id in hand, and the worker is told to give it back
// after this one. reclaim returns when to look again, or math.MaxInt64. Workers
// don't look at the clock themselves: for fast handlers that would be a good part
// of the work.
func (c *ends) reclaim(now int64) (next int64) {
	for len(c.young) > 0 {
		r := c.young[0]
		if next = r.taken + int64(Quantum); next > now {
			return next
		}
		c.takeApart(now, r)
	}
	return math.MaxInt64
}

// takeApart leaves a worker with the batch that it has in hand. Nothing of the run
// can be started any more, and the next runs are as long as this one should have been.
func (c *ends) takeApart(now int64, r *Run) {
	c.age(r)
	over := 0
	var hand *Item
	for i := range r.Items {
		switch it := &r.Items[i]; {
		case it.revoke():
			c.putBack(it.lane, it)
		case it.state.Load() == started:
			over, hand = it.before, it
		}
	}
	c.pace = max(1, min(c.pace, over/c.cfg.BatchSize))
	for i := range r.Items[:over] {
		// One without a verdict is on its way back through Postpone.
		if it := &r.Items[i]; it.state.Load() == started && it.Outcome.Verdict != VerdictUnstarted {
			c.settle(now, it)
			it.reset()
			it.state.Store(revoked)
		}
	}
	if c.cfg.Single && hand != nil && len(hand.Payloads) > 1 {
		c.recall(hand)
	}
}

// age ends the time in which a run is looked at.
func (c *hands) age(r *Run) {
	if i := slices.Index(c.young, r); i >= 0 {
		c.young = slices.Delete(c.young, i, i+1)
	}
}

// recall settles those payloads of an item that are done while its worker is at the
// next one, and wants the others back. A crash finds these as if they had not run, and new.
func (c *ends) recall(it *Item) {
	it.recalled.Store(true)
	n := int(it.passed.Load())
	if n == it.settled {
		return
	}
	c.endDone(it, n)
	l := it.lane
	c.setRetry(l, -1)
	l.remember().err = ""
	c.writeStateOut(l, it)
}
