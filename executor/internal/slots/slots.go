// Package slots hands each running job a value of its own, as package admit asks it: the
// next free one of a sequence. A reservation is on disk before its job runs. It is
// settled in the commit of the job, and survives a crash, and by option a failure or a
// burial, until its TTL has passed. A job that finds no free value waits until one is
// given back; where none is out, it fails with [lock.ErrNoFreeSlot].
//
// What a sequence knows is guarded by the ledger. Functions of the program, and the
// encoding of values, are called under no lock.
package slots

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

// Config of a sequence.
type Config[V any] struct {
	lock.SlotsConfig[V]         // but for the table; Store is the name, a TTL of 0 that of the queue
	TTLOf                       func(lock.Job) time.Duration
	KeepOnFailure, KeepOnBurial bool

	Ledger   *admit.Ledger
	Log      *journal.Log
	Volatile bool            // the journal is told nothing
	Handlers context.Context // what user code gets
}

// Slots is a sequence with its reservations.
type Slots[V any] struct {
	cfg    Config[V]
	prefix string // of the state keys
	slots  *lock.Slots[V]

	// Guarded by the ledger. mine are the reservations of jobs, also of those that
	// failed, or ran when the last process ended.
	mine   map[admit.Owner]*reserved[V]
	last   json.RawMessage // the last value; nil while nothing is known
	resets int
	buried atomic.Int64 // how many reservations are kept after a burial

	// mu guards what follows. It comes after the ledger, and nothing is called under it.
	mu      sync.Mutex
	waiting map[admit.Owner]func() // which jobs wait, and how each stops that
	ended   []journal.Set          // what the journal still has of those that were kept after a burial
}

// reserved is a reservation with its value as it is written down: encoding is the
// user's code, too.
type reserved[V any] struct {
	*lock.Reservation[V]
	value json.RawMessage
}

// Sequence is a [Slots] of any type.
type Sequence interface {
	Condition(ttl time.Duration) admit.Condition
	Holders() []inspect.SlotHeld
	Rename(former, name string)
}

// New returns a sequence, or an error of its settings.
func New[V any](cfg Config[V]) (*Slots[V], error) {
	cfg.Table = new(lock.Table)
	cfg.Table.RaiseToken(cfg.Log.Stats().Epoch << 32) // above those of the processes before
	slots, err := lock.NewSlots(cfg.SlotsConfig)
	if err != nil {
		return nil, err
	}
	return &Slots[V]{
		cfg: cfg, slots: slots, mine: make(map[admit.Owner]*reserved[V]), prefix: statekey.Slots(cfg.Store),
		waiting: make(map[admit.Owner]func()),
	}, nil
}

// Value returns the value of a job that has one, and has not given it back.
func (s *Slots[V]) Value(c *admit.Claim) (value V, ok bool) {
	if h := s.of(c); h != nil && !h.cleared.Load() {
		return h.r.Value(), true
	}
	return value, false
}

// Clear gives the value of a job back while it runs, in a change that try records. It
// returns lock.ErrLockLost when the job has none.
func (s *Slots[V]) Clear(c *admit.Claim, try func(*journal.Change, func()) error) error {
	h := s.of(c)
	if h == nil {
		return lock.ErrLockLost
	}
	released := lock.ErrLockLost
	change := new(journal.Change)
	err := try(change, func() {
		if s.mine[h.by] == h.r {
			h.cleared.Store(true)
			delete(s.mine, h.by)
			change.Sets = s.sets(journal.Set{Key: s.openKey(h.by)})
			released = h.r.Unlock()
		}
	})
	return cmp.Or(err, released)
}

func (s *Slots[V]) of(c *admit.Claim) *hold[V] {
	for _, h := range c.Holds() {
		if h, ok := h.(*hold[V]); ok && h.s == s {
			return h
		}
	}
	return nil
}

// Reset begins the sequence anew, in a change that try records.
func (s *Slots[V]) Reset(try func(*journal.Change, func()) error) error {
	change := new(journal.Change)
	return try(change, func() {
		s.slots.Reset()
		s.last = nil
		s.resets++
		change.Sets = s.sets(s.lastSet())
		for by, r := range s.mine {
			change.Sets = append(change.Sets, s.sets(s.open(by, r))...) // at position 0
		}
	})
}

// Snapshot returns the last value, and which job has which value, by what its queue is called now.
func (s *Slots[V]) Snapshot() lock.SlotsState[V] {
	owners := make(map[uint64]admit.Owner)
	s.cfg.Ledger.View(func() {
		for by, r := range s.mine {
			owners[r.Token()] = by
		}
	})
	state := s.slots.Snapshot()
	for i, open := range state.Open {
		if by, known := owners[open.Held.Token]; known {
			state.Open[i].Held.Owner = by.String()
		}
	}
	return state
}

// Holders says which jobs have values.
func (s *Slots[V]) Holders() (all []inspect.SlotHeld) {
	for _, open := range s.Snapshot().Open {
		h := open.Held
		all = append(all, inspect.SlotHeld{Slot: strings.Join(h.Keys, " "), By: h.Owner, Until: h.Until})
	}
	return all
}

// start encodes where the sequence began, if that is not written down yet, and says
// after how many resets that was.
func (s *Slots[V]) start() (begin json.RawMessage, resets int, err error) {
	var written bool
	s.cfg.Ledger.View(func() { written, resets = s.last != nil, s.resets })
	if value, _, known := s.slots.Last(); known && !written {
		begin, err = json.Marshal(value)
	}
	return begin, resets, err
}

func (s *Slots[V]) sets(sets ...journal.Set) []journal.Set {
	if s.cfg.Volatile {
		return nil
	}
	return sets
}

// lastSet writes the last value down, or that none is known.
func (s *Slots[V]) lastSet() journal.Set {
	if s.last == nil {
		return journal.Set{Key: s.prefix + statekey.Last}
	}
	_, position, _ := s.slots.Last()
	return statekey.Slot{Value: s.last, Position: position}.Set(s.prefix + statekey.Last)
}

func (s *Slots[V]) open(by admit.Owner, r *reserved[V]) journal.Set {
	return s.openValue(by, r).Set(s.openKey(by))
}

func (s *Slots[V]) openValue(by admit.Owner, r *reserved[V]) statekey.Slot {
	held, _ := r.Record() // one that has just expired ends in the past
	held.Owner, held.Keys = by.String(), nil
	return statekey.Slot{Value: r.value, Position: r.Position(), Held: held, Queue: by.Queue, ID: []byte(by.ID)}
}

// buriedKey is for a value that no job has: its id may have another one.
func (s *Slots[V]) buriedKey(r *reserved[V]) string {
	return s.prefix + "buried/" + strconv.FormatUint(r.Token(), 10)
}

func (s *Slots[V]) openKey(by admit.Owner) string {
	return s.prefix + "open/" + strconv.Itoa(len(by.Queue)) + "/" + by.Queue + "/" + by.ID
}

// queueIn is the queue of a reservation by its state key, which has its name as it is: JSON has no bytes but UTF-8.
func (s *Slots[V]) queueIn(key string, w statekey.Slot) string {
	_, owner, _ := strings.Cut(strings.TrimPrefix(key, s.prefix+"open/"), "/")
	if queue, ok := strings.CutSuffix(owner, "/"+string(w.ID)); ok {
		return queue
	}
	return w.Queue
}

// Rename gives the values of a queue's jobs, kept over a failure or a crash, to the
// queue's new name.
func (s *Slots[V]) Rename(former, name string) {
	change := new(journal.Change)
	s.cfg.Ledger.Do(change, func() {
		for by, r := range maps.Clone(s.mine) {
			if by.Queue == former {
				delete(s.mine, by)
				heir := admit.Owner{Queue: name, ID: by.ID}
				change.Sets = append(change.Sets, s.sets(journal.Set{Key: s.openKey(by)})...)
				if s.mine[heir] != nil { // a job has one value
					_ = r.Unlock()
					continue
				}
				s.mine[heir] = r
				change.Sets = append(change.Sets, s.sets(s.open(heir, r))...)
			}
		}
	})
}

// Restore brings back the last value and what is still reserved.
func (s *Slots[V]) Restore() error {
	var state lock.SlotsState[V]
	var all []statekey.Slot
	var expired journal.Change
	check, now := statekey.NewCheck(), time.Now()
	for set, err := range s.cfg.Log.Keys(s.prefix, "") {
		if err != nil {
			return err
		}
		if err := check(set); err != nil {
			return statekey.Refused(set.Key, err)
		}
		w, err := statekey.ParseSlot(set.Value)
		var value V
		if err := cmp.Or(err, json.Unmarshal(w.Value, &value)); err != nil {
			return fmt.Errorf("value %q: %w", strings.TrimPrefix(set.Key, s.prefix), err)
		}
		switch {
		case set.Key == s.prefix+statekey.Last:
			state.Known, state.Last, state.Position = true, value, w.Position
			s.last = w.Value
		case w.Expired(now):
			expired.Sets = append(expired.Sets, journal.Set{Key: set.Key})
		default:
			w.Queue = s.queueIn(set.Key, w)
			state.Open = append(state.Open, lock.SlotHeld[V]{Value: value, Position: w.Position, Held: w.Held})
			all = append(all, w)
		}
	}
	open, err := s.slots.Restore(state)
	if err != nil {
		return err
	}
	for i, r := range open {
		switch w := all[i]; {
		case r == nil:
		case w.Buried:
			s.await(&reserved[V]{r, w.Value})
		default:
			s.mine[admit.Owner{Queue: w.Queue, ID: string(w.ID)}] = &reserved[V]{r, w.Value}
		}
	}
	if len(expired.Sets) > 0 {
		s.cfg.Log.Record(&expired)
	}
	return nil
}
