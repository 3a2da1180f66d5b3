package lock

import (
	"container/heap"
	"math"
	"slices"
	"time"
)

// maxIdle bounds how many unused keys a table remembers, so that a key in regular
// use costs neither an allocation nor a map insert and delete each time (measured:
// 60 of 170 ns).
const maxIdle = 256

// engine is what the package comment draws: keys, what is locked, and who waits. It
// is plain data, and pure: it reads no clock but that of the op that it is given,
// starts nothing, and calls no user code.
type engine struct {
	token   uint64              // of the newest lease
	entries map[string]*entry   // every key that is locked, waited for or watched, and up to maxIdle others
	idle    list[*entry]        // the others, least recently used first
	ends    agenda              // of leases
	waiting map[string][]*Place // by owner; anonymous ones are not in it
	freed   uint64              // grows whenever a key may have become free
}

// entry is one key.
type entry struct {
	key     string
	lease   *record       // of the lease that has it; nil: none
	line    list[*Place]  // first come, first served
	wide    int           // spots in it of places that stand in other lines, too (see deadlock.go)
	changed chan struct{} // closed at the next change of lease; nil = not watched
	own     record        // the record of every lease on this key alone
	one     [1]*entry     // backing array of own.entries
	idle    node[*entry]
}

// free reports whether a new lease may take the key.
func (e *entry) free() bool { return e.lease == nil && e.line.n == 0 }

func (e *entry) setLease(r *record) {
	e.lease = r
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}

// expire ends what is overdue, and extends what extends itself.
func (g *engine) expire(o *op) {
	for len(g.ends) > 0 && g.ends[0].rings <= o.now() {
		if r := g.ends[0]; r.at <= o.now() { // a lease is held before its end, not at it
			g.end(r, ErrExpired, o)
		} else {
			g.extend(r, r.ttl, o)
		}
	}
}

// entry returns the entry of a key. A new one must be given something before callNext sees it.
func (g *engine) entry(key string) *entry {
	if e := g.entries[key]; e != nil {
		return e
	}
	e := &entry{key: key}
	e.one[0] = e
	e.own.entries = e.one[:]
	e.idle.value = e
	if g.entries == nil {
		g.entries, g.waiting = make(map[string]*entry), make(map[string][]*Place)
	}
	g.entries[key] = e
	return e
}

// record returns the record for a lease on keys.
func (g *engine) record(keys []string) *record {
	if len(keys) == 1 {
		return &g.entry(keys[0]).own
	}
	entries := make([]*entry, len(keys))
	for i, key := range keys {
		entries[i] = g.entry(key)
	}
	return &record{entries: entries}
}

// try grants a lease on the keys if all are free. keys come from checked.
func (g *engine) try(opt Options, keys []string, o *op) *record {
	if len(keys) == 1 {
		e := g.entry(keys[0])
		if !e.free() {
			return nil
		}
		return g.grant(&e.own, opt, o)
	}
	for _, key := range keys {
		if e := g.entries[key]; e != nil && !e.free() {
			return nil
		}
	}
	return g.grant(g.record(keys), opt, o)
}

// grant makes r the lease of its entries, which are free, and starts it.
func (g *engine) grant(r *record, opt Options, o *op) *record {
	g.token++
	now := o.now()
	r.token, r.owner, r.ttl, r.extends, r.since, r.at, r.end = g.token, opt.Owner, opt.TTL, opt.extends, now, never, nil
	if opt.TTL > 0 {
		g.ends.set(r, after(now, opt.TTL))
	}
	g.hold(r)
	return r
}

func (g *engine) hold(r *record) {
	for _, e := range r.entries {
		g.idle.remove(&e.idle)
		e.setLease(r)
	}
}

// end ends the lease of r and offers its keys to those who are next.
func (g *engine) end(r *record, reason error, o *op) {
	r.end = reason
	g.freed++
	g.ends.drop(r)
	if r.lost != nil {
		close(r.lost)
	}
	if len(r.hooks) > 0 {
		lost := r.lostError(r.token)
		for _, h := range r.hooks {
			o.wakes.add(func() { h.f(lost) })
		}
	}
	r.lost, r.hooks = nil, nil
	for _, e := range r.entries {
		e.setLease(nil)
		g.callNext(e, o)
	}
}

func (g *engine) extend(r *record, ttl time.Duration, o *op) {
	r.ttl = ttl
	g.ends.set(r, after(o.now(), ttl))
}

// list is a doubly linked list of nodes that are part of what is linked, so that to
// stand in one costs no allocation. The zero value is empty.
type list[T any] struct {
	first, last *node[T]
	n           int
}

// node is a place in a list.
type node[T any] struct {
	value      T
	list       *list[T] // nil: in none
	next, prev *node[T]
}

// push puts a node that is in no list at the end.
func (l *list[T]) push(at *node[T]) {
	at.list, at.prev = l, l.last
	if l.last != nil {
		l.last.next = at
	} else {
		l.first = at
	}
	l.last = at
	l.n++
}

// remove takes a node out, wherever it stands; it does nothing when the node is not
// in l.
func (l *list[T]) remove(at *node[T]) {
	if at.list != l {
		return
	}
	if at.prev != nil {
		at.prev.next = at.next
	} else {
		l.first = at.next
	}
	if at.next != nil {
		at.next.prev = at.prev
	} else {
		l.last = at.prev
	}
	at.list, at.next, at.prev = nil, nil, nil
	l.n--
}

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

// agenda is a heap of the leases that end or extend themselves, by when it rings for them.
type agenda []*record

// set gives a lease its end, sooner or later than it had; never: it has none.
func (a *agenda) set(r *record, at time.Duration) {
	if r.at, r.rings = at, at; r.extends { // a third of the lease from now
		r.rings = at - r.ttl/3*2
	}
	switch {
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

// next is when it rings first, never when there is nothing in it.
func (a agenda) next() time.Duration {
	if len(a) == 0 {
		return never
	}
	return a[0].rings
}

// Len, Less, Swap, Push and Pop are for package heap.
func (a *agenda) Len() int           { return len(*a) }
func (a *agenda) Less(i, j int) bool { return (*a)[i].rings < (*a)[j].rings }

func (a *agenda) Swap(i, j int) {
	h := *a
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

func (a *agenda) Push(r any) {
	*a = append(*a, r.(*record))
	r.(*record).index = len(*a)
}

func (a *agenda) Pop() any {
	last := len(*a) - 1
	r := (*a)[last]
	(*a)[last] = nil
	*a, r.index = (*a)[:last], 0
	return r
}

// timer calls a function when a lease ends, or is to be extended, first.
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
