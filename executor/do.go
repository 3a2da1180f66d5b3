package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/internal/await"
	"github.com/strandjobs/strand/executor/internal/fleet"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Caller is a queue whose handler returns a result, for those who call [Caller.Do].
// In all else it is a [Queue]. Its methods may be called from any goroutine.
type Caller[T, R any] struct {
	*Queue[T]
}

// HandleResult is [Handle] for a handler that returns a result beside its error.
// Those who wait for the payload in [Caller.Do] get it once that is done. Otherwise
// it is dropped, and so is what comes with an error. In a cluster it comes as JSON. It returns the errors of Handle.
func HandleResult[T, R any](x *Executor, name string, handler func(context.Context, Job[T]) (R, error), cfg QueueConfig[T]) (*Caller[T, R], error) {
	if err := notNil(x, handler == nil, name); err != nil {
		return nil, err
	}
	t := &Queue[T]{cfg: cfg}
	err := t.handle(x, name, func(ctx context.Context, items []*shard.Item) []error {
		return t.callSingle(ctx, items, func(ctx context.Context, job Job[T]) error {
			result, err := handler(ctx, job)
			if err == nil {
				returned(t.q, items[0], result)
			}
			return err
		})
	})
	t, err = everywhere(x, t, err, func(part *Executor) error { _, err := HandleResult(part, name, handler, cfg); return err })
	if err != nil {
		return nil, err
	}
	return &Caller[T, R]{t}, nil
}

// returned keeps what a handler returned for those who wait for it.
func returned[R any](q *queue, it *shard.Item, result R) {
	if !q.Awaited.Any() {
		return
	}
	for _, p := range q.Core.InHand(it) {
		q.Awaited.Returned(p.Ref.Position(), result)
	}
}

// Do enqueues a payload like [Queue.Enqueue], waits for its end like [Queue.Wait], and
// returns what the handler returned for it. The payload has its place in the order of
// its id like any other. If it is merged, the result is that of the payload that runs
// in its stead: those callers share a result, so none of them should change it.
//
// A failure that is retried is no end: Do returns when the payload is done, or with a
// [BuriedError] after the last retry. ctx bounds the wait. When ctx ends first, or the
// executor stops or fails, Do returns a [PendingError] with the last failure, and the
// payload goes on. ErrDiscarded and ErrDeleted say how the payload ended, too. After
// any other error but ErrUnknown and ErrNoResult the payload was not accepted: these
// are the errors of Enqueue, ErrDeadlock for a handler that would wait for itself, and
// ErrState before [Executor.Start], because no job would run.
//
// The executor keeps results in memory only, and only for callers that wait: when the
// caller or the process is gone, so is the result. With an [IdempotencyKey] that came
// before, Do waits for the payload of the first call, and returns ErrNoResult if that
// has ended. It also returns ErrNoResult for a payload that was superseded by one that
// had ended; see "The newest state" in the guide (README.md).
func (c *Caller[T, R]) Do(ctx context.Context, id string, payload T, options ...Option) (result R, err error) {
	if c == nil {
		return result, errNoQueue
	}
	if ctx, err = c.usable(ctx); err != nil {
		return result, err
	}
	if c.q.x.cluster != nil {
		return c.doElsewhere(ctx, id, payload, options)
	}
	entries := borrowEntries(1)
	defer giveBackEntries(entries)
	if err = c.fill(&(*entries)[0], Item[T]{ID: id, Payload: payload}, c.q.stamp(), options); err != nil {
		return result, err
	}
	end, err := c.q.do(ctx, *entries, options)
	if err != nil {
		return result, err
	}
	result, ok := end.Value.(R)
	if !ok && end.Value != nil || !end.Said {
		return result, fmt.Errorf("%w: id %q, position %d", ErrNoResult, id, end.Position)
	}
	return result, nil
}

// do enqueues one entry and waits for its end.
func (q *queue) do(ctx context.Context, entries []journal.Entry, options []Option) (end await.End, err error) {
	if err := q.x.runs(); err != nil && q.x.front == nil { // the front has, or will
		return end, err
	}
	c := q.call(ctx, string(entries[0].ID))
	defer c.Done()
	if err := q.enter(c); err != nil {
		return end, err
	}
	o, err := q.accept(ctx, entries, options, c.Waiter)
	if err != nil {
		return end, err
	}
	r := receipt(q, &o, 0)
	if !r.Duplicate {
		return q.outcome(c, r)
	}
	c.Done() // it was for a payload that there is not
	return q.waitFor(ctx, r)
}

// doElsewhere is Do for a payload of a cluster: the result comes as JSON.
func (c *Caller[T, R]) doElsewhere(ctx context.Context, id string, payload T, options []Option) (result R, err error) {
	items, conditions, err := c.Carry([]Item[T]{{ID: id, Payload: payload}}, options...)
	if err != nil {
		return result, err
	}
	it := items[0]
	q := fleet.Question{Do: "do", Payload: it.Payload, Score: it.Score, Metadata: it.Metadata, Conditions: conditions}
	if !it.Due.IsZero() {
		q.Delay = max(time.Until(it.Due), 1)
	}
	keyed := slices.ContainsFunc(options, func(o Option) bool { return o.kind == optionIdempotency })
	a, err := c.q.x.cluster.About(ctx, c.q.Name, it.ID, q, keyed)
	if err == nil && a.Position != 0 { // its process waits no longer
		a, err = c.q.waitElsewhere(ctx, Receipt{ID: it.ID, Position: a.Position, MergedInto: a.MergedInto, Durable: true})
	}
	switch {
	case err != nil:
	case len(a.Result) == 0:
		err = fmt.Errorf("%w: id %q", ErrNoResult, it.ID)
	default:
		if err = json.Unmarshal(a.Result, &result); err != nil {
			err = fmt.Errorf("%w: id %q: it is done, and can't be read from JSON: %w", ErrNoResult, it.ID, err)
		}
	}
	return result, err
}
