package shard

import "maps"

const (
	slabSize = 64
	// shrinkAbove is how many lanes are kept for the next burst, at least.
	shrinkAbove = 1 << 12
)

// newLane makes a lane for an id that has none.
func (c *Core) newLane(id string) *lane {
	var l *lane
	if n := len(c.spare); n > 0 {
		l, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		if len(c.slab) == 0 {
			c.slab = make([]lane, slabSize)
		}
		l, c.slab = &c.slab[0], c.slab[1:]
	}
	l.id, l.retry = id, -1
	c.lanes[id] = l
	c.peak = max(c.peak, len(c.lanes))
	return l
}

// drop forgets an id with nothing left.
func (c *Core) drop(l *lane) {
	c.endState(l)
	c.setRetry(l, -1)
	c.setHalted(l, false)
	delete(c.lanes, l.id)
	*l = lane{turn: l.turn}
	c.spare = append(c.spare, l)
	if c.peak > shrinkAbove && len(c.lanes) < c.peak/8 {
		c.shrink()
	}
}

// shrink gives back the memory that a large backlog needed: maps don't shrink
// by themselves.
func (c *Core) shrink() {
	lanes := make(map[string]*lane, len(c.lanes))
	maps.Copy(lanes, c.lanes)
	c.lanes, c.spare, c.peak = lanes, nil, len(lanes)
}
