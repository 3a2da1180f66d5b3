package cron

import "time"

// SetClock has c read another clock. Before Start.
func (c *Cron) SetClock(now func() time.Time) { c.now = now }

// LookEvery has c look less often. Before Start.
func (c *Cron) LookEvery(d time.Duration) { c.look = d }

// LookNow has c look at the clock.
func (c *Cron) LookNow() { c.poke() }

// Newest is what catching up asks.
func (t Timetable) Newest(after, until time.Time, n int) []time.Time {
	return t.newest(after, until, n)
}
