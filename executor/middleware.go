package executor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/await"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/nest"
	"github.com/strandjobs/strand/executor/internal/submit"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Middleware is called around handlers, around the calls that enqueue, or around both:
// for metrics, traces, an error tracker, a check. It must have at least one of the
// functions; otherwise it is ErrConfig.
//
// Config.Middleware is for all queues, QueueConfig.Middleware for one. In a list the
// first is outermost, and those of Config are around those of the queue:
//
//	Config.Middleware[0] ( Config.Middleware[1] ( QueueConfig.Middleware[0] ( handler ) ) )
//
// Several goroutines call the functions at a time. A Run counts as part of its handler:
// the queue's Timeout covers it, and one that blocks is stuck. A payload that does not
// decode is not run, so that no middleware sees it; [Executor.Events] tells of it. See
// "Middleware" in the guide (README.md).
type Middleware struct {
	// Run is called by the worker instead of the handler. Its next calls the handler,
	// or the next middleware, with the context that Run gives it: the one that it got,
	// or one made of it. Run's error replaces the handler's. If Run does not call next,
	// the handler does not run.
	//
	// Run may call next again: that is a retry on the spot, which spends none, and for
	// which the jobs are decoded anew. Calls of next must not overlap, nor come after Run
	// has returned; such a call gets ErrMiddleware. Of several calls, only what the last
	// one has staged with [Queue.FollowUp] counts, and only if Run returns nil.
	//
	// next does not panic: if the handler panics, next returns a [*PanicError] with the
	// stack. A panic of Run itself is a failure of all jobs of the run, even if the
	// handler has succeeded: then they run again.
	Run func(ctx context.Context, run *Run, next func(context.Context) error) error

	// Enqueue is called on the goroutine of the caller, after the payloads are encoded
	// and before they are accepted. Its next accepts them. When next returns nil, they
	// are accepted, and call.Receipts is set. Before that, Enqueue may change Metadata,
	// Due and Score of call.Items.
	//
	// The error of Enqueue is what the caller gets, as long as nothing is accepted.
	// Once the payloads are accepted, the caller gets its receipts, and an error or a
	// panic of Enqueue is logged. If Enqueue panics before, or returns nil without
	// accepted payloads, the caller gets ErrMiddleware and nothing is accepted. If next
	// returned ErrUnknown, the caller gets that. Enqueue may call next again after an
	// error; the payloads are accepted once.
	//
	// Enqueue is not called for a [Queue.FollowUp], which is accepted when its job ends
	// and inherits the job's Metadata.
	Enqueue func(ctx context.Context, call *EnqueueCall, next func(context.Context) error) error
}

// ErrMiddleware is returned by Enqueue when a [Middleware] panicked before the
// payloads were accepted, or returned nil and they were not; and by the next of a
// Middleware that is called while an earlier call goes on, or after the Middleware
// has returned.
var ErrMiddleware = nest.ErrMisused

// layers are what stands around the calls of a queue, outermost first; nil: nothing.
type layers struct {
	run     []nest.Around[*Run]
	enqueue []nest.Around[*EnqueueCall]
}

func layersOf(lists ...[]Middleware) (l layers) {
	for _, m := range slices.Concat(lists...) {
		if m.Run != nil {
			l.run = append(l.run, m.Run)
		}
		if m.Enqueue != nil {
			l.enqueue = append(l.enqueue, m.Enqueue)
		}
	}
	return l
}

func checkMiddleware(list []Middleware) error {
	i := slices.IndexFunc(list, func(m Middleware) bool { return m.Run == nil && m.Enqueue == nil })
	if i < 0 {
		return nil
	}
	return fmt.Errorf("%w: Middleware %d has neither Run nor Enqueue", ErrConfig, i)
}

// EnqueueCall is a call that enqueues as a [Middleware] sees it: Enqueue or EnqueueMany. Options and
// QueueConfig.Defaults are already applied to the items. Each item has its own copy of Metadata and of the encoded
// Payload. ID and Payload are read-only: another ID is ErrMiddleware, another Payload has no effect. Due and Score that
// were left open are the time of the call before next, and after it what the payload was accepted with: see [Score].
type EnqueueCall struct {
	Queue    string
	Items    []Item[[]byte]
	Receipts []Receipt // of the items, when they are accepted; nil before that
}

// accept enqueues entries that have been filled in. A caller may wait for the end of
// the first of them.
func (q *queue) accept(ctx context.Context, entries []journal.Entry, options []Option, w *await.Waiter) (submit.Submission, error) {
	if q.layers.enqueue == nil || submit.Staged(options) {
		return q.submit(ctx, entries, options, w)
	}
	if err := q.x.admits(ctx); err != nil {
		return submit.Submission{}, err
	}
	a := wrapped{q: q, entries: entries, options: options, waiter: w, call: &EnqueueCall{Queue: q.Name, Items: make([]Item[[]byte], len(entries))}}
	for i := range entries {
		e := &entries[i]
		a.call.Items[i] = Item[[]byte]{string(e.ID), bytes.Clone(e.Payload), new(e.Score), time.Unix(0, e.Due), map[string]string{}}
		maps.Insert(a.call.Items[i].Metadata, e.Metadata.All())
	}
	return a.conclude(nest.Call(ctx, q.layers.enqueue, a.call, a.submit))
}

// submit enqueues entries that have been filled in, inside all middlewares.
func (q *queue) submit(ctx context.Context, entries []journal.Entry, options []Option, w *await.Waiter) (o submit.Submission, err error) {
	c, err := submit.ConditionsOf(q.Name, entries, options)
	if err = cmp.Or(err, q.x.admits(ctx)); err != nil {
		return o, err
	}
	o, err = q.Submit(ctx, entries, c, w)
	return o, border(err)
}

// wrapped is a call that enqueues inside its middlewares.
type wrapped struct {
	q       *queue
	entries []journal.Entry
	options []Option
	waiter  *await.Waiter
	call    *EnqueueCall

	tried bool
	o     submit.Submission // of the last try
	err   error             // what came of it
}

// submit is what the innermost next does. What is accepted, or may be, is not submitted again.
func (a *wrapped) submit(ctx context.Context) error {
	if a.tried && (a.err == nil || guard.Is(a.err, ErrUnknown)) {
		return a.err
	}
	if err := a.takeOver(); err != nil {
		return err
	}
	a.tried, a.err = true, ErrUnknown // until it returns: user code in it may end the goroutine
	a.o, a.err = a.q.submit(ctx, a.entries, a.options, a.waiter)
	for i := range a.entries { // what middlewares leave of times and scores as it is, they have not asked for
		it, e := &a.call.Items[i], &a.entries[i]
		if it.Score = new(e.Score); it.Due.UnixNano() != e.Due {
			it.Due = time.Unix(0, e.Due)
		}
	}
	if a.err == nil {
		a.call.Receipts = receipts(a.q, &a.o)
	}
	return a.err
}

// takeOver writes what middlewares have changed into the entries.
func (a *wrapped) takeOver() error {
	if n := len(a.call.Items); n != len(a.entries) {
		return fmt.Errorf("%w: it made %d items of %d", ErrMiddleware, n, len(a.entries))
	}
	for i := range a.entries {
		it, e := &a.call.Items[i], &a.entries[i]
		if it.ID != string(e.ID) {
			return fmt.Errorf("%w: it changed the id %q to %q", ErrMiddleware, e.ID, brief.Text(it.ID))
		}
		if err := (*submit.Item)(it).Change(e); err != nil {
			return err
		}
	}
	return nil
}

// conclude holds what the middlewares returned against what has happened: a caller
// that gets an error may repeat the call, and one that gets none relies on it.
func (a *wrapped) conclude(err error) (submit.Submission, error) {
	if panicked, ok := err.(*PanicError); ok {
		err = fmt.Errorf("%w: %w", ErrMiddleware, panicked)
	}
	switch {
	case a.tried && a.err == nil:
		if err != nil {
			a.q.Lines.Stray(guard.Text(err.Error))
		}
		return a.o, nil
	case a.tried && guard.Is(a.err, ErrUnknown):
		if err != nil && guard.Text(err.Error) != guard.Text(a.err.Error) {
			return a.o, fmt.Errorf("%w; a middleware made of it: %s", a.err, guard.Text(err.Error))
		}
		return a.o, a.err
	case err != nil:
		return a.o, err
	case a.tried:
		return a.o, fmt.Errorf("%w: it returned nil, but nothing was accepted: %w", ErrMiddleware, a.err)
	}
	return a.o, fmt.Errorf("%w: it returned nil, but nothing was accepted: it did not call next", ErrMiddleware)
}

// Run is one call of a handler as a [Middleware] sees it. It is read-only: whatever is
// changed here, the handler gets what it would have got. Only the maps of Metadata are
// the handler's own, in its first call.
type Run struct {
	Queue string
	Jobs  []Merged[any] // one; with [HandleBatch] those of the batch, or of the part of it that this call is about

	batch bool
}

// Outcomes yields each job of the run with its part of the error that next returned:
// its own error among [BatchErrors], or else err itself. A batch that fails without
// naming a job runs again in halves, each of which is a run of its own.
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

// byID hands the error of a batch to its n ids. An error for an id that is not in the batch
// must have been meant for one that is: it counts for all that have none of their own.
func byID(n int, id func(int) string, err error) []error {
	var own BatchErrors
	each := false
	_ = guard.Call(func() error { own, each = errors.AsType[BatchErrors](err); return nil })
	errs := make([]error, n)
	var unnamed []int
	for i := range errs {
		var named bool
		if errs[i], named = own[id(i)]; !named {
			unnamed = append(unnamed, i)
		}
	}
	if !each || len(own) > n-len(unnamed) {
		for _, i := range unnamed {
			errs[i] = err
		}
	}
	return errs
}

// around calls a handler of [Handle] with what stands around it. What a call has made of its job is
// that call's: the next one gets another.
func (t *jobs[T]) around(ctx context.Context, it *shard.Item, job Job[T], handler func(context.Context, Job[T]) error) error {
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
	return nest.Call(ctx, t.q.layers.run, &one.Run, func(ctx context.Context) (err error) {
		one.calls++
		if one.calls == 1 {
			return handler(ctx, job)
		}
		again := job
		again.call = one.calls - 1
		again.attempt.Again(again.call)
		var e journal.Entry
		if again.Payload, err = t.read(it, &e); err != nil {
			return err
		}
		again.Metadata, again.Failures = admin.MetadataOf(&e), admin.FailuresOf(it.History, it.LastError)
		return handler(ctx, again)
	})
}

// aroundMerged is around for a handler of [HandleMerged]. Inlined, it would have the job
// of each call escape, with nothing around it, too.
//
//go:noinline
func (t *jobs[T]) aroundMerged(ctx context.Context, it *shard.Item, job Merged[T], handler func(context.Context, Merged[T]) error) error {
	attempt, calls := job.from.attempt, 0
	return t.aroundAll(ctx, []Merged[T]{job}, false, func(ctx context.Context) (err error) {
		if calls > 0 {
			attempt.Again(calls)
			if job, err = t.decode(it); err != nil || len(job.Payloads) == 0 {
				return err
			}
			job.from.attempt, job.from.call = attempt, calls
		}
		calls++
		return handler(ctx, job)
	})
}

// aroundAll calls a handler with what stands around it.
func (t *jobs[T]) aroundAll(ctx context.Context, jobs []Merged[T], batch bool, handler func(context.Context) error) error {
	r := &Run{Queue: t.q.Name, Jobs: make([]Merged[any], len(jobs)), batch: batch}
	for i, j := range jobs {
		all := make([]Payload[any], len(j.Payloads))
		for k, p := range j.Payloads {
			all[k] = Payload[any]{p.Value, p.Score, p.Position, p.EnqueuedAt, p.Metadata}
		}
		r.Jobs[i] = Merged[any]{j.Queue, j.ID, all, j.Attempt, j.LastTry, j.LastError, j.Due, j.Failures, j.Crashes, j.claim, j.log, origin{}}
	}
	return nest.Call(ctx, t.q.layers.run, r, handler)
}
