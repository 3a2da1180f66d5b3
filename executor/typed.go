package executor

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/fleet"
	"github.com/strandjobs/strand/executor/internal/lane"
	"github.com/strandjobs/strand/executor/internal/pause"
	"github.com/strandjobs/strand/executor/internal/shards"
	"github.com/strandjobs/strand/executor/internal/tally"
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
// It returns ErrConfig, also for a name that has a queue, ErrState after Start for SharedLanes or in a cluster, ErrFull for
// a new name on a full disk, which the other queues make room on, or an error of the journal.
func Handle[T any](x *Executor, name string, handler func(context.Context, Job[T]) error, cfg QueueConfig[T]) (*Queue[T], error) {
	t := &Queue[T]{cfg: cfg}
	return t.enroll(x, name, handler == nil, onePayload, func(ctx context.Context, items []*shard.Item) []error {
		return t.callSingle(ctx, items, handler)
	}, func(part *Executor) error { _, err := Handle(part, name, handler, cfg); return err })
}

// callSingle calls a handler that gets one payload, inside the middlewares.
func (t *Queue[T]) callSingle(ctx context.Context, items []*shard.Item, handler func(context.Context, Job[T]) error) []error {
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

// HandleLatest registers a queue for state, such as mirrors, indexes and caches, where
// only the newest payload of an id counts. It is [Handle] with Merge [MergeSupersede];
// no other setting is needed.
//
// The newest payload is the one with the highest score, for example the version of a
// row. Among equal scores, or without scores, it is the one that was accepted last;
// give all payloads of an id a score, or none. A newer payload takes the place of one
// that waits, is snoozed, is retried or is halted; the older one ends as merged,
// whatever its bytes. While one runs, the newest waits behind it, and runs next with
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

// HandleMerged registers a queue whose handler gets all payloads of an id that wait in
// one call: for what is cheaper together, or has to be seen together. What the handler
// returns is the outcome of all of them, as with [Handle]; [PayloadErrors] tell them
// apart. For state, where only the newest counts, use [HandleLatest]: here a dead
// letter that is put back runs after what was done meanwhile. It returns the errors of
// Handle.
func HandleMerged[T any](x *Executor, name string, handler func(context.Context, Merged[T]) error, cfg QueueConfig[T]) (*Queue[T], error) {
	t := &Queue[T]{cfg: cfg}
	return t.enroll(x, name, handler == nil, oneID, func(ctx context.Context, items []*shard.Item) []error {
		job, err := t.decode(items[0])
		job.from.attempt = attemptOf(ctx)
		switch {
		case err != nil || len(job.Payloads) == 0:
		case t.q.layers.run == nil:
			err = handler(ctx, job)
		default:
			err = t.aroundMerged(ctx, items[0], job, handler)
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
	t := &Queue[T]{cfg: cfg}
	return t.enroll(x, name, handler == nil, manyIDs, func(ctx context.Context, items []*shard.Item) []error {
		b := batch[T]{queue: t, handler: handler}
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

// enroll registers a queue, if its shape lets it. Each partition of a cluster repeats that.
func (t *Queue[T]) enroll(
	x *Executor, name string, noHandler bool, s shape, call func(context.Context, []*shard.Item) []error, repeat func(part *Executor) error,
) (*Queue[T], error) {
	most, batch := t.cfg.Gather.MaxPayloads, t.cfg.BatchSize
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
	if err := t.register(x, name, s == onePayload, call); err != nil {
		return nil, err
	}
	if x.cluster != nil {
		x.cluster.Each(repeat)
	}
	return t, nil
}

func (t *Queue[T]) register(x *Executor, name string, single bool, call func(context.Context, []*shard.Item) []error) error {
	q := &queue{x: x}
	err := t.cfg.settings(x.cfg, &q.Queue)
	if err = cmp.Or(err, t.mayFold(single)); err != nil {
		return fmt.Errorf("queue %q: %w", name, err)
	}
	t.q, q.Front, q.durability, q.layers = q, q, t.cfg.Defaults.Durability, layersOf(x.cfg.Middleware, t.cfg.Middleware)
	q.Name, q.Shards, q.To, q.Wish = name, shards.New(x.seed, t.cfg.Share.Shards), &q.Queue.Queue.Queue, q.wish
	q.Lines = tally.Queue{Name: name, Logger: x.cfg.Logger, Context: x.crew.Handlers}
	q.Crew, q.Call, q.Door.Engine = &x.crew, call, x.calls
	q.Posts, q.Supersedes = q.durability == DurabilityAsync && !x.crew.Volatile, q.Core.Merge == shard.MergeSupersede
	if t.cfg.Gather.Fold != nil {
		q.Folder = t.newFolder(x)
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
	q.Decode = func(payload []byte) (any, error) { return t.decodeOne(payload) }
	if t.cfg.DeadLetters.RetriesExhausted != nil && t.cfg.DeadLetters.OnExhausted != OnExhaustedHalt {
		q.Exhausted = t.tellExhausted
	}
	return x.queues.Add(&q.Queue)
}

// admission has the conditions of a queue, in the order in which a job meets them: what others
// wait for while it waits comes late. A slot is on disk before what follows is asked for: a limit
// before it would be held while the disk writes.
func (t *Queue[T]) admission() (*admit.List, error) {
	q, c := t.q, &t.cfg.Conditions
	a := &admit.List{
		Queue: q.Name, Logger: q.x.cfg.Logger, Ledger: q.x.ledger, Graph: &q.x.graph, Decode: t.payloads, Shards: q.Shards, Clock: q.Crew.Now,
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
// instant in which it gets its position. joinLanes says which lanes.
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

// tellExhausted calls RetriesExhausted with what the shard will bury of items that
// failed for the last time.
func (t *Queue[T]) tellExhausted(ctx context.Context, items []*shard.Item) {
	now := t.q.x.clock().UnixNano()
	for _, it := range items {
		defer func(last string, history journal.History) { // the shard is to find what it handed out
			it.LastError, it.History = last, history
		}(it.LastError, it.History)
		it.History = it.Failed(now, it.Outcome.Error)
		it.LastError = it.Outcome.Error // of this very run
	}
	jobs, _, err := t.decodeAll(items) // none waits: it was its last try
	if err != nil {
		return // the journal has failed, and they fail again
	}
	if t.cfg.DeadLetters.OnExhausted == OnExhaustedBuryOldest {
		for i := range jobs {
			jobs[i].Payloads = jobs[i].Payloads[:1:1]
		}
	}
	t.cfg.DeadLetters.RetriesExhausted(ctx, jobs)
}

// Dead is a dead letter: a payload that used up its retries, that its codec refused, or that its handler or a
// person canceled. One that died under a version from before metadata has no Failures
// although Error is set. If such a version accepted it with [At] or [In], EnqueuedAt is
// its due time, as in [Job].
type Dead[T any] struct {
	inspect.DeadPayload // Decode says why Payload is not set; Value is nil
	Payload             T
}

// Morgue lists the dead letters of the queue, in the order in which they were accepted.
// The loop may take its time, and may put back what it was given. A read error is
// yielded once and ends the list.
func (t *Queue[T]) Morgue() iter.Seq2[Dead[T], error] {
	return func(yield func(Dead[T], error) bool) {
		if t == nil || t.q == nil {
			yield(Dead[T]{}, errNoQueue)
			return
		}
		letters := func(yield func(inspect.DeadPayload, error) bool) { t.q.letters(0, yield) }
		if c := t.q.x.cluster; c != nil {
			letters = func(yield func(inspect.DeadPayload, error) bool) { c.Letters(t.q.Name, yield) }
		}
		for letter, err := range letters {
			if err != nil {
				yield(Dead[T]{}, err)
				return
			}
			d := Dead[T]{DeadPayload: letter}
			if d.Payload, d.Decode = t.decodeOne(d.Raw); !yield(d, nil) {
				return
			}
		}
	}
}

// letters yields the dead letters of the journal, from a position on.
func (q *queue) letters(from journal.Position, yield func(inspect.DeadPayload, error) bool) {
	for b, err := range q.x.log.Morgue(q.Number, from) {
		if !yield(admin.DeadOf(q.Name, &b), border(err)) {
			return
		}
	}
}

// Pending reports whether an id has anything to do: it waits, runs, is to be
// retried, or is halted. It returns ErrClosed after Stop, and the cause of ctx when
// that ends first.
func (t *Queue[T]) Pending(ctx context.Context, id string) (pending bool, err error) {
	ctx, err = t.usable(ctx)
	if err != nil {
		return false, err
	}
	if t.q.x.cluster != nil {
		a, err := t.q.x.cluster.About(ctx, t.q.Name, id, fleet.Question{Do: "Pending"}, true)
		return a.All, err
	}
	var has bool // a call may come after its caller has gone
	err = t.q.Shards.Of(id).Do(ctx, func(c *shard.Core) { has = c.Has(id) })
	if err != nil {
		return false, border(err)
	}
	return has, nil
}

// Stats returns the figures of the queue.
func (t *Queue[T]) Stats(ctx context.Context) (inspect.QueueStats, error) {
	ctx, err := t.usable(ctx)
	if err != nil {
		return inspect.QueueStats{}, err
	}
	if t.q.x.cluster != nil {
		return t.q.x.cluster.Figures(ctx, t.q.Name)
	}
	return t.q.x.inspector.Figures(ctx, t.q.To)
}
