package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/strandjobs/strand/journal"
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
	Payloads  []Payload[T] // never empty; in score order, so the newest is the last
	Retry     int          // −1: has not failed; 0: failed once; …
	LastError string       // the text of the last failure
	Due       time.Time
}

// Latest returns the value of the newest payload.
func (j Job[T]) Latest() T { return j.Payloads[len(j.Payloads)-1].Value }

// Queue is a registered queue. Its methods may be called from any goroutine.
type Queue[T any] struct {
	q   *queue
	cfg QueueConfig[T]
}

// Item is one payload of [Queue.EnqueueMany].
type Item[T any] struct {
	ID      string // may be left out if QueueConfig.ID is set
	Payload T
	Score   *float64  // nil: QueueConfig.Score, or now
	Due     time.Time // zero: QueueConfig.Due, or now
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
		job, ok := t.decode(items[0])
		if !ok {
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
		jobs := t.decodeAll(items)
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
	t.q = &queue{settings: s, name: name, call: call}
	if hook := t.cfg.RetriesExhausted; hook != nil {
		t.q.exhausted = func(ctx context.Context, items []*shard.Item) {
			for _, it := range items {
				it.LastError = it.Outcome.Error // of this very run
			}
			hook(ctx, t.decodeAll(items))
		}
	}
	if err := x.register(t.q); err != nil {
		return nil, err
	}
	return t, nil
}

// Name returns the name of the queue.
func (t *Queue[T]) Name() string { return t.q.name }

// decode makes the job of an item. Payloads that the codec refuses are noted
// as spoiled and left out; false when none is left.
func (t *Queue[T]) decode(it *shard.Item) (Job[T], bool) {
	job := Job[T]{
		Queue: t.q.name, ID: it.ID, Retry: it.Retry, LastError: it.LastError,
		Due: time.Unix(0, it.Due), Payloads: make([]Payload[T], 0, len(it.Payloads)),
	}
	it.Outcome.Spoiled = nil
	var e journal.Entry
	for i, p := range it.Payloads {
		p.Ref.Read(&e)
		value, err := t.decodeOne(e.Payload)
		if err != nil {
			reason := "payload does not decode: " + text(err.Error)
			it.Outcome.Spoiled = append(it.Outcome.Spoiled, shard.Spoiled{Index: i, Error: reason})
			continue
		}
		job.Payloads = append(job.Payloads, Payload[T]{value, p.Score, uint64(p.Ref.Position())})
	}
	return job, len(job.Payloads) > 0
}

func (t *Queue[T]) decodeOne(data []byte) (value T, err error) {
	err = guarded(func() (err error) {
		value, err = t.cfg.Codec.Decode(data)
		return err
	})
	return value, err
}

func (t *Queue[T]) decodeAll(items []*shard.Item) []Job[T] {
	jobs := make([]Job[T], 0, len(items))
	for _, it := range items {
		if job, ok := t.decode(it); ok {
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// Enqueue accepts a payload for an id: any string of 1 to 512 bytes. When it
// returns nil under [Sync], the payload is on disk.
//
// If the id waits already, the payload joins the job: due time and retry count
// of the waiting one stay, and of equal payloads one stays, as
// QueueConfig.Merge says.
//
// It returns ErrInvalidID, ErrInvalidScore, ErrTooLarge, ErrEncode, ErrFull,
// ErrClosed, ErrFailed, or the cause of ctx when that ended before anything was
// accepted; then nothing was. After ErrUnknown it may be either way.
func (t *Queue[T]) Enqueue(ctx context.Context, id string, payload T, options ...Option) (Receipt, error) {
	if t == nil || t.q == nil {
		return Receipt{}, errNoQueue
	}
	data, err := t.encode(payload)
	if err != nil {
		return Receipt{}, fmt.Errorf("%w: id %q: %w", ErrEncode, id, err)
	}
	if t.cfg.ID == nil && t.cfg.Score == nil && t.cfg.Due == nil {
		return t.q.enqueue(ctx, id, data, time.Now().UnixNano(), options)
	}
	// What is computed comes first, what was asked for wins.
	it := Item[T]{ID: id, Payload: payload}
	if err := t.compute(&it); err != nil {
		return Receipt{}, err
	}
	computed := make([]Option, 0, len(options)+2)
	if !it.Due.IsZero() {
		computed = append(computed, At(it.Due))
	}
	if it.Score != nil {
		computed = append(computed, Score(*it.Score))
	}
	return t.q.enqueue(ctx, it.ID, data, time.Now().UnixNano(), append(computed, options...))
}

// errNoQueue is what a Queue that Handle did not make says.
var errNoQueue = fmt.Errorf("%w: this queue was not made by Handle", ErrState)

func (t *Queue[T]) encode(payload T) (data []byte, err error) {
	err = guarded(func() (err error) {
		data, err = t.cfg.Codec.Encode(payload)
		return err
	})
	return data, err
}

// compute fills in what an item leaves out.
func (t *Queue[T]) compute(it *Item[T]) error {
	err := guarded(func() error {
		if it.ID == "" && t.cfg.ID != nil {
			it.ID = t.cfg.ID(it.Payload)
		}
		if it.Score == nil && t.cfg.Score != nil {
			it.Score = new(t.cfg.Score(it.Payload))
		}
		if it.Due.IsZero() && t.cfg.Due != nil {
			it.Due = t.cfg.Due(it.Payload)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: computing id, score or due time: %w", ErrEncode, err)
	}
	return nil
}

// entryBuffers are reused by EnqueueMany: the journal copies what it is given.
var entryBuffers = sync.Pool{New: func() any { return new([]journal.Entry) }}

// EnqueueMany accepts all items or none: they are in one commit. Their order
// counts. The error names the first item that was wrong; see Enqueue.
func (t *Queue[T]) EnqueueMany(ctx context.Context, items []Item[T]) ([]Receipt, error) {
	if len(items) == 0 {
		return nil, nil
	}
	if t == nil || t.q == nil {
		return nil, errNoQueue
	}
	buffer := entryBuffers.Get().(*[]journal.Entry)
	entries := append((*buffer)[:0], make([]journal.Entry, len(items))...)
	defer func() {
		clear(entries)
		*buffer = entries
		entryBuffers.Put(buffer)
	}()
	now := time.Now().UnixNano()
	for i := range items {
		if err := t.fill(&entries[i], items[i], now); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
	}
	ticket, err := t.q.append(ctx, entries)
	if err != nil {
		return nil, err
	}
	receipts := make([]Receipt, len(items))
	for i := range receipts {
		receipts[i] = t.q.receipt(ticket, i)
	}
	return receipts, nil
}

func (t *Queue[T]) fill(e *journal.Entry, it Item[T], now int64) error {
	data, err := t.encode(it.Payload)
	if err != nil {
		return fmt.Errorf("%w: id %q: %w", ErrEncode, it.ID, err)
	}
	if err := t.compute(&it); err != nil {
		return err
	}
	if err := t.q.fill(e, it.ID, data, now); err != nil {
		return err
	}
	if !it.Due.IsZero() {
		setDue(e, it.Due)
	}
	if it.Score != nil {
		return setScore(e, *it.Score)
	}
	return nil
}
