package shard

import (
	"math"
	"time"
)

const (
	// maxRun bounds the items in one run, and so how much a worker may have in
	// hand. A batch may be larger.
	maxRun = 64
	// Quantum is after how long Reclaim takes back what a worker has not started.
	// It bounds how long an id waits behind another one that was handed out with
	// it.
	Quantum = time.Millisecond
)

// Ready returns the due time of the oldest job, and whether a run of it may
// begin now.
func (c *Core) Ready(now int64) (due int64, ok bool) {
	due = c.NextDue()
	return due, due <= now && !c.saturated() && !c.broken()
}

// Take hands out the oldest due jobs, as many as are likely to be done within
// the quantum, oldest first. It reports false when none is due or the shard
// has as many runs as it may.
func (c *Core) Take(now int64, r *Run) bool {
	if c.saturated() || c.broken() {
		return false
	}
	r.Items = r.Items[:0]
	most := c.pace * c.cfg.BatchSize
	c.prefetchIDs(now, most)
	for len(r.Items) < most && c.NextDue() <= now {
		l := c.next()
		c.leave(l)
		r.grow()
		c.handOut(l, &r.Items[len(r.Items)-1], c.cfg.MaxPayloads)
	}
	if len(r.Items) == 0 || c.broken() {
		return false
	}
	r.taken, r.reclaimed, r.exempt, r.Elapsed = now, false, false, 0
	c.runs[r] = struct{}{}
	return true
}

// saturated reports whether the shard has as many runs as it may.
func (c *Core) saturated() bool { return len(c.runs)-c.exempt >= c.cfg.Concurrency }

// Exempt makes room for another run beside r, whose worker is stuck: only the
// ids in r wait for it any longer.
func (c *Core) Exempt(r *Run) {
	if _, out := c.runs[r]; out && !r.exempt {
		r.exempt = true
		c.exempt++
	}
}

// handOut gives the waiting payloads of a lane, up to limit, to an item.
func (c *Core) handOut(l *lane, it *Item, limit int) {
	id := l.id(&c.lanes.entries)
	it.ID, it.hash = c.ids.clone(id), hashOf(id)
	c.prefetchEqual(l, limit)
	it.begin(l, limit)
	if n := len(c.rests); l.rest == nil && n > 0 {
		l.rest, c.rests = c.rests[n-1], c.rests[:n-1]
	}
	it.shift = c.shift
	l.more().item = it
	c.counts.Running++
}

// release ends the hand-out of a lane.
func (c *Core) release(l *lane) {
	l.rest.item = nil
	c.counts.Running--
	if *l.rest == newRest {
		if len(c.rests) < maxRun {
			c.rests = append(c.rests, l.rest)
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
func (c *Core) NewRun() *Run {
	return &Run{Items: make([]Item, 0, c.maxPace()*c.cfg.BatchSize)}
}

// maxPace is the most batches in a run.
func (c *Core) maxPace() int { return max(1, maxRun/c.cfg.BatchSize) }

// Reclaim takes back what workers have had for longer than the quantum and did
// not start: it stands behind a slow job. Another worker could have it, and this
// one should look for other shards. It returns when to look again, or
// math.MaxInt64. Workers don't look at the clock themselves: for fast handlers
// that would be a good part of the work.
func (c *Core) Reclaim(now int64) (next int64) {
	next = math.MaxInt64
	for r := range c.runs {
		if len(r.Items) == 1 || r.reclaimed {
			continue
		}
		if at := r.taken + int64(Quantum); at > now {
			next = min(next, at)
			continue
		}
		r.reclaimed = true // once is enough: every item is started or revoked then
		for i := range r.Items {
			if it := &r.Items[i]; it.revoke() {
				c.putBack(it.lane, it)
			}
		}
	}
	return next
}
