package lock

import (
	"container/heap"
	"math"
	"slices"
	"time"
)

// never is the end of what does not expire.
const never = time.Duration(math.MaxInt64)

// clock reads the monotonic clock as a duration since its first use: half the cost
// of time.Now, and nothing that sets the wall clock can move it. It is guarded by
// the mutex of its owner.
type clock struct{ base time.Time }

func (c *clock) now() time.Duration {
	if c.base.IsZero() {
		c.base = time.Now()
	}
	return time.Since(c.base)
}

// op is one change of an engine: its time, read from a clock at most once or given,
// and the user code that is to be called after it.
type op struct {
	clock *clock
	time  time.Duration
	timed bool
	wakes wakes
}

func (o *op) now() time.Duration {
	if !o.timed {
		o.time, o.timed = o.clock.now(), true
	}
	return o.time
}

// wakes are functions to be called, in order, when no mutex is held any more.
type wakes struct {
	first func()
	rest  []func()
}

func (w *wakes) add(f func()) {
	if w.first == nil {
		w.first = f
		return
	}
	w.rest = append(w.rest, f)
}

// run calls all of them. It is apart from call so that it can be inlined: 10 of 100
// ns.
func (w *wakes) run() {
	if w.first != nil {
		w.call()
	}
}

// call goes on with the later ones even when an earlier one panics: their owners
// are granted already.
func (w *wakes) call() {
	for _, f := range slices.Backward(w.rest) {
		defer f()
	}
	w.first()
}

// after is now + d, or never when d is zero or the sum does not fit.
func after(now, d time.Duration) time.Duration {
	if d == 0 || d > never-max(now, 0) {
		return never
	}
	return now + d
}

// alarm is the end of a lease, and its place in an agenda.
type alarm struct {
	at    time.Duration // when it is due; meaningful while index > 0
	index int           // position in the heap + 1; 0 = not in it
}

// agenda has leases by their ends: the first one is the next.
type agenda struct{ heap []*record }

// set puts e in, or moves it, so that it is due at the given time; never takes it
// out.
func (a *agenda) set(e *record, at time.Duration) {
	if at == never {
		a.drop(e)
		return
	}
	if e.at = at; e.index == 0 {
		heap.Push(a, e)
	} else {
		heap.Fix(a, e.index-1)
	}
}

// drop takes e out; it does nothing when e is not in.
func (a *agenda) drop(e *record) {
	if e.index > 0 {
		heap.Remove(a, e.index-1)
	}
}

// next is the time of the earliest alarm, never when there is none.
func (a *agenda) next() time.Duration {
	if len(a.heap) == 0 {
		return never
	}
	return a.heap[0].at
}

// Len, Less, Swap, Push and Pop are for package heap.
func (a *agenda) Len() int           { return len(a.heap) }
func (a *agenda) Less(i, j int) bool { return a.heap[i].at < a.heap[j].at }

func (a *agenda) Swap(i, j int) {
	a.heap[i], a.heap[j] = a.heap[j], a.heap[i]
	a.heap[i].index, a.heap[j].index = i+1, j+1
}

func (a *agenda) Push(e any) {
	a.heap = append(a.heap, e.(*record))
	e.(*record).index = len(a.heap)
}

func (a *agenda) Pop() any {
	last := len(a.heap) - 1
	e := a.heap[last]
	a.heap[last] = nil
	a.heap = a.heap[:last]
	e.index = 0
	return e
}

// timer calls a function when the earliest end of a lease has come.
// It is guarded by the mutex of its owner.
//
// Invariant after arm: the timer is set exactly when there is such an end, and
// never later than it. It may be set earlier, because an end that moves back (a
// heartbeat) does not touch the timer: it fires once for nothing and is set anew,
// which is cheaper than a reset per heartbeat.
type timer struct {
	timer *time.Timer   // nil until something can expire
	armed time.Duration // when it fires; meaningful while on
	on    bool
	fired int // how often it has: wake-ups caused by it
}

// arm restores the invariant at the end of a change.
func (t *timer) arm(o *op, next time.Duration, of *Table) {
	switch {
	case t.on && next == never:
		t.timer.Stop()
		t.on = false
		return
	case next == never, t.on && t.armed <= next:
		return
	case t.timer == nil:
		t.timer = time.AfterFunc(next-o.now(), of.onTimer)
	default:
		t.timer.Reset(next - o.now())
	}
	t.on, t.armed = true, next
}
