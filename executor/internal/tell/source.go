package tell

import (
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// maxText is how much an event has of an error.
const maxText = 512

// bounded is what an event keeps of a text.
func bounded(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.Clone(strings.ToValidUTF8(s[:maxText], ""))
}

// Tell puts an event into the feed, if a reader wants it. Time is now unless it is set.
func (s *Source) Tell(e events.Event) {
	told := s.slot(e)
	if !s.wants(1 << told.kind) {
		return
	}
	if told.Time.IsZero() {
		told.Time = time.Now()
	}
	told.Error = bounded(e.Error)
	s.feed.put(s, told)
}

// Paused tells that what the event names is paused, or goes on: an id, a prefix, or
// without either the queue.
func (s *Source) Paused(on bool, e events.Event) {
	if e.Kind = events.Resumed; on {
		e.Kind = events.Paused
	}
	s.Tell(e)
}

// Accepted tells readers what was committed. The committer calls it before the shard gets that.
func (s *Source) Accepted(d *journal.Delivery) {
	if !s.wants(arrivals) {
		return
	}
	now := time.Now()
	told := make([]slot, 0, d.Len())
	for i := range d.Len() {
		var e journal.Entry
		ref, err := d.Read(i, &e)
		if err != nil {
			break // the shard finds out
		}
		kind := events.Accepted
		if e.Restored {
			kind = events.Requeued
		}
		if w := s.feed.witness; w != nil {
			w.Accepted(s.name, &e)
		}
		told = append(told, s.slot(events.Event{Kind: kind, ID: string(e.ID), Time: now, Position: uint64(ref.Position()), Payloads: 1}))
	}
	s.feed.put(s, told...)
}

// Decided is what a shard has decided by itself: what was merged, what a person has
// deleted, and what becomes a dead letter. It reads the ids before the change is written
// down, after which they can't be read, and returns what tells them, for after that.
func (s *Source) Decided(c *shard.Change) (tell func()) {
	if len(c.Merged)+len(c.Deleted)+len(c.Buried) == 0 {
		return func() {}
	}
	var told []slot
	now := time.Now()
	merged, deleted := c.Merged, c.Deleted // both are among those that ended, in the same order
	for _, ref := range c.Ended {
		e := events.Event{Kind: events.Deleted, Time: now, Position: uint64(ref.Position()), Payloads: 1}
		switch {
		case len(merged) > 0 && merged[0].Position == ref.Position():
			e.Kind, e.Into, merged = events.Merged, uint64(merged[0].Into), merged[1:]
		case len(deleted) > 0 && deleted[0] == ref.Position():
			deleted = deleted[1:]
		default:
			continue
		}
		e.ID = idOf(ref)
		told = append(told, s.slot(e))
	}
	for _, b := range c.Buried {
		told = append(told, s.slot(events.Event{Kind: events.Buried, ID: idOf(b.Ref), Time: now, Position: uint64(b.Ref.Position()),
			Attempt: b.Retry + admin.FirstAttempt, Error: bounded(b.Reason), Payloads: 1}))
	}
	return func() { s.feed.put(s, told...) }
}

// idOf returns the id of a payload, none if the journal can't say, which it fails
// with.
func idOf(ref journal.Ref) string {
	id, err := ref.ID()
	if err != nil {
		return ""
	}
	return string(id)
}
