package lock

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Reservation is one value of a [Slots], reserved until Commit, or until its lease ends:
// Unlock gives the value back unused, and the last value does not move. All methods may be
// called by any number of goroutines.
type Reservation[T any] struct {
	Lease
	slots *Slots[T]
	step  step[T] // its position is guarded by Slots.mu
}

// Value is the reserved value.
func (r *Reservation[T]) Value() T { return r.step.value }

// Position is the distance of the value from the start, in steps of Next; 1 for the
// first, 0 after [Slots.Reset].
func (r *Reservation[T]) Position() uint64 {
	r.slots.mu.Lock()
	defer r.slots.mu.Unlock()
	return r.step.position
}

// Commit says that the value was used: the reservation ends, and the value is
// remembered as the last one unless a later value has been committed already. It
// returns [ErrLockLost], and remembers nothing, when the reservation has ended:
// another holder may have the value then.
func (r *Reservation[T]) Commit() error {
	s := r.slots
	var o op
	defer o.wakes.run()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := r.Lease.change(&o, func() { s.cfg.Table.end(r.Lease.record, ErrUnlocked, &o) }); err != nil {
		return err
	}
	if r.step.position > s.last.position {
		s.last = r.step
	}
	return nil
}

// SlotsState is a [Slots] as plain data: what a journal writes down and brings
// back.
type SlotsState[T any] struct {
	Known    bool   // Last is a value: the start or a committed one
	Last     T      // the last committed value
	Position uint64 // its position
	Open     []SlotHeld[T]
}

// SlotHeld is one open reservation as plain data.
type SlotHeld[T any] struct {
	Value    T
	Position uint64
	Held     Held
}

// Snapshot returns the last value and the open reservations by position, in one
// consistent view.
func (s *Slots[T]) Snapshot() SlotsState[T] {
	var o op
	defer o.wakes.run()
	s.mu.Lock()
	defer s.mu.Unlock()
	state := SlotsState[T]{Known: s.known, Last: s.last.value, Position: s.last.position}
	t := s.cfg.Table
	t.enter(&o)
	defer t.leave(&o)
	for _, r := range s.open {
		if r.Lease.heldLocked() {
			state.Open = append(state.Open, SlotHeld[T]{r.step.value, r.step.position, t.heldLocked(r.Lease.record, &o)})
		}
	}
	slices.SortFunc(state.Open, func(a, b SlotHeld[T]) int { return cmp.Compare(a.Position, b.Position) })
	return state
}

// Restore brings a snapshot back and returns the reservations in the order of
// state.Open; one that has expired meanwhile is nil, and its value is free. Use it
// before the first Reserve. It returns, without effect, [ErrConfig] if these Slots are in use, or
// a token is zero or repeated, [ErrDuration] for a negative TTL, or a [*LockedError] if another
// lease of the table has one of the keys, or a waiter wants it.
func (s *Slots[T]) Restore(state SlotsState[T]) ([]*Reservation[T], error) {
	held := make([]Held, len(state.Open))
	for i, h := range state.Open {
		h.Held.Keys = []string{s.key(h.Value)} // the String of a value is user code: not under the mutexes
		held[i] = h.Held
	}
	if err := checkHeld(held); err != nil {
		return nil, err
	}
	var o op
	defer o.wakes.run()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known || len(s.open) > 0 {
		return nil, fmt.Errorf("%w: %q is in use already", ErrConfig, s.cfg.Store)
	}
	t := s.cfg.Table
	t.enter(&o)
	defer t.leave(&o)
	leases, err := t.restoreLocked(held, &o)
	if err != nil {
		return nil, err
	}
	s.known, s.last = state.Known, step[T]{value: state.Last, position: state.Position}
	all := make([]*Reservation[T], len(state.Open))
	for i, h := range state.Open {
		if leases[i].record != nil {
			all[i] = s.openLocked(step[T]{value: h.Value, position: h.Position}, leases[i])
		}
	}
	return all, nil
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
			r.token, r.owner, r.ttl, r.since, r.end = h.Token, h.Owner, h.TTL, now-wall.Sub(h.Since), nil
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
