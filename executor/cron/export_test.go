package cron

import "time"

// SetClock has c read another clock. Before Start.
func (c *Cron) SetClock(now func() time.Time) { c.now = now }

// LookEvery has c look less often. Before Start.
func (c *Cron) LookEvery(d time.Duration) { c.look = d }

// LookNow has c look at the clock.
func (c *Cron) LookNow() { c.poke() }

// Timetable is when a schedule ticks, and Parse reads it.
type Timetable = timetable

var Parse = parse

// Next is the first tick after a moment.
func (t timetable) Next(after time.Time) time.Time { return t.next(after) }

// Newest is what catching up asks.
func (t timetable) Newest(after, until time.Time, n int) []time.Time {
	return t.newest(after, until, n)
}
