package shard

import (
	"math/bits"

	"github.com/strandjobs/strand/journal"
)

// State says what a job waits for, if it does. Each job is in one of these at any
// moment, the first that is true from the bottom of the list up: one that is halted
// and runs is running.
type State uint8

const (
	// StateReady: it is due, and waits for a worker.
	StateReady State = iota
	// StateScheduled: it is due later, and its last run did not fail.
	StateScheduled
	// StateRetrying: it is due later, because its last run failed.
	StateRetrying
	// StateParked: it waits for something else than its time: a lock, a slot.
	StateParked
	// StateHalted: it waits for RunNow.
	StateHalted
	// StateRunning: it is handed to a worker.
	StateRunning
)

// Cursor is a place in a walk over the jobs of a shard: that of the job last seen.
// The walk begins at zero.
//
// It is the number of a lane, which a lane keeps for its life, whatever else comes
// and goes and however the table of ids grows or shrinks. So a walk sees each job
// that is there all the time exactly once; one that comes or goes meanwhile, once
// or not at all, and an id that goes and comes back may be seen twice. Numbers are
// those of one process: a restart gives others.
type Cursor uint32

// View is a job as a walk shows it. It takes no look at the journal.
type View struct {
	Cursor Cursor
	State  State

	ID        string      // "": it is that of First, see Identify
	First     journal.Ref // the payload that runs, or comes next; zero: none that is known
	Due       int64       // Unix ns; of one that runs, that of what waits behind
	Retry     int         // −1 new, 0 failed once, …
	LastError string
	Payloads  int // that wait, or are in hand
}

// Scan calls f for the jobs behind a place, and returns the place that it came to,
// from where the next call goes on, and whether there may be more. It looks at n
// places at most, free ones among them; 63 free ones that stand together count as
// one. A thousand take some 20 µs. f gets a View that is valid during the call, and
// may use the core and change its jobs.
func (c *looks) Scan(after Cursor, n int, now int64, f func(*View)) (last Cursor, more bool) {
	var v View
	for last = after; n > 0 && !c.broken(); n-- {
		at := last + 1
		if int(at>>slabBits) >= len(c.lanes.slabs) {
			return last, false
		}
		used := c.lanes.slabs[at>>slabBits].used() &^ (1<<(at&slabLanes) - 1)
		if used == 0 {
			last = at | slabLanes
			continue
		}
		last = at&^slabLanes | Cursor(bits.TrailingZeros64(used))
		c.show(last, now, &v)
		f(&v)
	}
	return last, !c.broken()
}

// ScanBack is Scan the other way: it calls f for the jobs before a place, the last one
// first, or for all of them if that is zero. f must not change the jobs of the core.
func (c *looks) ScanBack(before Cursor, n int, now int64, f func(*View)) (last Cursor, more bool) {
	var v View
	end := Cursor(len(c.lanes.slabs)) << slabBits // those behind it have gone meanwhile
	if last = before; last == 0 || last > end {
		last = end
	}
	for ; n > 0 && last != 0 && !c.broken(); n-- {
		at := last - 1
		used := c.lanes.slabs[at>>slabBits].used() & (1<<(at&slabLanes+1) - 1)
		if last = at &^ slabLanes; used == 0 {
			continue
		}
		last |= Cursor(bits.Len64(used) - 1)
		c.show(last, now, &v)
		f(&v)
	}
	return last, last != 0 && !c.broken()
}

// Look shows the job at a place, as Scan does. It reports false when there is none.
func (c *looks) Look(at Cursor, now int64, v *View) bool {
	if c.broken() || int(at>>slabBits) >= len(c.lanes.slabs) || c.lanes.slabs[at>>slabBits].used()>>(at&slabLanes)&1 == 0 {
		return false
	}
	c.show(at, now, v)
	return true
}

// Identify sets the ID of a View in the visit in which it was shown. It may read the
// disk; see Ref.Peek for what a caller can do behind the visit.
func (c *looks) Identify(v *View) {
	if v.ID == "" {
		v.ID = string(c.lanes.at(number(v.Cursor)).id(&c.lanes.entries))
	}
}

func (c *looks) show(at Cursor, now int64, v *View) {
	l := c.lanes.at(number(at))
	if l.rest == nil { // as most are, of which there may be millions
		*v = View{Cursor: at, State: l.waits(now, -1), First: l.one.Ref, Due: l.due, Retry: -1}
		if !l.one.Ref.IsZero() {
			v.Payloads = 1
		}
		return
	}
	*v = View{
		Cursor: at, State: l.waits(now, l.retry()), ID: l.rest.id, First: l.upNext().Ref, Due: l.due, Retry: l.retry(),
		Payloads: l.n() + len(l.held()),
	}
	v.LastError, _ = l.failures()
	if it := l.item(); it != nil { // of its fields only what the worker never writes
		hand := it.Payloads[it.settled:]
		v.State, v.ID, v.First = StateRunning, it.ID, hand[0].Ref
		v.Payloads += len(hand)
	}
}

// waits is the state of a lane that is not handed out.
func (l *lane) waits(now int64, retry int) State {
	switch {
	case l.halted:
		return StateHalted
	case l.standing == absent:
		return StateParked
	case l.due <= now:
		return StateReady
	case retry >= 0:
		return StateRetrying
	}
	return StateScheduled
}
