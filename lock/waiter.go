package lock

import (
	"slices"
	"time"
)

// waiter is one who wants keys that others have. It holds nothing.
//
// One who asked for a lease stands in the lines of all its keys from one instant
// on, and is granted in the instant in which it is first in each of them and all
// are free. So no other overtakes it, and the order of arrival is one order.
//
// A job stands in the line of one key that blocks it; when that lets it pass it
// moves on to the next one that blocks it. So a key that stays locked for weeks,
// because its job fails, keeps no job from another key, and to unlock one looks at
// no more jobs than it calls:
//
//	            blocked                 nothing blocks it          its worker comes to it
//	(no waiter) ─────────► in line ──────────────────────► called ───────────────────────► (no waiter): it runs
//	                         ▲  ▲                             │
//	                         │  └──── blocked once more ──────┤
//	                         └─────── blocked ── aside ◄──────┘ waits for a lease or a slot
//
// Called, it is on its way to a worker, and its keys are kept for it: no other
// locks what it must find unlocked, or passes by what it is to lock, if that one
// stands in line for the key or comes to it now. What is locked without waiting, by
// an enqueue or by hand, is not kept from it: then it is blocked once more. Its own
// keys it locks when it enters, in the instant in which nothing blocks it. To wait
// for one that was called closes no cycle: it enters or goes back into line,
// whatever the others do.
//
// Its number stays the same in all of this: who came first stands first. What
// becomes of a job that does not wait any more, Leave forgets.
//
// Invariant: the first in the line of a key is blocked there, or, for a lease, at
// another of its keys.
type waiter struct {
	owner  Owner
	job    *Request // nil: it wants a lease
	place  *Place   // nil: it is a job
	number uint64
	since  time.Duration
	wake   func() // nil: none is called
	spots  []spot // where it stands: those of a lease, or that of a job
	one    [1]spot
	called bool    // Invariant: then it stands in no line
	next   *waiter // of the same owner
}

// spot is where a waiter stands in the line of one key.
type spot struct {
	node[*waiter]
	entry *entry
}

// stand puts a waiter in line at some keys, behind those who came before it.
func (g *engine) stand(w *waiter, keys ...string) {
	w.spots = w.one[:]
	if len(keys) > 1 {
		w.spots = make([]spot, len(keys))
	}
	for i, key := range keys {
		s := &w.spots[i]
		s.value, s.entry = w, g.entry(key)
		g.use(s.entry)
		behind := s.entry.line.last
		for behind != nil && behind.value.number > w.number {
			behind = behind.prev
		}
		s.entry.line.insert(&s.node, behind)
		if len(keys) > 1 {
			s.entry.wide++
		}
	}
}

// standing reports whether w stands in line.
func (w *waiter) standing() bool { return len(w.spots) > 0 }

// leaveLines takes a waiter out of all lines. At those that it leaves others may be
// next.
func (w *waiter) leaveLines() (left []spot) {
	for i := range w.spots {
		s := &w.spots[i]
		s.entry.line.remove(&s.node)
		if len(w.spots) > 1 {
			s.entry.wide--
		}
	}
	left, w.spots = w.spots, nil
	return left
}

// callNext calls those who may pass, of those that stand first at a key: a lease is
// granted, a job is called. In the end the key is forgotten if nothing is left of
// it.
func (g *engine) callNext(e *entry, o *op) {
	for w := g.next(e); w != nil && g.advance(w, e, o); w = g.next(e) {
	}
	g.retire(e)
}

// next returns who of the line of a key may be the next to pass it, as far as what
// is locked goes: the first one, or the job that has locked it itself.
func (g *engine) next(e *entry) *waiter {
	if e.line.n == 0 {
		return nil
	}
	if e.open() {
		return e.line.first.value
	}
	if len(e.by) == 1 && e.lease == nil {
		for by := range e.by {
			if w := g.job(by); w != nil && w.standing() && w.spots[0].entry == e {
				return w
			}
		}
	}
	return nil
}

// advance has a waiter that may pass e go on, to another key or to its end; false:
// it stays.
func (g *engine) advance(w *waiter, e *entry, o *op) bool {
	if w.job == nil {
		ready := w.ready()
		if ready {
			g.fulfil(w, o)
		}
		return ready
	}
	if e.isKept(w.job.locks(e.key), w.number) {
		return false
	}
	w.leaveLines()
	if elsewhere := g.blocking(w.job, w.number, nil); elsewhere != "" {
		g.stand(w, elsewhere)
		return true
	}
	w.called = true
	g.keep(w.job, 1)
	o.wakes.add(w.wake)
	return true
}

// ready reports whether one who asked for a lease is first in each line, and each
// key is free for it.
func (w *waiter) ready() bool {
	for i := range w.spots {
		s := &w.spots[i]
		if s.prev != nil || !s.entry.open() || s.entry.toLock+s.entry.toPass > 0 {
			return false
		}
	}
	return true
}

// fulfil grants a lease whose keys are all ready for it.
func (g *engine) fulfil(w *waiter, o *op) {
	var r *record
	if len(w.spots) == 1 {
		r = &w.spots[0].entry.own
	} else {
		entries := make([]*entry, len(w.spots))
		for i := range w.spots {
			entries[i] = w.spots[i].entry
		}
		r = newRecord(entries)
	}
	w.leaveLines()
	g.forget(w)
	w.place.grant(g.grant(r, w.owner.ID, w.place.ttl, o))
	if w.wake != nil {
		o.wakes.add(w.wake)
	}
}

// comes gives a waiter its number, and lists it under its owner.
func (g *engine) comes(w *waiter, o *op) {
	g.arrived++
	w.number, w.since = g.arrived, o.now()
	if w.owner == (Owner{}) {
		return
	}
	if g.waiting == nil {
		g.waiting = make(map[Owner]*waiter)
	}
	w.next = g.waiting[w.owner]
	g.waiting[w.owner] = w
}

// forget takes a waiter from the list of its owner.
func (g *engine) forget(w *waiter) {
	if w.owner == (Owner{}) {
		return
	}
	switch before := g.waiting[w.owner]; {
	case before != w:
		for before.next != w {
			before = before.next
		}
		before.next = w.next
	case w.next == nil:
		delete(g.waiting, w.owner)
	default:
		g.waiting[w.owner] = w.next
	}
}

// job returns the waiter that stands for a job, nil if there is none.
func (g *engine) job(by Owner) *waiter {
	w := g.waiting[by]
	for w != nil && w.job == nil {
		w = w.next
	}
	return w
}

// blocking returns the first key that blocks a request, "" when it may pass. The
// one that asks came as number says, and is not counted among those that were
// called: kept is what was kept for it until now.
func (g *engine) blocking(r *Request, number uint64, kept *Request) string {
	for _, key := range r.BlockedBy {
		e := g.entries[key]
		if e != nil && (e.blocks(r.Owner) || (!kept.covers(r, key) && e.isKept(r.locks(key), number))) {
			return key
		}
	}
	return ""
}

// keep counts a job in or out of those for whom keys are kept.
func (g *engine) keep(r *Request, n int) {
	for _, s := range r.Lock {
		g.kept(s.Key).toLock += n
	}
	for _, key := range r.BlockedBy {
		g.kept(key).toPass += n
	}
}

func (g *engine) kept(key string) *entry {
	e := g.entry(key)
	g.use(e)
	return e
}

// stepOut takes a job out of its line, or its call back, and returns the keys at
// which others may be next.
func (g *engine) stepOut(w *waiter) (left []string) {
	if w.called {
		w.called = false
		g.keep(w.job, -1)
		left = slices.Clone(w.job.BlockedBy)
		for _, s := range w.job.Lock {
			left = append(left, s.Key)
		}
		return left
	}
	for _, s := range w.leaveLines() {
		left = append(left, s.entry.key)
	}
	return left
}

// callNextAt is callNext for keys that may be forgotten by now.
func (g *engine) callNextAt(keys []string, o *op) {
	for _, key := range keys {
		if e := g.entries[key]; e != nil {
			g.callNext(e, o)
		}
	}
}
