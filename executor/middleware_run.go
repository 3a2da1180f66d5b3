package executor

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/work"
)

// Run is one call of a handler as a [Middleware] sees it. It is for looking at: the
// handler gets what it would have got, whatever is changed here, except for
// Metadata, which are the handler's own.
type Run struct {
	Queue string
	Jobs  []Merged[any] // one; with [HandleBatch] those of the batch, or of the part of it that this call is about

	batch bool
}

// Outcomes yields each job of the run with its part of the error that next returned:
// that of its own among [BatchErrors], and else err itself. A batch that fails
// without naming a job runs again in halves, each of which is a run of its own.
func (r *Run) Outcomes(err error) iter.Seq2[Merged[any], error] {
	return func(yield func(Merged[any], error) bool) {
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
	OutcomeDone      Outcome = "done"      // it returned nil
	OutcomeFailed    Outcome = "failed"    // it returned [RetryAfter], or an error of no other kind
	OutcomePanicked  Outcome = "panicked"  // it panicked, which is a failure, too
	OutcomeSnoozed   Outcome = "snoozed"   // it returned [Snooze], or [Throttled]
	OutcomeDiscarded Outcome = "discarded" // it returned [Discard]
	OutcomeCancelled Outcome = "cancelled" // it returned [Cancel]
	OutcomeMixed     Outcome = "mixed"     // [PayloadErrors], or [BatchErrors], which [Run.Outcomes] takes apart
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
		_, batch := errors.AsType[BatchErrors](err)
		switch wish := wishOf(err); {
		case panicked:
			o = OutcomePanicked
		case batch || wish.Payloads != nil:
			o = OutcomeMixed
		case wish.Kind == work.Discard:
			o = OutcomeDiscarded
		case wish.Kind == work.Snooze:
			o = OutcomeSnoozed
		case wish.Kind == work.Cancel:
			o = OutcomeCancelled
		}
		return nil
	})
	return o
}

// call calls the handler with what stands around it.
func (r *Run) call(ctx context.Context, around []aroundRun, handler func(context.Context) error) error {
	return nested(ctx, around, func(ctx context.Context, f aroundRun, next func(context.Context) error) error { return f(ctx, r, next) }, handler)
}

// around calls a handler of [Handle] with what stands around it.
func (t *Queue[T]) around(ctx context.Context, job Job[T], handler func(context.Context, Job[T]) error) error {
	one := &struct { // in one allocation
		Run
		job     [1]Merged[any]
		payload [1]Payload[any]
		calls   int // of the handler
	}{}
	one.payload[0] = Payload[any]{job.Payload, job.Score, job.Position, job.EnqueuedAt, job.Metadata}
	one.job[0] = Merged[any]{Queue: job.Queue, ID: job.ID, Payloads: one.payload[:], Attempt: job.Attempt, LastTry: job.LastTry,
		LastError: job.LastError, Due: job.Due, Failures: job.Failures, Crashes: job.Crashes, claim: job.claim, log: job.log}
	one.Queue, one.Jobs = job.Queue, one.job[:]
	return one.call(ctx, t.q.layers.run, func(ctx context.Context) error {
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
func (t *Queue[T]) aroundMerged(ctx context.Context, job Merged[T], handler func(context.Context, Merged[T]) error) error {
	calls := 0
	return t.aroundAll(ctx, []Merged[T]{job}, false, func(ctx context.Context) error {
		if calls > 0 {
			job.from.call = calls
			job.from.attempt.Again(calls)
		}
		calls++
		return handler(ctx, job)
	})
}

// aroundAll calls a handler with what stands around it.
func (t *Queue[T]) aroundAll(ctx context.Context, jobs []Merged[T], batch bool, handler func(context.Context) error) error {
	r := &Run{Queue: t.q.Name, Jobs: make([]Merged[any], len(jobs)), batch: batch}
	for i, j := range jobs {
		all := make([]Payload[any], len(j.Payloads))
		for k, p := range j.Payloads {
			all[k] = Payload[any]{p.Value, p.Score, p.Position, p.EnqueuedAt, p.Metadata}
		}
		r.Jobs[i] = Merged[any]{j.Queue, j.ID, all, j.Attempt, j.LastTry, j.LastError, j.Due, j.Failures, j.Crashes, j.claim, j.log, origin{}}
	}
	return r.call(ctx, t.q.layers.run, handler)
}
