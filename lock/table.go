package lock

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Options of one request for keys. The zero value asks for an anonymous lease that
// does not expire.
type Options struct {
	// Owner names who asks, for people and for the detection of deadlocks, which
	// takes an owner for one sequential party. Any length; "" = anonymous: no
	// detection.
	Owner string
	// TTL is how long the lease lasts after the grant or the last Extend. 0 = until
	// unlocked; negative is refused with [ErrConfig]. A TTL too large for the
	// clock (centuries) counts as 0.
	TTL time.Duration

	extends bool // the lease extends itself, as long as the process runs
}

// Table is a set of leases: keys, each held by at most one lease, with a FIFO queue
// of waiters. The zero value is ready to use. All methods may be called by any
// number of goroutines; a Table must not be copied after first use.
type Table struct {
	// Hook calls what was left with [Lease.OnEnd] when its lease ends. It is set before the table is
	// used. Nil: the goroutine that ends the lease calls it.
	Hook func(f func())

	// mu guards everything below, every entry, record and place of the table. It is
	// held for map and list operations only, never while user code runs (wake
	// functions, hooks: they are collected in an op and called after Unlock).
	// Order: Slots.mu before Table.mu; nothing is locked after Table.mu.
	mu    sync.Mutex
	clock clock
	timer timer
	engine
}

// enter locks the table and ends what is overdue, so that no operation sees a lease
// after its end, however late the timer is.
func (t *Table) enter(o *op) {
	t.mu.Lock()
	o.clock = &t.clock
	t.expire(o)
}

// done unlocks the table, and calls those who are to be woken. A caller with another mutex uses leave.
func (t *Table) done(o *op) {
	t.leave(o)
	o.wakes.run()
}

// leave unlocks the table. The caller calls o.wakes.run when it holds no other
// mutex either.
func (t *Table) leave(o *op) {
	if next := t.ends.next(); t.timer.on || next != never { // most tables have no lease that ends
		t.timer.arm(o, next, t)
	}
	t.mu.Unlock()
}

// onTimer is what the timer calls.
func (t *Table) onTimer() {
	var o op
	t.enter(&o)
	t.timer.on = false
	t.timer.fired++
	t.done(&o)
}

// RaiseToken makes every later token larger than above, for a table that follows
// another one (a restart). A token that is already larger stays.
func (t *Table) RaiseToken(above uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.token = max(t.token, above)
}

// TryAcquire takes all keys or none, without waiting. Keys may come in any order
// and repeat. It returns [*LockedError] when one of them is held, even by the same
// owner, or promised to a waiter; [ErrEmptyKey] or [ErrConfig] for bad input.
func (t *Table) TryAcquire(opt Options, keys ...string) (Lease, error) {
	return t.take(opt, keys, true)
}

// take is TryAcquire, which need not say why it gets nothing: that has its price.
func (t *Table) take(opt Options, keys []string, say bool) (l Lease, err error) {
	var o op
	if keys, err = checked(opt, keys); err != nil {
		return Lease{}, err
	}
	t.enter(&o)
	if r := t.try(opt, keys, &o); r != nil {
		l = t.lease(r)
	} else if say {
		err = t.lockedErrorLocked(keys, &o)
	}
	t.done(&o)
	return l, err
}

// lease is the handle of a lease that was just granted.
func (t *Table) lease(r *record) Lease { return Lease{t, r, r.token} }

// Break ends the lease on key, no matter who holds it, as if it had expired, with
// the reason [ErrBroken]: the means of a person to clear a lock that is not going
// to be released. All keys of the lease become free. It returns what was held, or
// [ErrNotLocked].
func (t *Table) Break(key string) (Held, error) {
	var o op
	t.enter(&o)
	defer t.done(&o)
	e := t.entries[key]
	if e == nil || e.lease == nil {
		return Held{}, ErrNotLocked
	}
	held := t.heldLocked(e.lease, &o)
	t.end(e.lease, ErrBroken, &o)
	return held, nil
}

// checked refuses bad input and returns the keys sorted and without repetition; one
// key is returned as it came.
func checked(opt Options, keys []string) ([]string, error) {
	if opt.TTL < 0 {
		return nil, errDuration
	}
	if len(keys) == 0 || slices.Contains(keys, "") {
		return nil, ErrEmptyKey
	}
	if len(keys) == 1 {
		return keys, nil
	}
	keys = slices.Clone(keys)
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// lockedErrorLocked names the first of the keys that is not free.
func (t *Table) lockedErrorLocked(keys []string, o *op) error {
	for _, key := range keys {
		if e := t.entries[key]; e != nil && !e.free() {
			err := &LockedError{Key: key}
			if e.lease != nil {
				err.Holder = t.heldLocked(e.lease, o)
			}
			return err
		}
	}
	panic("lock: bug: keys are free")
}

// Held is a lease as plain data, for people and journals.
type Held struct {
	Keys  []string      // sorted
	Owner string        // "" = anonymous
	Token uint64        // fencing token
	Since time.Time     // wall clock time of the grant
	Until time.Time     // wall clock time of its end as of now; zero = does not expire
	TTL   time.Duration // as given to Acquire or the last Extend; 0 = does not expire
}

// Status is what a person wants to know about one key.
type Status struct {
	Key       string
	Holder    Held          // token 0 = it is free
	HeldFor   time.Duration // how long the holder has had it
	Remaining time.Duration // until the lease ends if it is not extended; 0 = does not expire
	Waiters   []Waiter      // in the order in which they will get it
}

// Waiter is one place in the queue of a key.
type Waiter struct {
	Owner string        // "" = anonymous
	Keys  []string      // all keys that it waits for
	Since time.Time     // wall clock time at which it asked
	For   time.Duration // how long it has waited
}

// Status says who holds key and who waits for it, in one consistent view.
func (t *Table) Status(key string) Status {
	var o op
	t.enter(&o)
	defer t.done(&o)
	if e := t.entries[key]; e != nil {
		return t.statusLocked(e, &o)
	}
	return Status{Key: key}
}

// List returns the Status of every key that is held or waited for, sorted by key,
// in one consistent view. The table stands still while the list is copied: about 1
// ms for 1,000 keys.
func (t *Table) List() []Status {
	var o op
	t.enter(&o)
	var list []Status
	for _, e := range t.entries {
		if !e.free() {
			list = append(list, t.statusLocked(e, &o))
		}
	}
	t.done(&o)
	slices.SortFunc(list, func(a, b Status) int { return cmp.Compare(a.Key, b.Key) })
	return list
}

// Keys returns the keys that are held or waited for, in no order. The table stands
// still while they are collected: about 1 ms for 30,000.
func (t *Table) Keys() []string {
	var o op
	t.enter(&o)
	var keys []string
	for key, e := range t.entries {
		if !e.free() {
			keys = append(keys, key)
		}
	}
	t.done(&o)
	return keys
}

// HeldBy returns the leases that an owner holds now, by token, up to n of them; for an n of 0
// and below none. The table stands still while its keys are gone through: about 1 ms for 30,000.
func (t *Table) HeldBy(owner string, n int) []Held {
	var o op
	t.enter(&o)
	var list []Held
	for _, e := range t.entries {
		if r := e.lease; r != nil && r.owner == owner && r.entries[0] == e { // once for all its keys
			list = append(list, t.heldLocked(r, &o))
		}
	}
	t.done(&o)
	slices.SortFunc(list, func(a, b Held) int { return cmp.Compare(a.Token, b.Token) })
	return list[:min(len(list), max(n, 0))]
}

func (t *Table) statusLocked(e *entry, o *op) Status {
	now, wall := o.now(), time.Now().Round(0)
	s := Status{Key: e.key}
	if r := e.lease; r != nil {
		s.Holder, s.HeldFor = t.heldLocked(r, o), now-r.since
		if r.at != never {
			s.Remaining = r.at - now
		}
	}
	for at := e.line.first; at != nil; at = at.next {
		w := at.value
		s.Waiters = append(s.Waiters, Waiter{w.opt.Owner, w.waitsFor(), wall.Add(w.since - now), now - w.since})
	}
	return s
}

func (t *Table) heldLocked(r *record, o *op) Held {
	now, wall := o.now(), time.Now().Round(0)
	h := Held{Keys: t.lease(r).Keys(), Owner: r.owner, Token: r.token, Since: wall.Add(r.since - now)}
	if r.at != never {
		h.Until, h.TTL = wall.Add(r.at-now), r.ttl
	}
	return h
}

// checkHeld refuses leases of one key that can't be brought back together: with a negative
// TTL, with a token that is zero or repeated, or a key that is held twice.
func checkHeld(held []Held) error {
	tokens, keys := make(map[uint64]bool), make(map[string]bool)
	for _, h := range held {
		if _, err := checked(Options{TTL: h.TTL}, h.Keys); err != nil {
			return fmt.Errorf("lock: restore token %d: %w", h.Token, err)
		}
		if h.Token == 0 || tokens[h.Token] {
			return fmt.Errorf("%w: restore: token %d is zero or repeated", ErrConfig, h.Token)
		}
		key := h.Keys[0]
		if keys[key] {
			return fmt.Errorf("%w: restore: key %q is held twice", ErrConfig, key)
		}
		tokens[h.Token], keys[key] = true, true
	}
	return nil
}

// restoreLocked brings leases back with their tokens, owners and ends, or none of
// them if a key is taken. A lease whose Until has passed is not resurrected: its
// place in the result is the zero Lease. Until is wall clock time, so a lease goes
// on running while no process does; if the wall clock was set back meanwhile, the
// lease still ends at most TTL from now. Later tokens are larger than all restored
// ones. held comes from checkHeld.
func (t *Table) restoreLocked(held []Held, o *op) ([]Lease, error) {
	now, wall := o.now(), time.Now()
	for _, h := range held {
		_, live := left(h.Until, h.TTL, wall)
		if e := t.entries[h.Keys[0]]; live && e != nil && !e.free() {
			return nil, t.lockedErrorLocked(h.Keys, o)
		}
	}
	leases := make([]Lease, len(held))
	for i, h := range held {
		t.token = max(t.token, h.Token)
		if left, live := left(h.Until, h.TTL, wall); live {
			r := t.record(h.Keys) // which are free
			r.token, r.owner, r.ttl, r.extends, r.since, r.end = h.Token, h.Owner, h.TTL, false, now-wall.Sub(h.Since), nil
			t.ends.set(r, after(now, left))
			t.hold(r)
			leases[i] = t.lease(r)
		}
	}
	return leases, nil
}

// left is how long something that was to end at until may still last, 0 = for ever;
// not live = it has ended. Never more than ttl, so that a wall clock that was set
// back does not lengthen it.
func left(until time.Time, ttl time.Duration, wall time.Time) (left time.Duration, live bool) {
	if until.IsZero() {
		return 0, true
	}
	left = until.Sub(wall)
	if ttl > 0 {
		left = min(left, ttl)
	}
	return max(left, 0), left > 0
}
