package lock

import (
	"math"
	"time"
)

// never is the end of a lease that does not expire.
const never = time.Duration(math.MaxInt64)

// clock reads the monotonic clock as a duration since its first use: half the cost of time.Now, and nothing that sets
// the wall clock can move it. It is guarded by the mutex of its owner.
type clock struct{ base time.Time }

func (c *clock) now() time.Duration {
	if c.base.IsZero() {
		c.base = time.Now()
	}
	return time.Since(c.base)
}

// after is now + d, or never when d is zero or the sum does not fit.
func after(now, d time.Duration) time.Duration {
	if d == 0 || d > never-max(now, 0) {
		return never
	}
	return now + d
}

// alarm is the place of an item in an agenda.
type alarm struct {
	at    time.Duration // when it is due; meaningful while index > 0
	index int           // position in the heap + 1; 0 = not in it
}

func (a *alarm) slot() *alarm { return a }

// agenda is a min-heap of alarms with one timer for the earliest of them. It is guarded by the mutex of its owner.
//
// Invariant: the timer is armed exactly when the heap is not empty, and never later than the earliest alarm.
// It may be armed earlier, because an alarm that moves back (a heartbeat) does not touch the timer: it fires once for
// nothing and is set anew, which is cheaper than a reset per heartbeat.
type agenda[E interface{ slot() *alarm }] struct {
	heap  []E
	fire  func()        // what the timer calls; set by the owner before arm
	timer *time.Timer   // nil until something can expire
	armed time.Duration // when the timer fires; meaningful while on
	on    bool
	fired int // how often the timer has fired: wake-ups caused by this agenda
}

// set puts e in, or moves it, so that it is due at the given time; never takes it out.
func (a *agenda[E]) set(e E, at time.Duration) {
	s := e.slot()
	if at == never {
		a.drop(e)
		return
	}
	s.at = at
	if s.index == 0 {
		a.heap = append(a.heap, e)
		s.index = len(a.heap)
	}
	a.down(s.index - 1)
	a.up(s.index - 1)
}

// drop takes e out; it does nothing when e is not in.
func (a *agenda[E]) drop(e E) {
	i := e.slot().index - 1
	if i < 0 {
		return
	}
	last := len(a.heap) - 1
	a.swap(i, last)
	var zero E
	a.heap[last] = zero
	a.heap = a.heap[:last]
	e.slot().index = 0
	if i < last {
		a.down(i)
		a.up(i)
	}
}

// due returns the earliest alarm if its time has come. An alarm at now is due: a lease is held before its end, not at
// it.
func (a *agenda[E]) due(now time.Duration) (e E, ok bool) {
	if len(a.heap) == 0 || a.heap[0].slot().at > now {
		return e, false
	}
	return a.heap[0], true
}

// late reports whether the timer does not stand for the heap any more, so that arm must be called.
func (a *agenda[E]) late() bool {
	if len(a.heap) == 0 {
		return a.on
	}
	return !a.on || a.heap[0].slot().at < a.armed
}

// arm restores the invariant at the end of a change.
func (a *agenda[E]) arm(now time.Duration) {
	if len(a.heap) == 0 {
		a.timer.Stop()
		a.on = false
		return
	}
	a.on, a.armed = true, a.heap[0].slot().at
	if a.timer == nil {
		a.timer = time.AfterFunc(a.armed-now, a.fire)
		return
	}
	a.timer.Reset(a.armed - now)
}

func (a *agenda[E]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if a.heap[parent].slot().at <= a.heap[i].slot().at {
			return
		}
		a.swap(i, parent)
		i = parent
	}
}

func (a *agenda[E]) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(a.heap) {
			return
		}
		if r := child + 1; r < len(a.heap) && a.heap[r].slot().at < a.heap[child].slot().at {
			child = r
		}
		if a.heap[i].slot().at <= a.heap[child].slot().at {
			return
		}
		a.swap(i, child)
		i = child
	}
}

func (a *agenda[E]) swap(i, j int) {
	a.heap[i], a.heap[j] = a.heap[j], a.heap[i]
	a.heap[i].slot().index = i + 1
	a.heap[j].slot().index = j + 1
}
