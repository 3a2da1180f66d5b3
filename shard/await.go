package shard

import (
	"slices"

	"github.com/strandjobs/strand/journal"
)

// HasPayload reports whether the payload at a position waits for its id or runs.
func (c *Core) HasPayload(id string, at journal.Position) bool {
	l := c.lanes.find([]byte(id))
	if l == nil {
		return false
	}
	if it := l.item(); it != nil && slices.ContainsFunc(it.Payloads[it.settled:], func(p Payload) bool { return p.Ref.Position() == at }) {
		return true
	}
	return l.hasPayload(at)
}
