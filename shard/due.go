package shard

import (
	"math"
	"time"
)

const farFuture = math.MaxInt64 - 1 // MaxInt64 itself means never

// enqueue gives a lane its place in the agenda, instead of the one it had.
func (c *agenda) enqueue(l *lane, due int64) {
	parked := c.isParked(l)
	if l.standing != absent && l.due == due && !l.halted && !parked {
		return
	}
	c.displace(l)
	l.due = due
	c.expect(due)
	if !l.halted && !parked {
		c.place(l)
	}
}

func (c *agenda) isParked(l *lane) bool {
	return len(c.held)+len(c.prefixes) > 0 && c.why(l.id(&c.lanes.entries)) != 0
}

// NextDue returns the due time of the oldest job that waits, or math.MaxInt64.
func (c *agenda) NextDue() int64 {
	l := c.next()
	if l == nil {
		return math.MaxInt64
	}
	return l.due
}

// later is now + d without overflow, for any d a user may come up with.
func later(now int64, d time.Duration) int64 {
	d = max(d, 0)
	if now > farFuture-int64(d) {
		return farFuture
	}
	return now + int64(d)
}
