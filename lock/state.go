package lock

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// State is a table as plain data: what a journal writes down and brings back. Waiters are not part of it; they ask
// again. It has exported fields only and survives encoding/json and encoding/gob.
type State struct {
	Token uint64 // the last token given
	Held  []Held // by token
}

// Snapshot returns the held leases, in one consistent view.
func (t *Table) Snapshot() State {
	var o op
	t.enter(&o)
	state := State{Token: t.token}
	holders := make(map[*record]bool)
	for _, e := range t.entries {
		if e.lease != nil {
			holders[e.lease] = true
		}
	}
	for r := range maps.Keys(holders) {
		state.Held = append(state.Held, t.heldLocked(r, &o))
	}
	t.leave(&o)
	o.wakes.run()
	slices.SortFunc(state.Held, func(a, b Held) int { return cmp.Compare(a.Token, b.Token) })
	return state
}

// Restore brings leases back with their tokens, owners and ends, and returns them in the order of state.Held. A lease
// whose Until has passed is not resurrected: its place in the result is the zero Lease. Until is wall clock time, so
// a lease goes on running while no process does; if the wall clock was set back meanwhile, the lease still ends at
// most TTL from now. Later tokens are larger than state.Token and all restored ones.
//
// Restore refuses a state it cannot take as a whole, and changes nothing then: [ErrEmptyKey], [ErrDuration], a zero
// or repeated token ([ErrConfig]), or a key that is held or waited for ([*LockedError]).
func (t *Table) Restore(state State) ([]Lease, error) {
	if err := state.check(); err != nil {
		return nil, err
	}
	var o op
	t.enter(&o)
	leases, err := t.restoreLocked(state, &o)
	t.leave(&o)
	o.wakes.run()
	return leases, err
}

func (s State) check() error {
	tokens, keys := make(map[uint64]bool), make(map[string]bool)
	for _, h := range s.Held {
		if _, err := checked(Options{TTL: h.TTL}, h.Keys); err != nil {
			return fmt.Errorf("lock: restore token %d: %w", h.Token, err)
		}
		if h.Token == 0 || tokens[h.Token] {
			return fmt.Errorf("%w: restore: token %d is zero or repeated", ErrConfig, h.Token)
		}
		tokens[h.Token] = true
		for _, key := range h.Keys {
			if keys[key] {
				return fmt.Errorf("%w: restore: key %q is held twice", ErrConfig, key)
			}
			keys[key] = true
		}
	}
	return nil
}

func (t *Table) restoreLocked(state State, o *op) ([]Lease, error) {
	now, wall := o.now(), time.Now()
	for _, h := range state.Held {
		_, live := left(h.Until, h.TTL, wall)
		for _, key := range h.Keys {
			if e := t.entries[key]; live && e != nil && !e.free() {
				return nil, t.lockedErrorLocked([]string{key}, o)
			}
		}
	}
	leases := make([]Lease, len(state.Held))
	for i, h := range state.Held {
		t.token = max(t.token, h.Token)
		if left, live := left(h.Until, h.TTL, wall); live {
			leases[i] = t.restoreOneLocked(h, now, now-wall.Sub(h.Since), left)
		}
	}
	t.token = max(t.token, state.Token)
	return leases, nil
}

// left is how long something that was to end at until may still last, 0 = for ever; not live = it has ended. Never
// more than ttl, so that a wall clock that was set back does not lengthen it.
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

// restoreOneLocked makes h a held lease again. Its keys are free.
func (t *Table) restoreOneLocked(h Held, now, since, left time.Duration) Lease {
	r := t.record(sorted(h.Keys))
	r.token, r.owner, r.ttl, r.since, r.end = h.Token, Owner{ID: h.Owner}, h.TTL, since, holding
	t.ends.set(&r.alarm, after(now, left))
	t.hold(r)
	return t.lease(r)
}
