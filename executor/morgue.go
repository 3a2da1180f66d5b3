package executor

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Dead is a payload in the morgue: a dead letter. One that was buried by a version
// from before metadata has no Failures although Error is set, and EnqueuedAt of one
// that such a version accepted with [At] or [In] is its due time; see [Job], too.
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
	Failures   []Failure         // the last five, oldest first; the last one is Error
}

// Morgue lists the dead letters of the queue, in the order in which they were
// accepted. The loop may take its time, and may requeue what it was given. A read
// error is yielded once and ends the list.
func (t *Queue[T]) Morgue() iter.Seq2[Dead[T], error] {
	return func(yield func(Dead[T], error) bool) {
		if t == nil || t.q == nil {
			yield(Dead[T]{}, errNoQueue)
			return
		}
		for b, err := range t.q.x.log.Morgue(t.q.number) {
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
		EnqueuedAt: time.Unix(0, b.Entry.AcceptedAt()), Metadata: metadataOf(&b.Entry), Failures: failuresOf(b.History, b.Reason),
	}
	d.Payload, d.Decode = t.decodeOne(d.Raw)
	return d
}

// What goes back in one commit has so many payloads and bytes at most, or is one
// payload.
const (
	requeueAtOnce = 1000
	requeueBytes  = 1 << 20
)

// Requeue puts the dead payloads of some ids back in their place: with their old
// score and position, due now, with all retries given back. They begin again
// without Failures and LastError. A job of the same id that waits takes them in,
// and is due now, too.
//
// They go back in the order in which they were accepted, up to a thousand or a MiB
// of them in a commit, so that many take little memory and others go on meanwhile;
// those that are back may run before the last ones are. It returns how many are
// back, also with an error: ErrFull, ErrClosed, ErrFailed, ErrContext, or the cause
// of ctx when that ends first. After ErrUnknown those of one more commit may be.
func (t *Queue[T]) Requeue(ctx context.Context, ids ...string) (int, error) {
	wanted := make(map[string]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	return t.requeue(ctx, func(id []byte) bool { return wanted[string(id)] })
}

// RequeueAll puts all dead payloads of the queue back, but none that is accepted
// after the call; see Requeue.
func (t *Queue[T]) RequeueAll(ctx context.Context) (int, error) {
	return t.requeue(ctx, func([]byte) bool { return true })
}

func (t *Queue[T]) requeue(ctx context.Context, want func(id []byte) bool) (n int, err error) {
	if ctx, err = t.usable(ctx); err != nil {
		return 0, err
	}
	q := t.q
	err = context.Cause(ctx)
	if err == nil {
		err = q.x.log.Flush(ctx) // what is counted as dead may be on its way to the morgue
	}
	if err != nil && !errors.Is(err, journal.ErrFull) {
		return 0, fmt.Errorf("executor: requeue: %w", border(err))
	}
	end := q.x.log.Stats().Next
	var positions []journal.Position
	var ids []string
	size := 0
	for b, err := range q.x.log.Morgue(q.number) {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return n, fmt.Errorf("executor: requeue: %w", border(err))
		}
		if b.Entry.Position >= end {
			break // or jobs that die at once would keep it here
		}
		if !want(b.Entry.ID) {
			continue
		}
		// A payload that is larger than the rest of the commit is in the next one.
		if more := len(b.Entry.ID) + len(b.Entry.Payload); len(positions) == requeueAtOnce || size+more > requeueBytes {
			restored, err := q.restore(ctx, positions, ids)
			if n += restored; err != nil {
				return n, err
			}
			positions, ids, size = positions[:0], ids[:0], 0
		}
		positions, ids = append(positions, b.Entry.Position), append(ids, string(b.Entry.ID))
		size += len(b.Entry.ID) + len(b.Entry.Payload)
	}
	restored, err := q.restore(ctx, positions, ids)
	return n + restored, err
}

// restore puts payloads back, all in one commit, unless another call has taken some
// of them out of the morgue meanwhile: then one by one.
func (q *queue) restore(ctx context.Context, positions []journal.Position, ids []string) (n int, err error) {
	if len(positions) == 0 {
		return 0, nil
	}
	q.comeBack(positions, ids)
	err = q.x.log.Restore(ctx, q.number, positions, time.Now().UnixNano(), q.route)
	if err == nil {
		return len(positions), nil
	}
	q.stayAway(positions)
	switch {
	case !errors.Is(err, journal.ErrNotFound):
		return 0, fmt.Errorf("executor: requeue: %w", border(err))
	case len(positions) == 1:
		return 0, nil
	}
	for i := range positions {
		restored, err := q.restore(ctx, positions[i:i+1], ids[i:i+1])
		if n += restored; err != nil {
			return n, err
		}
	}
	return n, nil
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
	routes := *t.q.x.routes.Load()
	err = routes[t.q.route([]byte(id))].Do(ctx, func(c *shard.Core) { has = c.Has(id) })
	if err != nil {
		return false, border(err)
	}
	return has, nil
}

// RunNow makes the waiting jobs of some ids due now, with all retries given back,
// and lets halted ones go on. It returns how many of them waited; a job that runs
// at the moment is left alone. It returns ErrClosed after Stop, and the cause of
// ctx when that ends first; then the id it was at may be either way.
func (t *Queue[T]) RunNow(ctx context.Context, ids ...string) (n int, err error) {
	if ctx, err = t.usable(ctx); err != nil {
		return 0, err
	}
	routes := *t.q.x.routes.Load()
	for _, id := range ids {
		var waited bool // a call may come after its caller has gone
		err := routes[t.q.route([]byte(id))].Do(ctx, func(c *shard.Core) {
			waited = c.RunNow(id, time.Now().UnixNano())
		})
		if err != nil {
			return n, border(err)
		}
		if waited {
			n++
		}
	}
	return n, nil
}
