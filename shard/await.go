package shard

import (
	"slices"

	"github.com/strandjobs/strand/journal"
)

// HasPayload reports whether the payload at a position waits for its id or runs.
func (c *looks) HasPayload(id string, at journal.Position) bool {
	l := c.lanes.find([]byte(id))
	if l == nil {
		return false
	}
	if it := l.item(); it != nil && slices.ContainsFunc(it.Payloads[it.settled:], func(p Payload) bool { return p.Ref.Position() == at }) {
		return true
	}
	return l.hasPayload(at)
}

// HasAny reports whether one of the payloads at some positions, in ascending order,
// waits for its id.
func (c *looks) HasAny(id string, of []journal.Position) bool {
	l := c.lanes.find([]byte(id))
	return l != nil && l.hasAny(func(p Payload) bool {
		_, found := slices.BinarySearch(of, p.Ref.Position())
		return found
	})
}

// FirstWaiting returns the payload of an id that is to run next, of those that don't
// run yet, and when; 0: none waits.
func (c *looks) FirstWaiting(id string) (at journal.Position, due int64) {
	l := c.lanes.find([]byte(id))
	if l == nil {
		return 0, 0
	}
	if it := l.item(); it != nil {
		next := 0
		if it.state.Load() == started {
			next = len(it.Payloads)
			if c.cfg.Single {
				next = int(it.passed.Load()) + 1
			}
		}
		if next < len(it.Payloads) {
			return it.Payloads[next].Ref.Position(), it.Due
		}
	}
	switch {
	case l.holds():
		return l.past().held[0].Ref.Position(), l.due
	case l.n() > 0:
		return l.first().Ref.Position(), l.due
	}
	return 0, 0
}
