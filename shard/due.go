package shard

import (
	"math"
	"time"
)

const farFuture = math.MaxInt64 - 1 // MaxInt64 itself means never

// turn is a lane's place in the due queue. It is valid while the lane has the
// same turn; taking a place back would cost a search.
type turn struct {
	due  int64
	lane *lane
	turn uint32
}

func (t turn) before(o turn) bool { return t.due < o.due }

// enqueue gives a lane its place in the due queue, instead of the one it had.
func (c *Core) enqueue(l *lane, due int64) {
	_, parked := c.parked[l.id]
	if l.queued && l.due == due && !l.halted && !parked {
		return
	}
	c.dequeue(l)
	l.due = due
	if l.halted || parked {
		return
	}
	l.queued = true
	c.due.push(turn{due, l, l.turn})
	if c.stale > 64 && c.stale > c.due.len()/2 {
		c.due.keep(turn.valid)
		c.stale = 0
	}
}

// dequeue takes a lane's place away from it.
func (c *Core) dequeue(l *lane) {
	if l.queued {
		l.queued = false
		c.stale++
	}
	l.turn++
}

func (t turn) valid() bool { return t.lane.queued && t.lane.turn == t.turn }

// NextDue returns the due time of the oldest job that waits, or math.MaxInt64.
func (c *Core) NextDue() int64 {
	for {
		t := c.due.first()
		if t == nil {
			return math.MaxInt64
		}
		if t.valid() {
			return t.due
		}
		c.due.pop()
		c.stale--
	}
}

// later is now + d without overflow, for any d a user may come up with.
func later(now int64, d time.Duration) int64 {
	d = max(d, 0)
	if now > farFuture-int64(d) {
		return farFuture
	}
	return now + int64(d)
}
