package executor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

// SlotsConfig of a sequence of slots. It needs Next. The rule of [Config] holds for
// its numbers.
type SlotsConfig[V any] struct {
	// Next returns the value after v. It must return in bounded time and give the
	// same value for the same v each time, or the promise that no value comes again
	// is void. It may be called from any goroutine.
	Next func(v V) V

	// StartFrom returns the value to start after, and is asked only while the
	// journal knows of none. Several jobs may ask at the same time; the first
	// answer counts. Default: the zero value of V.
	StartFrom func(ctx context.Context) (V, error)

	// TTL is how long a job keeps its slot that can't extend it. While the handler
	// runs the slot is extended, so that the TTL bounds only a process that stands
	// still or has died, and what KeepOnFailure and KeepOnBurial keep. Default: the
	// Timeout of its queue, else Config.SlotTTL. What Laralocker takes from retryUntil
	// is TTLOf's to compute: jobs have no such time here.
	TTL time.Duration

	// TTLOf computes the TTL of a job that is about to run, from its payloads say. Zero
	// and below: as TTL says. When it panics, the job has failed. Default nil.
	TTLOf func(job lock.Job) time.Duration

	// MaxSteps is how many values may be taken when a job looks for a free one:
	// then it waits for one to come back. Default 100,000.
	MaxSteps int

	// KeepOnFailure leaves the slot of a job that failed reserved, for its retry,
	// until the TTL has passed. Default false: it is free at once.
	KeepOnFailure bool

	// KeepOnBurial leaves the slot of a job that goes to the morgue reserved until the
	// TTL has passed, so that no job has its value before: no later payload of its id,
	// nor the job itself if it is put back. Default false: it is free at once.
	KeepOnBurial bool
}

// Slots hand each running job a value of its own: the next free one of a sequence.
// See [NewSlots].
type Slots[V any] struct {
	x      *Executor
	name   string
	prefix string // of the state keys
	cfg    SlotsConfig[V]
	slots  *lock.Slots[V]

	// Guarded by locks.mu. mine are the reservations of jobs, also of those that
	// failed, or ran when the last process ended.
	mine   map[holder]*reserved[V]
	last   json.RawMessage // the last value; nil while nothing is known
	buried []*reserved[V]  // those that are kept after a burial, in its order
	resets int
}

// reserved is a reservation with its value as it is written down: encoding is the
// user's code, too.
type reserved[V any] struct {
	*lock.Reservation[V]
	value json.RawMessage
}

// SlotSource is a [Slots] of any type.
type SlotSource interface {
	executor() *Executor
	looksAtJobs() bool
	reserve(ctx context.Context, c *claim, job lock.Job) (slotClaim, error)
	rename(former, name string)
	abandon(by holder, buried bool) []journal.Set
	watch(wake func()) (cancel func())
	holders() []lock.Held
}

// NewSlots makes a sequence of slots with a name of 1 to 512 bytes, which the jobs
// of queues with QueueConfig.Slots reserve: a queue says which sequences are its
// jobs', and the name stands for Laralocker's prefix and store. The slot is on disk before the handler
// sees it, see [Slots.Of]. When the job succeeds the sequence goes on after it, in
// the same commit; when it fails the slot is given back. A job that was running
// when the process died gets its slot again, unless the TTL has passed. A job that
// finds no free slot waits until one is given back; where none is out, it fails
// with [lock.ErrNoFreeSlot].
//
// The values of jobs that succeeded are each one job's. There is no gap between them
// while no job gives its value back: not because many run at a time, nor because the
// process dies and comes back within the TTL. A job gives its value back when it fails, is
// snoozed, discarded or buried, when it calls [Slots.Clear], and when its TTL passes. The next
// job to begin takes that value, unless a later one has succeeded by then: then it does
// not come again, and there is a gap. With KeepOnFailure a job that failed gives its value
// back only when the TTL passes before its retry begins, or when it is buried.
//
// Values are kept as JSON. One sequence of a name may be made for an executor,
// before the queues that use it. It returns ErrConfig, ErrInvalidKey, ErrClosed
// once Stop was called, or an error of the journal or of a value in it.
func NewSlots[V any](x *Executor, name string, cfg SlotsConfig[V]) (*Slots[V], error) {
	if x == nil {
		return nil, fmt.Errorf("%w: slots %q have no executor; Open makes one", ErrConfig, name)
	}
	if err := checkName(name); err != nil {
		return nil, err
	}
	if err := errorsOf(notNegative("TTL", cfg.TTL), inRange("MaxSteps", cfg.MaxSteps, 0, math.MaxInt)); err != nil {
		return nil, fmt.Errorf("slots %q: %w", name, err)
	}
	if x.stopping.Load() {
		return nil, ErrClosed
	}
	table := lock.New()
	table.RaiseToken(x.log.Stats().Epoch << 32) // above those of the processes before
	slots, err := lock.NewSlots(lock.SlotsConfig[V]{
		Next: cfg.Next, StartFrom: cfg.StartFrom, TTL: cfg.TTL, MaxSteps: cfg.MaxSteps, Store: name, Table: table,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: slots %q: %w", ErrConfig, name, err)
	}
	s := &Slots[V]{
		x: x, name: name, cfg: cfg, slots: slots, mine: make(map[holder]*reserved[V]),
		prefix: statekey.Slots(name),
	}
	if !x.claimSlots(name, true) {
		return nil, fmt.Errorf("%w: slots %q exist already", ErrConfig, name)
	}
	if err := guarded(s.restore); err != nil {
		x.claimSlots(name, false)
		return nil, fmt.Errorf("executor: slots %q: %w", name, border(err))
	}
	return s, nil
}

// claimSlots takes the name of a sequence, or gives it back; false: another
// sequence has it.
func (x *Executor) claimSlots(name string, exist bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	was := x.slots[name]
	x.slots[name] = exist
	return !was
}

// JobWithSlots is a [Job] or a [Merged] of any type.
type JobWithSlots interface{ held() *claim }

// Of returns the slot of a job, inside its handler; false for a job of a queue that
// does not use these slots, and after Clear.
func (s *Slots[V]) Of(job JobWithSlots) (value V, ok bool) {
	if t := s.slotOf(job); t != nil && !t.cleared.Load() {
		return t.r.Value(), true
	}
	return value, false
}

// Clear gives the slot of a job back while it runs: its success does not move the
// sequence, and others may get the value. It returns [lock.ErrLockLost] when the
// job has none, or not any more; ErrClosed in a handler that Stop has left behind,
// and ErrFailed.
func (s *Slots[V]) Clear(job JobWithSlots) error {
	t := s.slotOf(job)
	if t == nil {
		return lock.ErrLockLost
	}
	released := lock.ErrLockLost
	change := new(journal.Change)
	err := s.x.locks.attempt(change, func(*lock.KeyLocks) {
		if s.mine[t.c.by] == t.r {
			t.cleared.Store(true)
			delete(s.mine, t.c.by)
			change.Sets = s.sets(journal.Set{Key: s.openKey(t.c.by)})
			released = t.r.Release()
		}
	})
	return cmp.Or(err, released)
}

func (s *Slots[V]) slotOf(job JobWithSlots) *slot[V] {
	c := job.held()
	if c == nil {
		return nil
	}
	for _, claimed := range c.slots {
		if claimed.source() == SlotSource(s) {
			return claimed.(*slot[V])
		}
	}
	return nil
}

// Last returns the value that the sequence goes on after and its position; false
// while nothing is known.
func (s *Slots[V]) Last() (value V, position uint64, known bool) { return s.slots.Last() }

// Snapshot returns the last value, and which job has which slot.
func (s *Slots[V]) Snapshot() lock.SlotsState[V] { return s.slots.Snapshot() }

func (s *Slots[V]) executor() *Executor { return s.x }

func (s *Slots[V]) watch(wake func()) (cancel func()) { return s.slots.Watch(wake) }

// holders says which jobs have slots.
func (s *Slots[V]) holders() (all []lock.Held) {
	for _, open := range s.slots.Snapshot().Open {
		all = append(all, open.Held)
	}
	return all
}

// Reset begins the sequence anew, by hand: the last value is forgotten, the next job
// asks StartFrom, and values come again. A job that has a slot at the moment keeps it,
// and no other gets that value meanwhile, but its success does not move the sequence
// any more. It returns nil when that is on disk; ErrClosed, ErrFailed, ErrContext, or
// the cause of ctx when that ends first, and then the sequence may begin anew all the same.
func (s *Slots[V]) Reset(ctx context.Context) error {
	ctx, err := s.x.mayChange(ctx)
	if err != nil {
		return err
	}
	change := new(journal.Change)
	return s.x.written(ctx, s.x.locks.attempt(change, func(*lock.KeyLocks) {
		s.slots.Reset()
		s.last = nil
		s.resets++
		change.Sets = s.sets(s.lastSet())
		for by, r := range s.mine {
			change.Sets = append(change.Sets, s.sets(s.open(by, r))...) // at position 0
		}
	}))
}

// start encodes where the sequence began, if that is not written down yet, and says
// after how many resets that was.
func (s *Slots[V]) start() (begin json.RawMessage, resets int, err error) {
	s.x.locks.mu.Lock()
	written, resets := s.last != nil, s.resets
	s.x.locks.mu.Unlock()
	if value, _, known := s.slots.Last(); known && !written {
		begin, err = json.Marshal(value)
	}
	return begin, resets, err
}

func (s *Slots[V]) sets(sets ...journal.Set) []journal.Set {
	if s.x.volatile {
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

func (s *Slots[V]) open(by holder, r *reserved[V]) journal.Set {
	return s.openValue(by, r).Set(s.openKey(by))
}

func (s *Slots[V]) openValue(by holder, r *reserved[V]) statekey.Slot {
	held, _ := r.Lease().Record() // one that has just expired ends in the past
	held.Owner, held.Keys = by.String(), nil
	return statekey.Slot{Value: r.value, Position: r.Position(), Held: held, Queue: by.Queue, ID: []byte(by.ID)}
}

// buriedKey is for a slot that no job has: its id may have another one.
func (s *Slots[V]) buriedKey(r *reserved[V]) string {
	return s.prefix + "buried/" + strconv.FormatUint(r.Lease().Token(), 10)
}

func (s *Slots[V]) openKey(by holder) string {
	return s.prefix + "open/" + strconv.Itoa(len(by.Queue)) + "/" + by.Queue + "/" + by.ID
}

// rename gives the slots of a queue's jobs, kept over a failure or a crash, to the
// queue's new name.
func (s *Slots[V]) rename(former, name string) {
	change := new(journal.Change)
	s.x.locks.change(change, func(*lock.KeyLocks) {
		for by, r := range maps.Clone(s.mine) {
			if by.Queue == former {
				delete(s.mine, by)
				heir := holder{Queue: name, ID: by.ID}
				s.mine[heir] = r
				change.Sets = append(change.Sets, s.sets(journal.Set{Key: s.openKey(by)}, s.open(heir, r))...)
			}
		}
	})
}

// restore brings back the last value and what is still reserved.
func (s *Slots[V]) restore() error {
	var state lock.SlotsState[V]
	var all []statekey.Slot
	var expired journal.Change
	check, now := statekey.NewCheck(), time.Now()
	for set, err := range s.x.log.Keys(s.prefix) {
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
			s.buried = append(s.buried, &reserved[V]{r, w.Value})
		default:
			s.mine[holder{Queue: w.Queue, ID: string(w.ID)}] = &reserved[V]{r, w.Value}
		}
	}
	if len(expired.Sets) > 0 {
		s.x.log.Record(&expired)
	}
	return nil
}
