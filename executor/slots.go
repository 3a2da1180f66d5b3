package executor

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/setting"
	"github.com/strandjobs/strand/executor/internal/slots"
	"github.com/strandjobs/strand/executor/internal/submit"
	"github.com/strandjobs/strand/lock"
)

// SlotsConfig configures a sequence of slots. It needs Next. What zero and numbers
// below zero mean, [Config] says.
type SlotsConfig[V any] struct {
	// Next returns the value after v. It must return in bounded time, and return the
	// same value for the same v each time: otherwise a value may come twice. It may be
	// called from any goroutine. If it panics, the job has failed.
	Next func(v V) V

	// StartFrom returns the value after which the sequence begins. It is called only
	// while the journal has no value of the sequence. Several jobs may call it at the
	// same time; the first answer counts, and an error fails its job. Default: the zero value of V.
	StartFrom func(ctx context.Context) (V, error)

	// TTL is how long a slot outlives its last extension. While the handler runs, the
	// executor extends the slot; so the TTL counts only when the process stands still
	// or has died, and for what KeepOnFailure and KeepOnBurial keep. Default: the
	// Timeout of the queue, and without one Config.Advanced.SlotTTL.
	TTL time.Duration

	// TTLOf returns the TTL of a job that is about to run, computed from its payloads
	// for example. Zero and below: TTL applies. If it panics, the job has failed.
	// Default nil. Laralocker takes this time from retryUntil, which jobs here do not
	// have.
	TTLOf func(job lock.Job) time.Duration

	// MaxSteps is how many taken values a job passes, one after the other, when it
	// looks for a free one. When so many are taken, the job is blocked until one comes
	// back. Default 100,000.
	MaxSteps int

	// KeepOnFailure lets a job that failed keep its slot, so that its retry gets the same
	// value, unless the TTL passes first. Default false: the slot is free at once.
	KeepOnFailure bool

	// KeepOnBurial keeps the slot of a job that was dead-lettered until the TTL is
	// over, so that no job gets its value before: neither a later payload of its id,
	// nor the job itself if a person puts it back. Default false: the slot is free at
	// once.
	KeepOnBurial bool
}

// Slots give each running job a value of its own, for example a serial number: the next
// free one of a sequence. See [NewSlots]. Its methods may be called from any goroutine.
type Slots[V any] struct {
	x   *Executor
	all *slots.Slots[V]
}

// SlotSource is a [Slots] of any type.
type SlotSource interface {
	executor() *Executor
	sequence() slots.Sequence
}

// NewSlots makes a sequence of slots with a name of 1 to 512 bytes. A queue lists its sequences
// in QueueConfig.Conditions.Slots; each of its jobs has one value of each while it runs. The slot
// is on disk before the handler sees it, see [Slots.Of]. When the job succeeds the sequence goes on
// after it, in the same commit; when it fails the slot is given back. A job that was running when the process died gets its
// slot again, unless the TTL has passed, or an older dead letter of its id, put back before Start, runs first. One that
// finds no free slot waits until one is given back; if no job has one, it fails with [lock.ErrNoFreeSlot].
//
// Until [Slots.Reset], no two jobs that succeed have the same value. Values have no gaps while no
// job gives one back, also with many jobs at a time, and over a crash shorter than the TTL. A job
// gives its value back when it fails, is snoozed, interrupted by a stop, discarded or dead-lettered,
// when it calls [Slots.Clear], and when its TTL passes; also when it finds, with its slot on disk, that it
// has to wait: for a [Limit], another sequence, a pause, or a key that was locked meanwhile. The next job
// to begin takes that value, unless a later one has succeeded by then: then it does not come again, and
// there is a gap. With KeepOnFailure a job that failed, or found the disk full, gives its value back only
// when the TTL passes before its retry begins, or when it is discarded or dead-lettered.
//
// Values are kept as JSON. One sequence of a name may be made for an executor,
// before the queues that use it. It returns ErrConfig, ErrInvalidKey, ErrClosed
// once Stop was called, or an error of the journal or of a value in it.
func NewSlots[V any](x *Executor, name string, cfg SlotsConfig[V]) (*Slots[V], error) {
	if x == nil {
		return nil, fmt.Errorf("%w: slots %q have no executor; Open makes one", ErrConfig, name)
	}
	if err := submit.CheckName(name); err != nil {
		return nil, err
	}
	if err := cmp.Or(setting.NotNegative("TTL", cfg.TTL), setting.InRange("MaxSteps", cfg.MaxSteps, 0, math.MaxInt)); err != nil {
		return nil, fmt.Errorf("slots %q: %w", name, err)
	}
	if x.life.Stopping.Load() {
		return nil, ErrClosed
	}
	if x.cluster != nil {
		return nil, fmt.Errorf("%w: slots %q: the partitions of a cluster would each give all of its values", ErrConfig, name)
	}
	all, err := slots.New(slots.Config[V]{
		SlotsConfig: lock.SlotsConfig[V]{Next: cfg.Next, StartFrom: cfg.StartFrom, TTL: cfg.TTL, MaxSteps: cfg.MaxSteps, Store: name},
		TTLOf:       cfg.TTLOf, KeepOnFailure: cfg.KeepOnFailure, KeepOnBurial: cfg.KeepOnBurial,
		Ledger: x.ledger, Log: x.log, Volatile: x.crew.Volatile, Handlers: x.crew.Handlers,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: slots %q: %w", ErrConfig, name, err)
	}
	if _, exist := x.sequences.LoadOrStore(name, true); exist {
		return nil, fmt.Errorf("%w: slots %q exist already", ErrConfig, name)
	}
	if err := guard.Call(all.Restore); err != nil {
		x.sequences.Delete(name)
		return nil, fmt.Errorf("executor: slots %q: %w", name, border(err))
	}
	return &Slots[V]{x, all}, nil
}

// Of returns the value that a running job has been given. The handler calls it with the
// [Job] or [Merged] that it got. ok is false when Conditions.Slots of its queue does not list
// the sequence, for nil, and after [Slots.Clear], even if the batch is halved and called again.
func (s *Slots[V]) Of(job Parent) (value V, ok bool) { return s.all.Value(originOf(job).claim) }

// Clear gives the value of a running job back: the success of the job no longer moves
// the sequence, and another job may get the value. It returns [lock.ErrLockLost] when
// the job has no value, or has it no more; ErrClosed in a handler that Stop has left
// behind; and ErrFailed.
func (s *Slots[V]) Clear(job Parent) error { return s.all.Clear(originOf(job).claim, s.x.attempt) }

// Snapshot returns the value that the sequence goes on after, if one is known, and its
// position, and which job has which slot.
func (s *Slots[V]) Snapshot() lock.SlotsState[V] { return s.all.Snapshot() }

func (s *Slots[V]) executor() *Executor {
	if s == nil {
		return nil
	}
	return s.x
}

func (s *Slots[V]) sequence() slots.Sequence { return s.all }

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
	if err = s.all.Reset(s.x.attempt); err == nil {
		err = s.x.log.Settled(ctx)
	}
	return border(err)
}

// addSlots adds the sequences of which a job has one value each.
func addSlots(q *queue, sources []SlotSource, a *admit.List) error {
	for i, s := range sources {
		if s == nil || s.executor() != q.x {
			return fmt.Errorf("%w: Conditions.Slots of queue %q must come from NewSlots with the same executor", ErrConfig, q.Name)
		}
		if slices.Contains(sources[:i], s) {
			return fmt.Errorf("%w: Conditions.Slots of queue %q has one sequence twice; a job gets one value of each", ErrConfig, q.Name)
		}
		all := s.sequence()
		a.Ask(all.Condition(cmp.Or(q.Timeout, q.x.cfg.Advanced.SlotTTL)))
		q.Slots = append(q.Slots, all)
	}
	return nil
}
