package executor

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/fold"
	"github.com/strandjobs/strand/executor/internal/lane"
	"github.com/strandjobs/strand/executor/internal/pause"
	"github.com/strandjobs/strand/executor/internal/shards"
	"github.com/strandjobs/strand/executor/internal/tally"
	"github.com/strandjobs/strand/executor/internal/verdict"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Handle registers a queue for events: its handler gets one payload per call, those of
// an id one after the other, in order, each with an outcome of its own. nil means done;
// [Cancel], [Discard], [Snooze], [Throttled], [RetryAfter] and [Fatal] say what they
// mean; any other error is a failure, which spends a retry. Later payloads of the id
// wait while one is retried or snoozed, and go on when it is done or dead-lettered.
//
// A dead letter that [inspect.Inspector.Requeue] puts back runs after what was done of its id
// meanwhile; Requeued.Late counts those. For state, use [HandleLatest].
//
// It returns ErrConfig, also for a name that has a queue, ErrState after Start for SharedLanes or in a cluster, ErrFull
// if the name is new and the disk is full, which can be tried again when jobs of other queues have ended, or an error
// of the journal.
func Handle[T any](x *Executor, name string, handler func(context.Context, Job[T]) error, cfg QueueConfig[T]) (*Queue[T], error) {
	t := &enrolment[T]{&Queue[T]{cfg: cfg}, x, name, onePayload}
	return t.enroll(handler == nil, func(ctx context.Context, items []*shard.Item) []error {
		return t.jobs.single(ctx, items, handler)
	}, func(part *Executor) error { _, err := Handle(part, name, handler, cfg); return err })
}

// single calls a handler that gets one payload, inside the middlewares.
func (t *jobs[T]) single(ctx context.Context, items []*shard.Item, handler func(context.Context, Job[T]) error) []error {
	q, it := t.q, items[0]
	var e journal.Entry
	payload, err := t.read(it, &e)
	if err != nil {
		return orNil(err)
	}
	job := Job[T]{ // here, because it is too large to be handed on at no cost
		Queue: q.Name, ID: it.ID, Payload: payload, Score: e.Score, Position: uint64(e.Position),
		Attempt: it.Retry + admin.FirstAttempt, LastTry: q.Core.LastTry(it), LastError: it.LastError, Due: time.Unix(0, it.Due),
		EnqueuedAt: time.Unix(0, e.AcceptedAt()), Metadata: admin.MetadataOf(&e), Failures: admin.FailuresOf(it.History, it.LastError),
		Crashes: q.x.quarantine.Deaths(q.Name, it, q.Core.Single),
		claim:   admit.ClaimOf(it.Claim), log: q.x.cfg.Logger, attempt: attemptOf(ctx),
	}
	if q.layers.run == nil {
		return orNil(handler(ctx, job))
	}
	return orNil(t.around(ctx, it, job, handler))
}

// HandleResult is [Handle] for a handler that returns a result beside its error. Callers that wait for the payload
// in [Caller.Do] get the result once the payload is done. A result without such a caller, or with an error, is
// dropped. In a cluster results travel as JSON. It returns the errors of Handle.
func HandleResult[T, R any](x *Executor, name string, handler func(context.Context, Job[T]) (R, error), cfg QueueConfig[T]) (*Caller[T, R], error) {
	t := &enrolment[T]{&Queue[T]{cfg: cfg}, x, name, onePayload}
	q, err := t.enroll(handler == nil, func(ctx context.Context, items []*shard.Item) []error {
		return t.jobs.single(ctx, items, func(ctx context.Context, job Job[T]) error {
			result, err := handler(ctx, job)
			if err == nil && t.q.Awaited.Any() {
				for _, p := range t.q.Core.InHand(items[0]) {
					t.q.Awaited.Returned(p.Ref.Position(), result)
				}
			}
			return err
		})
	}, func(part *Executor) error { _, err := HandleResult(part, name, handler, cfg); return err })
	if err != nil {
		return nil, err
	}
	return &Caller[T, R]{q}, nil
}

// HandleLatest registers a queue for state, such as mirrors, indexes and caches, where
// only the newest payload of an id counts. It is [Handle] with Merge [MergeSupersede];
// no other setting is needed.
//
// The newest payload is the one with the highest score, for example the version of a
// row. Among equal scores, or without scores, it is the one that was accepted last;
// give all payloads of an id a score, or none. A newer payload takes the place of one
// that waits, is snoozed, is retried or is halted, and is due when its own call says; the
// older one ends as merged, whatever its bytes. While one runs, the newest waits behind it, and runs next with
// all retries. An older payload never runs after a newer one that was done, whether it
// failed before, came back from the dead letters, or arrived late.
//
// An id has at most one dead letter, which is deleted when a newer payload is accepted. If
// it died of Config.Crash.Limit, the newer one is dead-lettered in its place, without a run:
// else a row that ends the process would do so with each change. Once what crashes is fixed,
// [inspect.Inspector.Requeue] runs the newest; after [inspect.Inspector.DeleteDead] the next
// change runs. Under OnExhaustedHalt the newer one is halted in its place instead.
// Block, Pull, FreshDue and Fold must have their defaults; Debounce and Throttle
// apply. See "The newest state" in the guide (README.md).
//
// It returns the errors of [Handle], and ErrConfig for another Merge, MergeKeepAll too.
func HandleLatest[T any](x *Executor, name string, handler func(context.Context, Job[T]) error, cfg QueueConfig[T]) (*Queue[T], error) {
	if cmp.Or(cfg.Merge, MergeSupersede) != MergeSupersede {
		return nil, fmt.Errorf("%w: Merge is %v for queue %q, and HandleLatest keeps the newest; leave it out, or use Handle", ErrConfig, cfg.Merge, name)
	}
	cfg.Merge = MergeSupersede
	return Handle(x, name, handler, cfg)
}

// HandleMerged registers a queue whose handler gets all payloads of an id that wait in one call, 1000 by
// default: see Gather.MaxPayloads. It is for what is cheaper together, or has to be seen together. A retry gets
// what has come meanwhile, too, unless Gather.Block is set. What the handler returns is the outcome of all of
// them, as with [Handle]; [PayloadErrors] tell them apart. For state, where only the newest counts, use
// [HandleLatest]: here a dead letter that is put back runs after what was done meanwhile. It returns the
// errors of Handle.
func HandleMerged[T any](x *Executor, name string, handler func(context.Context, Merged[T]) error, cfg QueueConfig[T]) (*Queue[T], error) {
	t := &enrolment[T]{&Queue[T]{cfg: cfg}, x, name, oneID}
	return t.enroll(handler == nil, func(ctx context.Context, items []*shard.Item) []error {
		job, err := t.jobs.decode(items[0])
		job.from.attempt = attemptOf(ctx)
		switch {
		case err != nil || len(job.Payloads) == 0:
		case t.q.layers.run == nil:
			err = handler(ctx, job)
		default:
			err = t.jobs.aroundMerged(ctx, items[0], job, handler)
		}
		return orNil(err)
	}, func(part *Executor) error { _, err := HandleMerged(part, name, handler, cfg); return err })
}

// orNil returns the errors of one item; nil: it is done.
func orNil(err error) []error {
	if err == nil {
		return nil
	}
	return []error{err}
}

// HandleBatch registers a queue whose handler gets up to BatchSize jobs in one call,
// each of another id; with Merge MergeSupersede, each with its newest payload alone. It
// is for work that is cheaper by the dozen.
//
// Without [BatchErrors], what the handler returns holds for all jobs of the batch if it
// is nil or one of [Cancel], [Discard], [Snooze] and the like. Any other error, a panic
// or Goexit does not say which job it is about. Then the batch is tried again in
// halves, at once, and so on, so that only the job that can't be done alone has failed.
// A batch of n jobs costs at most 4·⌈log2(n)⌉ further calls, which is enough to isolate
// two bad jobs. If the calls run out, all jobs in the remaining parts fail together. A
// batch whose context has ended fails as it is.
//
// A dead letter that is put back runs after what was done of its id meanwhile, as with
// [Handle]. It returns the errors of Handle.
func HandleBatch[T any](x *Executor, name string, handler func(context.Context, []Merged[T]) error, cfg QueueConfig[T]) (*Queue[T], error) {
	t := &enrolment[T]{&Queue[T]{cfg: cfg}, x, name, manyIDs}
	return t.enroll(handler == nil, func(ctx context.Context, items []*shard.Item) []error {
		b := batch[T]{jobs: &t.jobs, handler: handler}
		return b.run(ctx, items)
	}, func(part *Executor) error { _, err := HandleBatch(part, name, handler, cfg); return err })
}

// shape is what one call of a handler gets.
type shape uint8

const (
	onePayload shape = iota
	oneID
	manyIDs
)

// enrolment is a queue that is being registered.
type enrolment[T any] struct {
	*Queue[T]
	x     *Executor
	name  string
	shape shape
}

// enroll registers the queue, if its shape lets it. Each partition of a cluster repeats that.
func (t *enrolment[T]) enroll(
	noHandler bool, call func(context.Context, []*shard.Item) []error, repeat func(part *Executor) error,
) (*Queue[T], error) {
	x, name, s, most, batch := t.x, t.name, t.shape, t.cfg.Gather.MaxPayloads, t.cfg.BatchSize
	switch {
	case x == nil:
		return nil, fmt.Errorf("%w: queue %q has no executor; Open makes one", ErrConfig, name)
	case noHandler:
		return nil, fmt.Errorf("%w: the handler of queue %q is nil", ErrConfig, name)
	case s == onePayload && (most > 1 || most < 0):
		return nil, fmt.Errorf("%w: Gather.MaxPayloads is %d for queue %q, whose handler gets one payload; use HandleMerged", ErrConfig, most, name)
	case s != manyIDs && batch > 1:
		return nil, fmt.Errorf("%w: BatchSize is %d for queue %q, whose handler gets single jobs; use HandleBatch", ErrConfig, batch, name)
	}
	if err := t.register(call); err != nil {
		return nil, err
	}
	if x.cluster != nil {
		x.cluster.Each(repeat)
	}
	return t.Queue, nil
}

func (t *enrolment[T]) register(call func(context.Context, []*shard.Item) []error) error {
	x, name, single := t.x, t.name, t.shape == onePayload
	q := &queue{x: x}
	err := t.cfg.settings(x.cfg, &q.Queue)
	if err = cmp.Or(err, mayFold(&t.cfg, single)); err != nil {
		return fmt.Errorf("queue %q: %w", name, err)
	}
	t.q, t.jobs = q, jobs[T]{q, t.cfg.Codec}
	q.Front, q.durability, q.layers = q, t.cfg.Defaults.Durability, layersOf(x.cfg.Middleware, t.cfg.Middleware)
	q.Name, q.Shards, q.To, q.Wish = name, shards.New(x.seed, t.cfg.Share.Shards), &q.Queue.Queue.Queue, func(it *shard.Item, err error) verdict.Wish { return wishIn(q, it, err) }
	q.Lines = tally.Queue{Name: name, Logger: x.cfg.Logger, Context: x.crew.Handlers}
	q.Crew, q.Call, q.Door.Engine = &x.crew, call, x.calls
	q.Posts, q.Supersedes = q.durability == DurabilityAsync && !x.crew.Volatile, q.Core.Merge == shard.MergeSupersede
	if t.cfg.Gather.Fold != nil {
		q.Folder = newFolder(x, t.Queue)
		q.Core.Fold, q.Core.MaxPayloads = q.Folder.Add, 0
	}
	q.Core.Short = x.log.Short
	if q.Core.Single = single; single {
		q.Core.MaxPayloads = 0
	}
	if q.Admission, err = t.admission(); err != nil {
		return err
	}
	q.Apart = !single && q.Folder == nil && (q.Locks == nil || q.Locks.Unlock == nil)
	q.Pauses = pause.Queue{Name: name, Shards: q.Shards, Admission: q.Admission, Clock: q.Crew.Now, Tell: q.Events.Paused}
	if q.Admission.Asked() {
		q.Core.PutOff = func(id string) { q.Admission.Aside(admit.Owner{Queue: name, ID: id}, false) }
		if single {
			q.Core.MaxPayloads = 1 // keys, leases and slots are those of the payload that runs
		}
	}
	q.Decode = func(payload []byte) (any, error) { return decodeBy(t.cfg.Codec, payload) }
	if t.cfg.DeadLetters.RetriesExhausted != nil && t.cfg.DeadLetters.OnExhausted != OnExhaustedHalt {
		q.Exhausted = t.tellExhausted
	}
	return x.queues.Add(&q.Queue)
}

// admission has the conditions of a queue, in the order in which a job meets them: what others
// wait for while it waits comes late. A slot is on disk before what follows is asked for: a limit
// before it would be held while the disk writes.
func (t *enrolment[T]) admission() (*admit.List, error) {
	q, c := t.q, &t.cfg.Conditions
	a := &admit.List{
		Queue: q.Name, Logger: q.x.cfg.Logger, Ledger: q.x.ledger, Graph: &q.x.graph, Decode: t.jobs.payloads, Shards: q.Shards, Clock: q.Crew.Now,
	}
	if err := cmp.Or(addLanes(q, a), addLocks(q, &c.Locks, a), addUnique(q, c.Unique, a), addSlots(q, c.Slots, a), addLimits(q, c.Limits, a)); err != nil {
		return nil, fmt.Errorf("queue %q: %w", q.Name, err)
	}
	if a.Empty() {
		return nil, nil
	}
	return a, nil
}

// addLanes adds the turn in lanes that queues share, in which a payload takes its place in the
// instant in which it gets its position.
func addLanes(q *queue, a *admit.List) error {
	if q.SharedLanes == "" {
		return nil
	}
	if !q.Core.Single {
		return fmt.Errorf("%w: Conditions.SharedLanes is %q for a handler that gets several payloads at once, which would overtake those of other queues; use Handle",
			ErrConfig, q.SharedLanes)
	}
	q.Lanes = new(lane.Condition)
	a.Ask(q.Lanes)
	return nil
}

// mayFold refuses what makes no sense together with Fold.
func mayFold[T any](c *QueueConfig[T], single bool) error {
	var why string
	switch {
	case c.Gather.Fold == nil:
		return nil
	case single:
		why = "its handler gets one payload per call, each for itself; use HandleMerged or HandleBatch"
	case c.Merge != MergeKeepAll:
		why = fmt.Sprintf("Merge is %v, which leaves some out of what is folded; leave it at MergeKeepAll", c.Merge)
	case c.Gather.MaxPayloads > 0:
		why = fmt.Sprintf("Gather.MaxPayloads is %d, and all payloads become one; leave it out", c.Gather.MaxPayloads)
	case c.Conditions.Locks.OnEnqueue != nil || c.Conditions.Locks.OnRun != nil || c.Conditions.Locks.Unlock != nil:
		why = "Conditions.Locks has OnEnqueue, OnRun or Unlock: the keys of what became a part of another payload would be forgotten; use BlockedBy, Unique or Limits"
	default:
		return nil
	}
	return fmt.Errorf("%w: Gather.Fold: %s", ErrConfig, why)
}

// newFolder returns what folds the payloads of the queue.
func newFolder[T any](x *Executor, t *Queue[T]) *fold.Folder {
	return fold.New(fold.Config{
		Log: x.log, Closing: x.crew.Starting.Done(), Go: x.life.Folding.Go, MaxBytes: x.cfg.Advanced.MaxPayloadBytes, TooLarge: ErrTooLarge,
		Failed: func(id string, err error, why string) {
			if panicked, _ := err.(*PanicError); panicked != nil {
				t.q.Lines.Panicked(id, why, panicked.Stack)
				return
			}
			x.cfg.Logger.Debug("payloads were not folded", slog.String("queue", t.q.Name), slog.String("id", id), slog.String("error", why))
		},
		Skip:    func(it *shard.Item, err error) bool { return !(&undecodable{err}).mayPass(t.q, it) },
		Refused: func(err error) string { return (&undecodable{err}).Error() },
	}, fold.Program[T]{
		Decode: func(data []byte) (T, error) { return decodeBy(t.cfg.Codec, data) }, Fold: t.cfg.Gather.Fold,
		Encode: func(payload T) ([]byte, error) { return encodeBy(t.cfg.Codec, payload) },
	})
}

// tellExhausted calls RetriesExhausted with what the shard will bury of items that failed for the last time.
func (t *enrolment[T]) tellExhausted(ctx context.Context, items []*shard.Item) {
	now, oldest := t.q.x.clock().UnixNano(), t.cfg.DeadLetters.OnExhausted == OnExhaustedBuryOldest
	var jobs []Merged[T]
	for _, it := range items {
		last, history, parts := it.LastError, it.History, it.Outcome.Parts
		it.LastError, it.History, it.Outcome.Parts = it.Outcome.Error, it.Failed(now, it.Outcome.Error), parts[:len(parts):len(parts)] // of this very run
		job, err := t.jobs.decode(it)
		refused := len(it.Outcome.Parts) > len(parts)                     // now, and was read when it ran
		it.LastError, it.History, it.Outcome.Parts = last, history, parts // the shard is to find what it handed out
		if err != nil || len(job.Payloads) == 0 || refused && oldest {
			continue // or the journal has failed, and they fail again
		}
		if oldest {
			job.Payloads = job.Payloads[:1:1]
		}
		jobs = append(jobs, job)
	}
	if len(jobs) > 0 {
		t.cfg.DeadLetters.RetriesExhausted(ctx, jobs)
	}
}
