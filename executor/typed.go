package executor

import (
	"context"
	"fmt"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Queue is a registered queue. Its methods may be called from any goroutine.
type Queue[T any] struct {
	q   *queue
	cfg QueueConfig[T]
}

// Handle registers a queue whose handler gets one payload per call: the events of
// an id one after the other, in order, each with an outcome of its own. What the
// handler returns decides about that payload: nil is done, [Cancel], [Discard],
// [Snooze] and [RetryAfter] are wishes, any other error is a failure. Those behind
// it wait as long as it is retried or snoozed, and go on once it is done or buried.
//
// One that is put back from the morgue by [Queue.Requeue] comes after what was done of its
// id meanwhile: Requeued.Late counts those. For state, use [HandleLatest].
//
// It returns ErrConfig, ErrDuplicateQueue, ErrState for SharedLanes after Start, or an
// error of the journal.
func Handle[T any](x *Executor, name string, handler func(context.Context, Job[T]) error, cfg QueueConfig[T]) (*Queue[T], error) {
	if err := notNil(x, handler == nil, name); err != nil {
		return nil, err
	}
	t := &Queue[T]{cfg: cfg}
	return orNone(t, t.handle(x, name, func(ctx context.Context, items []*shard.Item) []error {
		return t.callSingle(ctx, items, handler)
	}))
}

// handle registers a queue whose handler gets one payload per call.
func (t *Queue[T]) handle(x *Executor, name string, call func(context.Context, []*shard.Item) []error) error {
	if most := t.cfg.MaxPayloads; most > 1 || most < 0 {
		return fmt.Errorf("%w: MaxPayloads is %d for queue %q, whose handler gets one payload; use HandleMerged", ErrConfig, most, name)
	}
	if err := notBatched(t.cfg.BatchSize, name); err != nil {
		return err
	}
	return t.register(x, name, true, call)
}

// callSingle calls a handler that gets one payload, inside the middlewares.
func (t *Queue[T]) callSingle(ctx context.Context, items []*shard.Item, handler func(context.Context, Job[T]) error) []error {
	job, err := t.single(items[0])
	job.attempt = attemptOf(ctx)
	switch {
	case err != nil:
	case t.q.layers.run == nil:
		err = handler(ctx, job)
	default:
		err = t.around(ctx, items[0], job, handler)
	}
	return orNil(err)
}

// orNone returns the queue, unless it could not be registered.
func orNone[T any](t *Queue[T], err error) (*Queue[T], error) {
	if err != nil {
		return nil, err
	}
	return t, nil
}

// HandleMerged registers a queue whose handler gets all payloads of an id that wait
// in one call: for what is cheaper together, or has to be seen together. What it returns
// decides about all of them, as with [Handle]; [PayloadErrors] tell them apart. For state,
// of which the newest counts, use [HandleLatest]: here a dead letter that is put back comes
// after what was done meanwhile, as with Handle. It returns the same errors.
func HandleMerged[T any](x *Executor, name string, handler func(context.Context, Merged[T]) error, cfg QueueConfig[T]) (*Queue[T], error) {
	if err := notNil(x, handler == nil, name); err != nil {
		return nil, err
	}
	t := &Queue[T]{cfg: cfg}
	return orNone(t, t.handleMerged(x, name, func(ctx context.Context, items []*shard.Item) []error {
		return t.callMerged(ctx, items, handler)
	}))
}

// handleMerged registers a queue whose handler gets all payloads of an id.
func (t *Queue[T]) handleMerged(x *Executor, name string, call func(context.Context, []*shard.Item) []error) error {
	if err := notBatched(t.cfg.BatchSize, name); err != nil {
		return err
	}
	return t.register(x, name, false, call)
}

// callMerged calls a handler that gets all payloads of an id, inside the middlewares.
func (t *Queue[T]) callMerged(ctx context.Context, items []*shard.Item, handler func(context.Context, Merged[T]) error) []error {
	job, err := t.decode(items[0])
	job.from.attempt = attemptOf(ctx)
	switch {
	case err != nil || len(job.Payloads) == 0:
	case t.q.layers.run == nil:
		err = handler(ctx, job)
	default:
		err = t.aroundMerged(ctx, items, job, handler)
	}
	return orNil(err)
}

// orNil returns the errors of one item; nil: it is done.
func orNil(err error) []error {
	if err == nil {
		return nil
	}
	return []error{err}
}

func notBatched(size int, name string) error {
	if size > 1 {
		return fmt.Errorf("%w: BatchSize is %d for queue %q, whose handler gets single jobs; use HandleBatch", ErrConfig, size, name)
	}
	return nil
}

// HandleBatch registers a queue whose handler gets up to BatchSize jobs in one
// call, each of another id; with Merge [MergeSupersede] each with its newest payload alone.
// [BatchErrors] tell them apart. What is put back from the morgue comes late, as with
// [Handle]. A wish that it returns
// holds for all of them. Another error, a panic or Goexit does not say which job it is
// about: then the batch is tried again in halves, at once, and so on, so that only
// the job that can't be done alone has failed. A batch of n costs at most
// 4·⌈log2(n)⌉ further calls. That is enough to isolate two bad jobs. If there are
// more and the calls run out, all jobs in the remaining parts fail together. A
// batch whose context has ended fails as it is.
func HandleBatch[T any](x *Executor, name string, handler func(context.Context, []Merged[T]) error, cfg QueueConfig[T]) (*Queue[T], error) {
	if err := notNil(x, handler == nil, name); err != nil {
		return nil, err
	}
	t := &Queue[T]{cfg: cfg}
	return orNone(t, t.register(x, name, false, func(ctx context.Context, items []*shard.Item) []error {
		b := batch[T]{queue: t, ctx: ctx, handler: handler, halvings: halvings(len(items)), attempt: attemptOf(ctx)}
		return b.run(items)
	}))
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

func (t *Queue[T]) register(x *Executor, name string, single bool, call func(context.Context, []*shard.Item) []error) error {
	s, err := t.cfg.settings(x.cfg)
	if err != nil {
		return fmt.Errorf("queue %q: %w", name, err)
	}
	locking, err := t.locking(x, name)
	if err != nil {
		return fmt.Errorf("queue %q: %w", name, err)
	}
	if err := s.mayShareLanes(single, &locking); err != nil {
		return fmt.Errorf("queue %q: %w", name, err)
	}
	if err := t.mayFold(single); err != nil {
		return fmt.Errorf("queue %q: %w", name, err)
	}
	var d *folder
	if t.cfg.Fold != nil {
		d = &folder{item: t.foldItem, fold: t.fold}
		s.core.Fold, s.core.MaxPayloads = d.add, 0
	}
	s.core.Short = x.log.Short
	if s.core.Single = single; single {
		s.core.MaxPayloads = 0
		if locking.wants != nil {
			s.core.MaxPayloads = 1 // keys, leases and slots are those of the payload that runs
		}
	}
	t.q = &queue{settings: s, name: name, call: call, locking: locking, layers: layersOf(x.cfg.Middleware, t.cfg.Middleware), folder: d}
	if d != nil {
		d.q = t.q
	}
	t.q.decode = func(payload []byte) (any, error) { return t.decodeOne(payload) }
	if t.cfg.RetriesExhausted != nil && t.cfg.OnExhausted != OnExhaustedHalt {
		t.q.exhausted = t.tellExhausted
	}
	return x.register(t.q)
}

// tellExhausted calls RetriesExhausted with what the shard will bury of items that
// failed for the last time.
func (t *Queue[T]) tellExhausted(ctx context.Context, items []*shard.Item) {
	now := time.Now().UnixNano()
	for _, it := range items {
		defer func(last string, history journal.History) { // the shard is to find what it handed out
			it.LastError, it.History = last, history
		}(it.LastError, it.History)
		it.History = it.Failed(now, it.Outcome.Error)
		it.LastError = it.Outcome.Error // of this very run
	}
	jobs, err := t.decodeAll(items)
	if err != nil {
		return // the journal has failed, and they fail again
	}
	if t.cfg.OnExhausted == OnExhaustedBuryOldest {
		for i := range jobs {
			jobs[i].Payloads = jobs[i].Payloads[:1:1]
		}
	}
	t.cfg.RetriesExhausted(ctx, jobs)
}

// Name returns the name of the queue, empty if it was not made by Handle,
// HandleMerged or HandleBatch.
func (t *Queue[T]) Name() string {
	if t == nil || t.q == nil {
		return ""
	}
	return t.q.name
}

// Executor returns the executor that the queue was registered with, nil if it was
// not made by Handle, HandleMerged or HandleBatch.
func (t *Queue[T]) Executor() *Executor {
	if t == nil || t.q == nil {
		return nil
	}
	return t.q.x
}
