package lock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// SlotsConfig describes one sequence of slots.
type SlotsConfig[T any] struct {
	// Next returns the value after v: required. It must return in bounded time and
	// give the same value for the same v each time, or the promise that no
	// committed value comes again is void. It may be called by many goroutines.
	Next func(v T) T
	// StartFrom returns the value to start after, and is asked only while no value
	// is known: neither committed, nor restored, nor answered by it before. Several
	// first callers may ask at the same time; the first answer counts. nil = the
	// zero value of T.
	StartFrom func(ctx context.Context) (T, error)
	// Store separates sequences that share a Table: the key of a value is Store, a slash, and the value as fmt.Sprint
	// prints it ("slots/17"). Values with the same key are never reserved together. "" = "slots".
	Store string
	// TTL of a reservation when Reserve is given none. 0 = 60 s;
	// negative is refused.
	TTL time.Duration
	// MaxSteps is how many values one Reserve may find taken. 0 = 100,000; negative
	// is refused.
	MaxSteps int
	// Table holds the reservations as leases. nil = one of its own.
	Table *Table
}

// Slots hands out the values of a sequence, each to one holder at a time: Reserve
// takes the next free one, Commit remembers it as the last one used, Unlock gives
// it back. All methods may be called by any number of goroutines.
//
// Every value has a position: its distance, in steps of Next, from the start.
// Promised, until Reset: no value at or before the last committed position is handed out again;
// two reservations of one value never overlap; the last position never goes back.
type Slots[T any] struct {
	cfg SlotsConfig[T]

	// mu guards everything below, and makes "is it free and after the last one?"
	// and "reserve it" one step. Under it the Table is locked, never the other way
	// round; wakes of the Table run after both. Next and StartFrom are called
	// without it.
	mu       sync.Mutex
	known    bool // last is a start or a committed value
	last     step[T]
	open     map[uint64]*Reservation[T] // by token
	watchers list[func()]               // called at the next end of a reservation, in the order in which they came

	// from is how far a walk has come from the last value without finding a free one, while the
	// Table had freed so much: as long as that is so there is none.
	from  step[T]
	freed uint64
}

// step is a value and its position, in the sequence as it was after so many resets.
type step[T any] struct {
	value    T
	position uint64
	resets   uint64
}

// walk is how far a Reserve has come.
type walk[T any] struct {
	step[T]
	taken int    // values after the last one
	freed uint64 // what the Table had freed when it began
}

// NewSlots returns a sequence without a last value, or [ErrConfig] for a bad config.
func NewSlots[T any](cfg SlotsConfig[T]) (*Slots[T], error) {
	if cfg.Next == nil {
		return nil, fmt.Errorf("%w: SlotsConfig.Next is nil", ErrConfig)
	}
	if cfg.MaxSteps < 0 {
		return nil, fmt.Errorf("%w: SlotsConfig.MaxSteps is negative", ErrConfig)
	}
	if cfg.TTL < 0 {
		return nil, errDuration
	}
	if cfg.StartFrom == nil {
		cfg.StartFrom = func(context.Context) (v T, err error) { return v, nil }
	}
	cfg.Store, cfg.MaxSteps = cmp.Or(cfg.Store, "slots"), cmp.Or(cfg.MaxSteps, 100_000)
	cfg.TTL, cfg.Table = cmp.Or(cfg.TTL, time.Minute), cmp.Or(cfg.Table, new(Table))
	return &Slots[T]{cfg: cfg, open: make(map[uint64]*Reservation[T])}, nil
}

// Reserve takes the first value after the last one that is not reserved, walking
// along Next. opt.TTL 0 = the TTL of the sequence. It does not wait for a value to
// become free: see [Slots.Watch].
//
// Errors, with nothing reserved: [ErrNoFreeSlot] after MaxSteps; the error of ctx,
// which is looked at before every step; [ErrConfig]; whatever StartFrom returned.
func (s *Slots[T]) Reserve(ctx context.Context, opt Options) (*Reservation[T], error) {
	opt.TTL = cmp.Or(opt.TTL, s.cfg.TTL)
	if end(ctx) != nil {
		return nil, ctxError(ctx, []string{s.cfg.Store})
	}
	w, err := s.start(ctx)
	if err != nil {
		return nil, err
	}
	for w.taken < s.cfg.MaxSteps {
		if end(ctx) != nil {
			return nil, ctxError(ctx, []string{s.cfg.Store})
		}
		next := step[T]{s.cfg.Next(w.value), w.position + 1, w.resets}
		r, passed, err := s.try(opt, next, w.freed)
		if r != nil || err != nil {
			return r, err
		}
		if !passed {
			w.step = next
			w.taken++
		} else if w, err = s.start(ctx); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: %q after %d steps", ErrNoFreeSlot, s.cfg.Store, s.cfg.MaxSteps)
}

// start begins a walk at the last step, after asking for it when nothing is known, or behind
// what is known to be taken.
func (s *Slots[T]) start(ctx context.Context) (w walk[T], err error) {
	s.mu.Lock()
	last, known := s.last, s.known
	s.mu.Unlock()
	for !known {
		v, err := s.cfg.StartFrom(ctx)
		if err != nil {
			return w, fmt.Errorf("lock: start of %q: %w", s.cfg.Store, err)
		}
		s.mu.Lock()
		if !s.known && s.last.resets == last.resets { // or it was asked before a reset
			s.known, s.last.value = true, v
		}
		last, known = s.last, s.known
		s.mu.Unlock()
	}
	s.locked(func(t *Table, _ *op) {
		if s.last.resets == last.resets { // or nothing may be known again
			last = s.last
		}
		w = walk[T]{step: last, freed: t.freed}
		if s.freed == t.freed && s.from.resets == last.resets && s.from.position > last.position {
			w.step, w.taken = s.from, int(s.from.position-last.position)
		}
	})
	return w, nil
}

// locked calls f under both mutexes. Who is woken in it is called after them.
func (s *Slots[T]) locked(f func(t *Table, o *op)) {
	var o op
	defer o.wakes.run()
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.cfg.Table
	t.enter(&o)
	defer t.leave(&o)
	f(t, &o)
}

// try reserves the value at, unless another has it, or the sequence has passed it, or
// was reset, while Next was called. freed is that of the walk which has come to it.
func (s *Slots[T]) try(opt Options, at step[T], freed uint64) (r *Reservation[T], passed bool, err error) {
	keys, err := checked(opt, []string{s.key(at.value)})
	if err != nil {
		return nil, false, err
	}
	s.locked(func(t *Table, o *op) {
		if at.resets != s.last.resets || at.position <= s.last.position {
			passed = true
			return
		}
		taken := t.try(opt, keys, o)
		if t.freed == freed && (s.freed != freed || at.position > s.from.position) {
			s.from, s.freed = at, freed
		}
		if taken != nil {
			r = s.openLocked(at, t.lease(taken))
		}
	})
	return r, passed, nil
}

// openLocked remembers a reservation until its lease ends. Slots.mu and Table.mu
// are held.
func (s *Slots[T]) openLocked(at step[T], lease Lease) *Reservation[T] {
	r := &Reservation[T]{Lease: lease, slots: s, step: at}
	s.open[lease.token] = r
	r.record.hooks = append(r.record.hooks, &endHook{func(error) { s.free(func() { delete(s.open, lease.token) }) }})
	return r
}

// free has f make values free, and wakes those who wait for one.
func (s *Slots[T]) free(f func()) {
	var w wakes
	s.mu.Lock()
	f()
	for at := s.watchers.first; at != nil; at = s.watchers.first {
		s.watchers.remove(at)
		w.add(at.value)
	}
	s.mu.Unlock()
	w.run()
}

func (s *Slots[T]) key(v T) string { return s.cfg.Store + "/" + fmt.Sprint(v) }

// Last returns the value to go on from and its position: the last committed one, or
// the start at position 0; known is false while there is none.
func (s *Slots[T]) Last() (v T, position uint64, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.value, s.last.position, s.known
}

// Reset begins the sequence anew: the last value is forgotten, the next Reserve asks
// StartFrom, and values come again. Reservations stay valid, at position 0, but their
// Commit no longer changes Last.
func (s *Slots[T]) Reset() {
	s.free(func() {
		s.known, s.last, s.from = false, step[T]{resets: s.last.resets + 1}, step[T]{}
		for _, r := range s.open {
			r.step.position = 0
		}
	})
}

// Watch calls wake once, with no mutex held, after the next end of a reservation. A
// caller that got [ErrNoFreeSlot] calls Watch first and Reserve again then, so as not
// to miss an end. wake must not block, and may be nil. cancel may be too late for a
// wake on its way.
func (s *Slots[T]) Watch(wake func()) (cancel func()) {
	if wake == nil {
		wake = func() {}
	}
	at := &node[func()]{value: wake}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers.push(at)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watchers.remove(at)
	}
}

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
func (r *Reservation[T]) Commit() (err error) {
	s := r.slots
	s.locked(func(t *Table, o *op) {
		if !r.Lease.heldLocked() {
			err = r.record.lostError(r.token)
			return
		}
		t.end(r.record, ErrUnlocked, o)
		if r.step.position > s.last.position {
			s.last = r.step
		}
	})
	return err
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
func (s *Slots[T]) Snapshot() (state SlotsState[T]) {
	s.locked(func(t *Table, o *op) {
		state = SlotsState[T]{Known: s.known, Last: s.last.value, Position: s.last.position}
		for _, r := range s.open {
			if r.Lease.heldLocked() {
				state.Open = append(state.Open, SlotHeld[T]{r.step.value, r.step.position, t.heldLocked(r.Lease.record, o)})
			}
		}
	})
	slices.SortFunc(state.Open, func(a, b SlotHeld[T]) int { return cmp.Compare(a.Position, b.Position) })
	return state
}

// Restore brings a snapshot back and returns the reservations in the order of state.Open; one that has expired
// meanwhile is nil, and its value is free. Use it before the first Reserve, and before the table grants any other
// lease, which could have the token of one of them. It returns, without effect, [ErrConfig] if these Slots are in use,
// a token is zero, a token or a value repeated, or a TTL negative, and a [*LockedError] if another lease of the table
// has one of the keys, or a waiter wants it.
func (s *Slots[T]) Restore(state SlotsState[T]) (all []*Reservation[T], err error) {
	held := make([]Held, len(state.Open))
	for i, h := range state.Open {
		h.Held.Keys = []string{s.key(h.Value)} // the String of a value is user code: not under the mutexes
		held[i] = h.Held
	}
	if err = checkHeld(held); err != nil {
		return nil, err
	}
	s.locked(func(t *Table, o *op) {
		if s.known || len(s.open) > 0 {
			err = fmt.Errorf("%w: %q is in use already", ErrConfig, s.cfg.Store)
			return
		}
		var leases []Lease
		if leases, err = t.restoreLocked(held, o); err != nil {
			return
		}
		s.known, s.last = state.Known, step[T]{value: state.Last, position: state.Position}
		all = make([]*Reservation[T], len(state.Open))
		for i, h := range state.Open {
			if leases[i].record != nil {
				all[i] = s.openLocked(step[T]{value: h.Value, position: h.Position}, leases[i])
			}
		}
	})
	return all, err
}
