package lock

import (
	"fmt"
	"time"
)

// checkHeld refuses leases that can't be brought back together: without a key, with
// a negative TTL, with a token that is zero or repeated, or a key that is held
// twice.
func checkHeld(held []Held) error {
	tokens, keys := make(map[uint64]bool), make(map[string]bool)
	for _, h := range held {
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
		for _, key := range h.Keys {
			if e := t.entries[key]; live && e != nil && !e.free() {
				return nil, t.lockedErrorLocked([]string{key}, o)
			}
		}
	}
	leases := make([]Lease, len(held))
	for i, h := range held {
		t.token = max(t.token, h.Token)
		if left, live := left(h.Until, h.TTL, wall); live {
			leases[i] = t.restoreOneLocked(h, now, now-wall.Sub(h.Since), left)
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

// restoreOneLocked makes h a held lease again. Its keys are free.
func (t *Table) restoreOneLocked(h Held, now, since, left time.Duration) Lease {
	r := t.record(sorted(h.Keys))
	r.token, r.owner, r.ttl, r.since, r.end = h.Token, h.Owner, h.TTL, since, holding
	t.ends.set(r, after(now, left))
	t.hold(r)
	return t.lease(r)
}
