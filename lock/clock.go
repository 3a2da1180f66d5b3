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

// agenda is a heap of the leases that end by themselves, by their ends.
type agenda []*record

// set gives a lease its end, sooner or later than it had; never: it has none.
func (a *agenda) set(r *record, at time.Duration) {
	switch r.at = at; {
	case at == never:
		a.drop(r)
	case r.index == 0:
		heap.Push(a, r)
	default:
		heap.Fix(a, r.index-1)
	}
}

// drop takes a lease out; it does nothing when the lease is not in.
func (a *agenda) drop(r *record) {
	if r.index > 0 {
		heap.Remove(a, r.index-1)
	}
}

// next is the earliest end, never when there is none.
func (a agenda) next() time.Duration {
	if len(a) == 0 {
		return never
	}
	return a[0].at
}

// Len, Less, Swap, Push and Pop are for package heap.
func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at < a[j].at }

func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i+1, j+1
}

func (a *agenda) Push(r any) {
	*a = append(*a, r.(*record))
	r.(*record).index = len(*a)
}

func (a *agenda) Pop() any {
	last := len(*a) - 1
	r := (*a)[last]
	clear((*a)[last:])
	*a, r.index = (*a)[:last], 0
	return r
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
