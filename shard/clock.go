package shard

import (
	"time"

	"github.com/strandjobs/strand/journal"
)

const (
	// clockCheck is the longest a timer runs: due times are on the wall clock,
	// which may be set, and timers are not.
	clockCheck = time.Minute

	// clockStep is the smallest step of the wall clock that counts as one.
	clockStep = time.Second

	// clockNote is the smallest step after which what was moved is written down.
	// Below it, a restart makes little of it.
	clockNote = time.Minute
)

// clock reads the wall clock, in Unix nanoseconds, and the monotonic one, which
// can't be set, since some moment.
type clock func() (wall int64, mono time.Duration)

// newClock returns the clock of the system, with another time of day if it is not nil.
func newClock(wall func() time.Time) clock {
	base := time.Now()
	return func() (int64, time.Duration) {
		now := time.Now()
		if wall != nil {
			return wall().UnixNano(), now.Sub(base)
		}
		return now.UnixNano(), now.Sub(base)
	}
}

// now reads the clock, and lets the core know when it was set since the last time.
func (s *Shard) now() int64 {
	wall, mono := s.clock()
	before := s.wall + int64(mono-s.mono)
	if step := time.Duration(wall - before); step.Abs() >= clockStep {
		s.core.stepClock(before, int64(step))
	}
	s.wall, s.mono = wall, mono
	return wall
}

// clockSet is a time that the clock was set, while payloads waited.
type clockSet struct {
	before, step int64
	seen         journal.Position // positions up to this one are from before it
	earlier      *clockSet
}

// since returns the due time of a payload that was accepted at a position, on the clock as
// it is now.
func (s *clockSet) since(due int64, position journal.Position) int64 {
	if s == nil || position > s.seen {
		return due
	}
	if due = s.earlier.since(due, position); due <= s.before {
		due += s.step
	}
	return due
}

// stepClock tells that the wall clock was set by step nanoseconds when it said
// before. What was due stays due, for as long as it has been, and the pause before
// a retry stays as long as it was; a time that a caller asked for stays that time.
func (c *hands) stepClock(before, step int64) {
	if c.counts.Payloads == 0 {
		c.set = nil
	}
	c.set = &clockSet{before, step, c.seen, c.set}
	c.shift += step
	c.prompt += step
	c.shiftRests(step)
	for r := range c.runs {
		r.taken += step
	}
	for l := range c.lanes.all() {
		due := l.due
		if c.debounces() && l.item() == nil && l.retry() < 0 {
			c.bound(l, c.limitOf(l)) // while it follows from the due time
		}
		if due <= before || (l.retry() >= 0 || c.pauses(l, before)) && due < farFuture-max(step, 0) {
			due += step
			if p := l.past(); p != nil && p.bounded && p.limit < farFuture-max(step, 0) {
				p.limit += step
			}
		}
		noted := time.Duration(step).Abs() >= clockNote
		switch it := l.item(); {
		case it != nil:
			l.due = due // of what waits behind it
			if noted {
				c.writeStateOut(l, it)
				l.unpinned = true
			}
		case due != l.due:
			c.enqueue(l, due)
			if noted {
				c.writeState(l)
			}
		}
	}
}
