package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
	"github.com/strandjobs/strand/shard"
)

// Payload is one payload of a job.
type Payload[T any] struct {
	Value    T
	Score    float64
	Position uint64 // unique, growing in the order of acceptance
}

// Job is what a handler gets: an id with its payloads. It belongs to the
// handler, which may keep and change it.
type Job[T any] struct {
	Queue     string
	ID        string
	Payloads  []Payload[T] // never empty; in score order, from old to new if scores are times
	Retry     int          // −1: has not failed; 0: failed once; …
	LastError string       // the text of the last failure
	Due       time.Time

	claim *claim
}

// Lease returns the lease of a job that is unique while it runs; see [Unique].
// Its token grows with every run of the key, over restarts, too. For all other
// jobs it is one that has ended.
func (j Job[T]) Lease() lock.Lease {
	if j.claim == nil {
		return lock.Lease{}
	}
	return j.claim.lease
}

// Latest returns the value of the last payload in score order. It is the newest
// one that is waiting if scores are times, equal payloads merge by [KeepLast],
// and no more than MaxPayloads wait.
func (j Job[T]) Latest() T { return j.Payloads[len(j.Payloads)-1].Value }

// Queue is a registered queue. Its methods may be called from any goroutine.
type Queue[T any] struct {
	q   *queue
	cfg QueueConfig[T]
}

// Handle registers a queue whose handler gets one job at a time. What the
// handler returns decides about the job: nil is done, [Cancel], [Discard],
// [Snooze] and [RetryAfter] are wishes, any other error is a failure.
//
// It returns ErrConfig, ErrDuplicateQueue, or an error of the journal.
func Handle[T any](x *Executor, name string, handler func(context.Context, Job[T]) error, cfg QueueConfig[T]) (*Queue[T], error) {
	if err := notNil(x, handler == nil, name); err != nil {
		return nil, err
	}
	if cfg.BatchSize > 1 {
		return nil, fmt.Errorf("%w: BatchSize is %d for queue %q, whose handler gets single jobs; use HandleBatch", ErrConfig, cfg.BatchSize, name)
	}
	t := &Queue[T]{cfg: cfg}
	return t.register(x, name, func(ctx context.Context, items []*shard.Item) []error {
		job, err := t.decode(items[0])
		if err != nil {
			return []error{err}
		}
		if len(job.Payloads) == 0 {
			return nil
		}
		if err := handler(ctx, job); err != nil {
			return []error{err}
		}
		return nil
	})
}

// HandleBatch registers a queue whose handler gets up to BatchSize jobs at
// once, each of another id. An error it returns counts for all of them, except
// [BatchErrors].
func HandleBatch[T any](x *Executor, name string, handler func(context.Context, []Job[T]) error, cfg QueueConfig[T]) (*Queue[T], error) {
	if err := notNil(x, handler == nil, name); err != nil {
		return nil, err
	}
	t := &Queue[T]{cfg: cfg}
	return t.register(x, name, func(ctx context.Context, items []*shard.Item) []error {
		jobs, err := t.decodeAll(items)
		if err != nil {
			return repeat(err, len(items))
		}
		if len(jobs) == 0 {
			return nil
		}
		return perID(items, handler(ctx, jobs))
	})
}

func notNil(x *Executor, noHandler bool, name string) error {
	if x == nil {
		return fmt.Errorf("%w: queue %q has no executor; Open makes one", ErrConfig, name)
	}
	if noHandler {
		return fmt.Errorf("%w: the handler of queue %q is nil", ErrConfig, name)
	}
	return nil
}

// perID hands the error of a batch to its ids. An error for an id that is not
// in the batch belongs to one that is, nobody knows which: it counts for all
// that have none of their own.
func perID(items []*shard.Item, err error) []error {
	if err == nil {
		return nil
	}
	own, each := errors.AsType[BatchErrors](err)
	errs := make([]error, len(items))
	var unnamed []int
	for i, it := range items {
		var named bool
		if errs[i], named = own[it.ID]; !named {
			unnamed = append(unnamed, i)
		}
	}
	if !each || len(own) > len(items)-len(unnamed) {
		for _, i := range unnamed {
			errs[i] = err
		}
	}
	return errs
}

func (t *Queue[T]) register(x *Executor, name string, call func(context.Context, []*shard.Item) []error) (*Queue[T], error) {
	s, err := t.cfg.settings(x.cfg)
	if err != nil {
		return nil, fmt.Errorf("queue %q: %w", name, err)
	}
	locking, err := t.locking(x, name)
	if err != nil {
		return nil, fmt.Errorf("queue %q: %w", name, err)
	}
	t.q = &queue{settings: s, name: name, call: call, locking: locking}
	if hook := t.cfg.RetriesExhausted; hook != nil {
		t.q.exhausted = func(ctx context.Context, items []*shard.Item) {
			for _, it := range items {
				it.LastError = it.Outcome.Error // of this very run
			}
			if jobs, err := t.decodeAll(items); err == nil { // else the journal has failed, and they fail again
				hook(ctx, jobs)
			}
		}
	}
	if err := x.register(t.q); err != nil {
		return nil, err
	}
	return t, nil
}

// Name returns the name of the queue.
func (t *Queue[T]) Name() string { return t.q.name }

// Executor returns the executor that the queue was registered with, nil if it
// was not made by Handle.
func (t *Queue[T]) Executor() *Executor {
	if t.q == nil {
		return nil
	}
	return t.q.x
}

// decode makes the job of an item. Payloads that the codec refuses are noted
// as spoiled and left out; it may be that none is left. An error means that the
// journal could not give one back.
func (t *Queue[T]) decode(it *shard.Item) (Job[T], error) {
	job := Job[T]{
		Queue: t.q.name, ID: it.ID, Retry: it.Retry, LastError: it.LastError,
		Due: time.Unix(0, it.Due), Payloads: make([]Payload[T], 0, len(it.Payloads)),
	}
	job.claim, _ = it.Claim.(*claim)
	it.Outcome.Spoiled = nil
	var e journal.Entry
	for i, p := range it.Payloads {
		if err := p.Ref.Read(&e); err != nil {
			return job, &unreadError{err}
		}
		value, err := t.decodeOne(e.Payload)
		if err != nil {
			reason := "payload does not decode: " + text(err.Error)
			it.Outcome.Spoiled = append(it.Outcome.Spoiled, shard.Spoiled{Index: i, Error: reason})
			continue
		}
		job.Payloads = append(job.Payloads, Payload[T]{value, p.Score, uint64(p.Ref.Position())})
	}
	return job, nil
}

// unreadError is what comes of a job that did not run, because the journal could
// not give back its payloads.
type unreadError struct{ error }

func (e *unreadError) Unwrap() error { return e.error }

func (t *Queue[T]) decodeOne(data []byte) (value T, err error) {
	err = guarded(func() (err error) {
		value, err = t.cfg.Codec.Decode(data)
		return err
	})
	return value, err
}

// decodeAll makes the jobs of those items that have a payload left.
func (t *Queue[T]) decodeAll(items []*shard.Item) ([]Job[T], error) {
	jobs := make([]Job[T], 0, len(items))
	for _, it := range items {
		job, err := t.decode(it)
		if err != nil {
			return nil, err
		}
		if len(job.Payloads) > 0 {
			jobs = append(jobs, job)
		}
	}
	return jobs, nil
}
