package lock

import (
	"context"
	"time"
)

// Place is a request that stands in the queues of its keys. It is waiting until it is granted or cancelled.
type Place struct {
	table   *Table
	opt     Options
	spots   []spot
	one     [1]spot // backing array of spots for one key
	wake    func()
	missing int // keys that are not ready for it: held, or with somebody else in front
	since   time.Duration
	state   placeState
	lease   Lease // set when granted
}

type placeState uint8

const (
	waiting placeState = iota
	granted
	cancelled
)

// Queue asks for all keys together and does not wait. When they are free and nobody waits for them, the place is granted
// on return and wake is never called. Otherwise the place waits in the queues of all its keys, and wake is called
// exactly once when it is granted, unless it is cancelled before. The lease's TTL starts at the grant.
//
// wake may be nil. It runs on the goroutine that freed the last key, on that of the timer, or on that of whoever is the
// first to use the table after the end of a lease, with no mutex held: it may use the table, and must not block, since
// that caller waits for it. It may run before Queue has returned.
//
// Errors, with nothing queued: [ErrEmptyKey], [ErrDuration], and [*DeadlockError] when waiting would close a circle
// of owners.
func (t *Table) Queue(opt Options, wake func(), keys ...string) (*Place, error) {
	keys, err := checked(opt, keys)
	if err != nil {
		return nil, err
	}
	var o op
	p := &Place{table: t, opt: opt, wake: wake}
	t.enter(&o)
	if lease, ok := t.tryLocked(opt, keys, &o); ok {
		p.lease, p.state = lease, granted
	} else if circle := t.circleLocked(opt.Owner, keys); circle != nil {
		err = &DeadlockError{Circle: circle}
	} else {
		t.queueLocked(p, keys, &o)
	}
	t.leave(&o)
	o.wakes.run()
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (t *Table) queueLocked(p *Place, keys []string, o *op) {
	p.since = t.now(o)
	p.spots = p.one[:]
	if len(keys) > 1 {
		p.spots = make([]spot, len(keys))
	}
	for i, key := range keys {
		s := &p.spots[i]
		s.place, s.entry = p, t.entryLocked(key)
		t.usedLocked(s.entry)
		if !s.join() {
			p.missing++
		}
	}
	t.waitsLocked(p)
}

// fulfilLocked grants a place whose keys are all ready for it.
func (t *Table) fulfilLocked(p *Place, o *op) {
	var r *record
	if len(p.spots) == 1 {
		r = &p.spots[0].entry.own
	} else {
		r = &record{table: t, entries: make([]*entry, len(p.spots))}
		for i := range p.spots {
			r.entries[i] = p.spots[i].entry
		}
	}
	for i := range p.spots {
		p.spots[i].part()
	}
	t.waitsNoMoreLocked(p)
	p.lease, p.state = t.grantLocked(r, p.opt, o), granted
	if p.wake != nil {
		o.wakes.add(p.wake)
	}
}

// Keys are the keys that were asked for, while the place waits, sorted; those of the lease after the grant.
func (p *Place) Keys() []string {
	p.table.mu.Lock()
	defer p.table.mu.Unlock()
	if p.state == granted {
		return p.lease.Keys()
	}
	keys := make([]string, len(p.spots))
	for i := range p.spots {
		keys[i] = p.spots[i].entry.key
	}
	return keys
}

// Lease returns the lease and true once the place has been granted, and false while it waits or after Cancel.
// The lease may have ended since.
func (p *Place) Lease() (Lease, bool) {
	p.table.mu.Lock()
	defer p.table.mu.Unlock()
	return p.lease, p.state == granted
}

// Cancel gives the place up: it leaves all queues, and a lease that was granted meanwhile goes to the next waiter.
// Afterwards the place neither waits nor holds. It reports whether the place was still waiting; if so wake will not
// be called, and if not, a wake that was on its way may still arrive. Calling it again has no effect.
func (p *Place) Cancel() bool {
	var o op
	t := p.table
	t.enter(&o)
	was := p.withdrawLocked(&o)
	if p.state == granted {
		p.state = cancelled
		if p.lease.heldLocked() {
			t.endLocked(p.lease.record, unlocked, &o)
		}
	}
	t.leave(&o)
	o.wakes.run()
	return was
}

// withdraw cancels the place if it still waits, and reports whether it did.
func (p *Place) withdraw() bool {
	var o op
	p.table.enter(&o)
	was := p.withdrawLocked(&o)
	p.table.leave(&o)
	o.wakes.run()
	return was
}

func (p *Place) withdrawLocked(o *op) bool {
	if p.state != waiting {
		return false
	}
	p.state = cancelled
	p.table.waitsNoMoreLocked(p)
	for i := range p.spots {
		s := &p.spots[i]
		if s.part() {
			p.table.offerLocked(s.entry, o)
		}
	}
	return true
}

// Acquire waits until it has all keys, or ctx ends. It takes all or none, in the order of arrival (see the
// package comment), and returns a lease or an error. A lease with a TTL may have been shortened by
// the time the caller needed to wake up: it starts at the grant.
//
// When ctx ends while the grant is on its way, the grant wins: to give it back would show others a holder for a
// moment. Errors: those of [Table.Queue]; and when ctx ends first, an error that is both ctx.Err() and
// context.Cause(ctx), or [ErrContext]. A ctx that has ended already takes nothing, not even a free key.
func (t *Table) Acquire(ctx context.Context, opt Options, keys ...string) (Lease, error) {
	over, err := done(ctx)
	if err != nil {
		return Lease{}, err
	}
	if end(ctx) != nil {
		return Lease{}, ctxError(ctx, keys)
	}
	if l, ok, err := t.take(opt, keys); ok || err != nil {
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
		if p.withdraw() {
			return Lease{}, ctxError(ctx, keys)
		}
	}
	l, _ := p.Lease()
	return l, nil
}

// take is TryAcquire without the price of its error.
func (t *Table) take(opt Options, keys []string) (Lease, bool, error) {
	var o op
	keys, err := checked(opt, keys)
	if err != nil {
		return Lease{}, false, err
	}
	t.enter(&o)
	l, ok := t.tryLocked(opt, keys, &o)
	t.leave(&o)
	o.wakes.run()
	return l, ok, nil
}
