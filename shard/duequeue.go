package shard

// dueQueue has the lanes that wait, by due time. Most due times come in order,
// since they are now: those lanes stand in line, tied to one another by their
// numbers. A lane whose due time is before that of the last in line goes into a
// heap, or if it comes after the one before that, the last one does: a job that is
// put off for a year must not send all others to the heap.
type dueQueue struct {
	first, last number
	heap        heap[turn]
	turns       number // given out so far
	stale       int    // turns in heap that are not valid any more; Invariant: exact
}

// standing says where in the agenda a lane is.
type standing uint8

const (
	absent standing = iota
	inLine          // prev and next are its neighbours
	inHeap          // next is its turn
)

// turn is a lane's place in the heap. It is valid while the lane has the same
// turn; taking a place back would cost a search.
type turn struct {
	due        int64
	lane, turn number
}

func (t turn) before(o turn) bool { return t.due < o.due }

func (c *agenda) valid(t turn) bool {
	l := c.lanes.at(t.lane)
	return l != nil && l.standing == inHeap && l.next == t.turn && l.due == t.due
}

// place gives a lane that is absent its place.
func (c *agenda) place(l *lane) {
	a := &c.due
	if a.last != 0 {
		last := c.lanes.at(a.last)
		switch {
		case last.due <= l.due:
			last.next = l.number
		case last.prev == 0:
			c.displace(last)
			c.scatter(last)
		case c.lanes.at(last.prev).due <= l.due:
			c.displace(last)
			c.scatter(last)
			c.lanes.at(a.last).next = l.number
		default:
			c.scatter(l)
			return
		}
	}
	l.standing, l.prev, l.next = inLine, a.last, 0
	if a.last = l.number; a.first == 0 {
		a.first = l.number
	}
}

func (c *agenda) scatter(l *lane) {
	c.due.turns++
	l.standing, l.next = inHeap, c.due.turns
	c.due.heap.push(turn{l.due, l.number, l.next})
}

// displace takes a lane's place away from it, if it has one.
func (c *agenda) displace(l *lane) {
	a := &c.due
	switch l.standing {
	case inLine:
		if l.prev == 0 {
			a.first = l.next
		} else {
			c.lanes.at(l.prev).next = l.next
		}
		if l.next == 0 {
			a.last = l.prev
		} else {
			c.lanes.at(l.next).prev = l.prev
		}
	case inHeap:
		if a.stale++; a.stale > 64 && a.stale > len(a.heap)/2 {
			l.standing = absent
			a.heap.keep(c.valid)
			a.stale = 0
		}
	}
	l.standing = absent
}

// next returns the lane with the earliest due time, or nil.
func (c *agenda) next() *lane {
	a := &c.due
	for len(a.heap) > 0 && !c.valid(a.heap[0]) {
		a.heap.pop()
		a.stale--
	}
	if a.first == 0 {
		if len(a.heap) == 0 {
			return nil
		}
		return c.lanes.at(a.heap[0].lane)
	}
	first := c.lanes.at(a.first)
	if len(a.heap) > 0 && a.heap[0].due < first.due {
		return c.lanes.at(a.heap[0].lane)
	}
	return first
}

// leave removes what next has returned.
func (c *agenda) leave(l *lane) {
	if l.standing == inHeap {
		c.due.heap.pop()
		l.standing = absent
		return
	}
	c.displace(l)
}
