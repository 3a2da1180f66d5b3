package lock

import (
	"context"
	"slices"
	"time"
)

// Place is a request that stands in the lines of its keys. It is waiting until it
// is granted or canceled.
//
// It stands in all its lines from one instant on, and is granted in the instant in
// which it is first in each of them and all keys are free. So no other overtakes it,
// and the order of arrival is one order. Until then it holds nothing.
type Place struct {
	table *Table
	opt   Options
	since time.Duration
	wake  func() // nil: none is called
	spots []spot // where it stands; nil: it does not wait
	one   [1]spot
	lease Lease // zero: it was not granted, or is canceled
}

// spot is where a place stands in the line of one key.
type spot struct {
	node[*Place]
	entry *entry
}

// Queue asks for all keys together and does not wait. When they are free and have
// no waiters, the place is granted on return and wake is never called. Otherwise
// the place waits in the queues of all its keys, and wake is called exactly once
// when it is granted, unless it is canceled before. The lease's TTL starts at the
// grant.
//
// wake may be nil. It runs on the goroutine that freed the last key, on that of the
// timer, or on that of the first caller that uses the table after the end of a
// lease, with no mutex held: it may use the table, and must not block, since that
// caller waits for it. It may run before Queue has returned.
//
// Errors, with nothing queued: [ErrEmptyKey], [ErrConfig], and [*DeadlockError]
// when waiting would close a cycle of owners.
func (t *Table) Queue(opt Options, wake func(), keys ...string) (*Place, error) {
	keys, err := checked(opt, keys)
	if err != nil {
		return nil, err
	}
	var o op
	p := &Place{table: t, opt: opt, wake: wake}
	t.enter(&o)
	if r := t.try(opt, keys, &o); r != nil {
		p.lease = t.lease(r)
	} else {
		p.since = o.now()
		t.stand(p, keys...)
		if cycle := t.deadlock(p); cycle != nil {
			err = &DeadlockError{Cycle: cycle}
			p.withdrawLocked(&o)
		}
	}
	t.done(&o)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// stand puts a place in line at its keys, and lists it under its owner.
func (g *engine) stand(p *Place, keys ...string) {
	p.spots = p.one[:]
	if len(keys) > 1 {
		p.spots = make([]spot, len(keys))
	}
	for i, key := range keys {
		s := &p.spots[i]
		s.value, s.entry = p, g.entry(key)
		g.idle.remove(&s.entry.idle)
		s.entry.line.push(&s.node)
		if len(keys) > 1 {
			s.entry.wide++
		}
	}
	if p.opt.Owner == "" {
		return
	}
	g.waiting[p.opt.Owner] = append(g.waiting[p.opt.Owner], p)
}

// stepOut takes a place out of all lines, and from the list of its owner. At the keys
// that it leaves others may be next.
func (g *engine) stepOut(p *Place) (left []spot) {
	g.freed++
	for i := range p.spots {
		s := &p.spots[i]
		s.entry.line.remove(&s.node)
		if len(p.spots) > 1 {
			s.entry.wide--
		}
	}
	left, p.spots = p.spots, nil
	if p.opt.Owner == "" {
		return left
	}
	others := slices.DeleteFunc(g.waiting[p.opt.Owner], func(other *Place) bool { return other == p })
	if g.waiting[p.opt.Owner] = others; len(others) == 0 {
		delete(g.waiting, p.opt.Owner)
	}
	return left
}

// callNext grants the first place in the line of a key if all its keys are free for it. An
// entry of which nothing is left goes into the idle list, and the oldest one above maxIdle is
// forgotten; it is never used again for another key: old leases may still point to its record.
func (g *engine) callNext(e *entry, o *op) {
	if first := e.line.first; first != nil && first.value.ready() {
		p := first.value
		left := g.stepOut(p)
		r := &left[0].entry.own
		if len(left) > 1 {
			r = new(record)
			for i := range left {
				r.entries = append(r.entries, left[i].entry)
			}
		}
		p.lease = p.table.lease(g.grant(r, p.opt, o))
		if p.wake != nil {
			o.wakes.add(p.wake)
		}
	}
	if !e.free() || e.changed != nil || e.idle.list != nil {
		return
	}
	if g.idle.push(&e.idle); g.idle.n > maxIdle {
		oldest := g.idle.first.value
		g.idle.remove(&oldest.idle)
		delete(g.entries, oldest.key)
	}
}

// ready reports whether a place is first in each line, and each key is free for it.
func (p *Place) ready() bool {
	for i := range p.spots {
		if s := &p.spots[i]; s.prev != nil || s.entry.lease != nil {
			return false
		}
	}
	return true
}

// Keys are the keys that were asked for, while the place waits, sorted; those of
// the lease after the grant.
func (p *Place) Keys() []string {
	p.table.mu.Lock()
	defer p.table.mu.Unlock()
	if p.lease.record != nil {
		return p.lease.Keys()
	}
	return p.waitsFor()
}

// Ahead returns for whom a place waits, nil if it does not: for each key who has it, and the place that is first in
// the line of the key, if that is not p and waits for other keys, too. The hops have no Owner, which is that of p.
func (p *Place) Ahead() (all []Hop) {
	p.table.mu.Lock()
	defer p.table.mu.Unlock()
	for i := range p.spots {
		e := p.spots[i].entry
		if e.lease != nil {
			all = append(all, Hop{Key: e.key, Holder: e.lease.owner})
		}
		if first := e.line.first.value; first != p && len(first.spots) > 1 {
			all = append(all, Hop{Key: e.key, Holder: first.opt.Owner})
		}
	}
	return all
}

func (p *Place) waitsFor() []string {
	keys := make([]string, len(p.spots))
	for i := range p.spots {
		keys[i] = p.spots[i].entry.key
	}
	return keys
}

// Lease returns the lease and true once the place has been granted, and false while
// it waits or after Cancel. The lease may have ended since.
func (p *Place) Lease() (Lease, bool) {
	p.table.mu.Lock()
	defer p.table.mu.Unlock()
	return p.lease, p.lease.record != nil
}

// Cancel gives the place up: it leaves all queues, and a lease that was granted
// meanwhile goes to the next waiter. Afterwards the place neither waits nor holds.
// It reports whether the place was still waiting; if so wake will not be called,
// and if not, a wake that was on its way may still arrive. Calling it again has no
// effect.
func (p *Place) Cancel() bool { return p.withdraw(true) }

// withdraw cancels the place if it still waits, and reports whether it did; also one that was
// granted, if evenGranted says so.
func (p *Place) withdraw(evenGranted bool) bool {
	var o op
	t := p.table
	t.enter(&o)
	was := p.withdrawLocked(&o)
	if l := p.lease; evenGranted && l.record != nil {
		if p.lease = (Lease{}); l.heldLocked() {
			t.end(l.record, ErrUnlocked, &o)
		}
	}
	t.done(&o)
	return was
}

func (p *Place) withdrawLocked(o *op) bool {
	if p.spots == nil {
		return false
	}
	for _, s := range p.table.stepOut(p) {
		p.table.callNext(s.entry, o)
	}
	return true
}

// Acquire waits until it has all keys, or ctx ends. It takes all or none, in the
// order of arrival (see the package comment), and returns a lease or an error. A
// lease with a TTL may have been shortened by the time the caller needed to wake
// up: it starts at the grant.
//
// When ctx ends while the grant is on its way, the grant wins: to give it back
// would show others a holder for a moment. Errors: those of [Table.Queue]; and when
// ctx ends first, an error that is both ctx.Err() and context.Cause(ctx), or
// [ErrContext]. A ctx that has ended already takes nothing, not even a free key.
func (t *Table) Acquire(ctx context.Context, opt Options, keys ...string) (Lease, error) {
	over, err := done(ctx)
	if err != nil {
		return Lease{}, err
	}
	if end(ctx) != nil {
		return Lease{}, ctxError(ctx, keys)
	}
	if l, err := t.take(opt, keys, false); l.record != nil || err != nil {
		return l, err
	}
	ready := make(chan struct{})
	p, err := t.Queue(opt, func() { close(ready) }, keys...)
	if err != nil {
		return Lease{}, err
	}
	if l, ok := p.Lease(); ok {
		return l, nil
	}
	select {
	case <-ready:
	case <-over:
		if p.withdraw(false) {
			return Lease{}, ctxError(ctx, keys)
		}
	}
	l, _ := p.Lease()
	return l, nil
}

// deadlock returns the cycle that p, which stands in line, has closed, or nil.
//
// A place waits, in each of its lines, for the lease that has the key and for those
// in front of it. A search goes along these arrows from p; it is over when it comes back
// to the owner. Spots in front of places for one key only add nothing to what has the
// key, except when they are the owner's own, so a line is walked only when it has a wide
// place in it, or when the owner waits elsewhere too: 10,000 places on one key cost one
// step each to check, not 10,000.
//
// This search is for programs that use a table by hand: it sees one table. Package
// executor has a search of its own, over all that a job can wait for; its jobs ask a
// table once, for all their keys, so that none of them closes a cycle here.
//
// An expired lease would open a cycle by itself; it is refused all the same, since
// no owner in it could do anything else.
func (g *engine) deadlock(p *Place) []Hop {
	if p.opt.Owner == "" {
		return nil
	}
	s := search{engine: g, target: p.opt.Owner, walk: len(g.waiting[p.opt.Owner]) > 1, seen: map[string]bool{}}
	if !s.waits(p) {
		return nil
	}
	for i := range s.way {
		s.way[i].Holder = s.way[(i+1)%len(s.way)].Owner
	}
	return s.way
}

// search is a depth-first search for a way from an owner back to itself.
type search struct {
	engine *engine
	target string
	walk   bool            // the target waits elsewhere: look for it in every line
	seen   map[string]bool // owners whose places were followed
	way    []Hop           // so far; each Holder is the next Owner
}

// waits searches on from what p waits for; true: it is back at the target.
func (s *search) waits(p *Place) bool {
	for i := range p.spots {
		if s.key(p, p.spots[i].entry, p.spots[i].prev) {
			return true
		}
	}
	return false
}

// key follows what p waits for at e, where it stands behind last.
func (s *search) key(p *Place, e *entry, last *node[*Place]) bool {
	if e.lease != nil && s.hop(p, e, e.lease.owner) {
		return true
	}
	others := e.wide
	if len(p.spots) > 1 {
		others-- // p itself
	}
	if others == 0 && !s.walk {
		return false
	}
	for ; last != nil; last = last.prev {
		if s.hop(p, e, last.value.opt.Owner) {
			return true
		}
	}
	return false
}

// hop follows holder, for whom p waits at e, and what it waits for itself.
func (s *search) hop(p *Place, e *entry, holder string) bool {
	if holder == "" || s.seen[holder] {
		return false
	}
	s.way = append(s.way, Hop{Owner: p.opt.Owner, Key: e.key})
	if holder == s.target {
		return true
	}
	s.seen[holder] = true
	if slices.ContainsFunc(s.engine.waiting[holder], s.waits) {
		return true
	}
	s.way = s.way[:len(s.way)-1]
	return false
}
