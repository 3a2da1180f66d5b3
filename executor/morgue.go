package executor

import (
	"context"
	"iter"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Dead is a dead letter: a payload that used up its retries, that its codec refused, or that its handler or a
// person canceled. One that died under a version from before metadata has no Failures
// although Error is set. If such a version accepted it with [At] or [In], EnqueuedAt is
// its due time, as in [Job].
type Dead[T any] struct {
	ID       string
	Payload  T
	Raw      []byte // the payload as it is in the journal
	Decode   error  // why Payload is not set; nil when it is
	Score    float64
	Position uint64
	Attempt  int       // in which it died, as in [Job]: 1, 2, 3, …
	Error    string    // the last failure, or why it was cancelled
	At       time.Time // when it died

	EnqueuedAt time.Time         // when Enqueue was called, by the clock of then, to the microsecond
	Metadata   map[string]string // see [Metadata]; nil: none
	Failures   []inspect.Failure // the last five, oldest first; the last one is Error
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
		for b, err := range t.q.x.log.Morgue(t.q.Number, 0) {
			if err != nil {
				yield(Dead[T]{}, border(err))
				return
			}
			if !yield(t.dead(b), nil) {
				return
			}
		}
	}
}

func (t *Queue[T]) dead(b journal.Buried) Dead[T] {
	d := Dead[T]{
		ID: string(b.Entry.ID), Raw: b.Entry.Payload, Score: b.Entry.Score, Position: uint64(b.Entry.Position),
		Attempt: b.Retry + firstAttempt, Error: b.Reason, At: time.Unix(0, b.At),
		EnqueuedAt: time.Unix(0, b.Entry.AcceptedAt()), Metadata: engine.MetadataOf(&b.Entry), Failures: control.Failures(b.History, b.Reason),
	}
	d.Payload, d.Decode = t.decodeOne(d.Raw)
	return d
}

// Pending reports whether an id has anything to do: it waits, runs, is to be
// retried, or is halted. It returns ErrClosed after Stop, and the cause of ctx when
// that ends first.
func (t *Queue[T]) Pending(ctx context.Context, id string) (pending bool, err error) {
	ctx, err = t.usable(ctx)
	if err != nil {
		return false, err
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
	s, err := t.q.x.inspector.Figures(ctx, &t.q.Queue)
	return s.QueueStats, err
}
