package tell

import (
	"time"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/feed"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Source tells what happens in a queue. The zero Source is never watched.
type Source struct {
	feed.Source
	feed *Feed
	core *shard.Config
}

// Tell puts an event into the feed, if a reader wants it. Time is now unless it is set.
func (s *Source) Tell(e events.Event) {
	number := numbers[e.Kind]
	if !s.Wants(feed.Of(number)) {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Error = bounded(e.Error)
	s.feed.ring.Put(&s.Source, feed.Event[events.Event]{Kind: number, Value: e})
}

// Paused tells that what the event names is paused, or goes on: an id, a prefix, or
// without either the queue.
func (s *Source) Paused(on bool, e events.Event) {
	if e.Kind = events.Resumed; on {
		e.Kind = events.Paused
	}
	s.Tell(e)
}

// Accepted is for the committer, before a shard gets what was committed.
func (s *Source) Accepted(d *journal.Delivery) {
	if !s.Wants(arrivals) {
		return
	}
	now := time.Now()
	told := make([]feed.Event[events.Event], 0, d.Len())
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
			w.Accepted(s.Name, &e)
		}
		told = append(told, event(events.Event{Kind: kind, ID: string(e.ID), Time: now, Position: uint64(ref.Position()), Payloads: 1}))
	}
	s.feed.ring.Put(&s.Source, told...)
}

func event(e events.Event) feed.Event[events.Event] {
	return feed.Event[events.Event]{Kind: numbers[e.Kind], Value: e}
}

// Decided is what a shard has decided by itself: what was merged, what a person has
// deleted, and what becomes a dead letter. It reads the ids before the change is written
// down, after which they can't be read, and returns what tells them, for after that.
func (s *Source) Decided(c *shard.Change) (tell func()) {
	if len(c.Merged)+len(c.Deleted)+len(c.Buried) == 0 {
		return func() {}
	}
	var told []feed.Event[events.Event]
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
		told = append(told, event(e))
	}
	for _, b := range c.Buried {
		told = append(told, event(events.Event{Kind: events.Buried, ID: idOf(b.Ref), Time: now, Position: uint64(b.Ref.Position()),
			Attempt: b.Retry + admin.FirstAttempt, Error: bounded(b.Reason), Payloads: 1}))
	}
	return func() { s.feed.ring.Put(&s.Source, told...) }
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
