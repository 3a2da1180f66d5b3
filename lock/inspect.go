package lock

import (
	"cmp"
	"slices"
	"time"
)

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

// HeldBy returns the leases that an owner holds now, by token, up to n of them. The
// table stands still while its keys are gone through: about 1 ms for 30,000.
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
	return list[:min(len(list), n)]
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
		s.Waiters = append(s.Waiters, Waiter{w.owner, w.waitsFor(), wall.Add(w.since - now), now - w.since})
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
