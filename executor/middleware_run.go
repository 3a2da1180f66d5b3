package executor

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Run is one call of a handler as a [Middleware] sees it. It is for looking at: the
// handler gets what it would have got, whatever is changed here, except for
// Metadata, which are the handler's own.
type Run struct {
	Queue string
	Jobs  []RunJob // one; with [HandleBatch] those of the batch, or of the part of it that this call is about

	batch bool

	// mu guards over. The journal may be read under it, no user code is called.
	mu   sync.RWMutex
	over bool // the payloads may be gone
}

// RunJob is an id of a [Run]; see [Job] and [Merged] for what both have.
type RunJob struct {
	ID        string
	Payloads  []RunPayload // one at least; with [Handle] one
	Attempt   int
	LastTry   bool // no retry follows if it fails
	LastError string
	Due       time.Time
	Failures  []inspect.Failure
	Crashes   int
}

// RunPayload is a payload of a [RunJob]: decoded as the handler gets it in Value, and
// encoded with Raw.
type RunPayload struct {
	Value    any // what the handler gets: of the type of its queue
	Score    float64
	Position uint64

	EnqueuedAt time.Time
	Metadata   map[string]string

	run *Run
	ref journal.Ref
}

// Raw reads the encoded payload from the journal, at each call, and returns a copy.
// Call it before the outermost [Middleware] has returned; after that it returns
// ErrReturned. Any other error means that the journal has failed. Any goroutine may
// call it.
func (p RunPayload) Raw() ([]byte, error) {
	if p.run == nil {
		return nil, ErrReturned
	}
	p.run.mu.RLock()
	defer p.run.mu.RUnlock()
	if p.run.over {
		return nil, ErrReturned
	}
	var e journal.Entry
	if err := p.ref.Read(&e); err != nil {
		return nil, border(err)
	}
	return slices.Clone(e.Payload), nil
}

// Outcomes yields each job of the run with its part of the error that next returned:
// that of its own among [BatchErrors], and else err itself. A batch that fails
// without naming a job runs again in halves, each of which is a run of its own.
func (r *Run) Outcomes(err error) iter.Seq2[RunJob, error] {
	return func(yield func(RunJob, error) bool) {
		errs := make([]error, len(r.Jobs))
		switch {
		case err == nil:
		case r.batch:
			errs = byID(len(r.Jobs), func(i int) string { return r.Jobs[i].ID }, err)
		default:
			errs = slices.Repeat([]error{err}, len(r.Jobs))
		}
		for i, job := range r.Jobs {
			if !yield(job, errs[i]) {
				return
			}
		}
	}
}

// Outcome is what the error of a handler asks for, as a name for figures.
type Outcome string

// Outcomes of a call of a handler.
const (
	// OutcomeDone: the handler returned nil.
	OutcomeDone Outcome = "done"
	// OutcomeFailed: the handler returned [RetryAfter], or an error of no other kind.
	OutcomeFailed Outcome = "failed"
	// OutcomePanicked: the handler panicked, which is a failure, too.
	OutcomePanicked Outcome = "panicked"
	// OutcomeSnoozed: the handler returned [Snooze], or [Throttled].
	OutcomeSnoozed Outcome = "snoozed"
	// OutcomeDiscarded: the handler returned [Discard].
	OutcomeDiscarded Outcome = "discarded"
	// OutcomeCancelled: the handler returned [Cancel].
	OutcomeCancelled Outcome = "cancelled"
	// OutcomeMixed: the handler returned [PayloadErrors], or [BatchErrors], which
	// [Run.Outcomes] takes apart.
	OutcomeMixed Outcome = "mixed"
)

// OutcomeOf says what an error asks for that a handler, or the next of a
// [Middleware], has returned. An error whose methods panic is a failure.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return OutcomeDone
	}
	o := OutcomeFailed
	_ = guard.Call(func() error {
		_, panicked := errors.AsType[*PanicError](err)
		_, payloads := errors.AsType[PayloadErrors](err)
		_, batch := errors.AsType[BatchErrors](err)
		_, discarded := asWish[DiscardError](err)
		_, snoozed := asWish[SnoozeError](err)
		_, throttled := asWish[ThrottledError](err)
		_, cancelled := asWish[CancelError](err)
		switch {
		case panicked:
			o = OutcomePanicked
		case payloads || batch:
			o = OutcomeMixed
		case discarded:
			o = OutcomeDiscarded
		case snoozed || throttled:
			o = OutcomeSnoozed
		case cancelled:
			o = OutcomeCancelled
		}
		return nil
	})
	return o
}

// call calls the handler with what stands around it.
func (r *Run) call(ctx context.Context, around []aroundRun, handler func(context.Context) error) error {
	defer r.end()
	return nested(ctx, around, func(ctx context.Context, f aroundRun, next func(context.Context) error) error { return f(ctx, r, next) }, handler)
}

// end makes what was kept of the run useless: its payloads may end from now on.
func (r *Run) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
}

// around calls a handler of [Handle] with what stands around it.
func (t *Queue[T]) around(ctx context.Context, it *shard.Item, job Job[T], handler func(context.Context, Job[T]) error) error {
	one := &struct { // in one allocation
		Run
		job     [1]RunJob
		payload [1]RunPayload
		calls   int // of the handler
	}{}
	r := &one.Run
	one.payload[0] = RunPayload{job.Payload, job.Score, job.Position, job.EnqueuedAt, job.Metadata, r, it.Current().Ref}
	one.job[0] = RunJob{job.ID, one.payload[:], job.Attempt, t.q.core.LastTry(it), job.LastError, job.Due, job.Failures, job.Crashes}
	r.Queue, r.Jobs = t.q.Name, one.job[:]
	return r.call(ctx, t.q.layers.run, func(ctx context.Context) error {
		one.calls++
		if one.calls == 1 {
			return handler(ctx, job)
		}
		again := job
		again.call = one.calls - 1
		again.attempt.Again(again.call)
		return handler(ctx, again)
	})
}

// aroundMerged calls a handler of [HandleMerged] with what stands around it. Inlined,
// it would have the job of each call escape, with nothing around it, too.
//
//go:noinline
func (t *Queue[T]) aroundMerged(ctx context.Context, items []*shard.Item, job Merged[T], handler func(context.Context, Merged[T]) error) error {
	calls := 0
	return t.aroundAll(ctx, items, []Merged[T]{job}, false, func(ctx context.Context) error {
		if calls > 0 {
			job.from.call = calls
			job.from.attempt.Again(calls)
		}
		calls++
		return handler(ctx, job)
	})
}

// aroundAll calls a handler with what stands around it. The jobs are those of the items of which a payload decodes.
func (t *Queue[T]) aroundAll(ctx context.Context, items []*shard.Item, jobs []Merged[T], batch bool, handler func(context.Context) error) error {
	r := &Run{Queue: t.q.Name, Jobs: make([]RunJob, len(jobs)), batch: batch}
	for i, job := range jobs {
		for items[0].ID != job.ID {
			items = items[1:]
		}
		it := items[0]
		all := make([]RunPayload, 0, len(job.Payloads))
		for _, p := range it.Payloads {
			if n := len(all); n < len(job.Payloads) && job.Payloads[n].Position == uint64(p.Ref.Position()) {
				v := job.Payloads[n]
				all = append(all, RunPayload{v.Value, v.Score, v.Position, v.EnqueuedAt, v.Metadata, r, p.Ref})
			}
		}
		r.Jobs[i] = RunJob{job.ID, all, job.Attempt, t.q.core.LastTry(it), job.LastError, job.Due, job.Failures, job.Crashes}
	}
	return r.call(ctx, t.q.layers.run, handler)
}
