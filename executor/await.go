package executor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/await"
	"github.com/strandjobs/strand/executor/internal/fleet"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/submit"
	"github.com/strandjobs/strand/journal"
)

// Errors of awaiting: of [Caller.Do] and [Queue.Wait].
var (
	// ErrDiscarded is returned for a payload that its handler discarded.
	ErrDiscarded = await.ErrDiscarded

	// ErrDeleted is returned for a payload that was deleted.
	ErrDeleted = await.ErrDeleted

	// ErrNoResult is returned by Do when the payload that it would wait for has ended before: that of
	// an earlier call with the same [IdempotencyKey], or a newer one that supersedes this one. The
	// executor keeps a result only for callers that wait when the handler returns, and no record of
	// whether it was done, discarded or deleted. One that a [Middleware] ended without the handler has none.
	ErrNoResult = errors.New("executor: it has ended, and its result is gone")

	// ErrDeadlock is matched by the error of a call from a handler that would wait for what can't end before that
	// handler does: a payload of its own id, one that waits, perhaps over others, for this one or for what it holds, or
	// any at all while the handlers of all other workers wait, too. A function that a worker calls beside a handler,
	// such as RetriesExhausted, may wait for none with its context.
	ErrDeadlock = await.ErrDeadlock
)

// PendingError is returned by a call that no longer waits for a payload, because its context or the executor has ended.
// The payload is accepted, whatever Err is. It may still run, or it may have ended without that being on disk yet.
type PendingError struct {
	Receipt Receipt // to wait on with
	// Err is why: the cause of the context, ErrClosed or ErrFailed; in a cluster also what asking the owner returned,
	// such as ErrUnknown.
	Err     error
	Failure error // the last failure of the payload; nil: none that is known
}

func (e *PendingError) Error() string {
	s := fmt.Sprintf("executor: accepted, and not over yet: id %q, position %d: %v", e.Receipt.ID, e.Receipt.Position, e.Err)
	if e.Failure != nil {
		s += "; it has failed: " + guard.Text(e.Failure.Error)
	}
	return s
}

// Unwrap returns Err, and Failure if there is one.
func (e *PendingError) Unwrap() []error { return present(e.Err, e.Failure) }

// BuriedError is returned for a payload that became a dead letter.
type BuriedError struct {
	ID       string
	Position uint64
	Attempt  int    // in which it died, as in [Job]
	Reason   string // the last failure, or why it was canceled, as in [Dead]
	Err      error  // that error itself, if this process has it; what a person has canceled matches ErrCanceledByOperator; or nil
}

func (e *BuriedError) Error() string { return (*await.Grave)(e).Error() }

// Unwrap returns Err.
func (e *BuriedError) Unwrap() error { return e.Err }

// Wait returns when the payload of a receipt has ended: nil when it is done, a [BuriedError] when it became a
// dead letter, ErrDiscarded, or ErrDeleted. If the payload is merged, Wait waits for the one that runs in its
// stead: the one that MergedInto names, or one that takes its place during the wait. Under DurabilitySync an
// end counts when it is on disk, also when the disk is full; so what Wait has said stays true after a crash.
//
// Wait uses only ID, Position, MergedInto and Duplicate of the receipt, which may be from an earlier process.
// It returns nil for a payload that had ended before the call and is no dead letter. It does the same for one
// that a later equal payload had replaced before the call, although that may still wait: the executor keeps no
// record of replaced payloads. Where Merge allows that, wait from the start, as [Caller.Do] does, or wait with
// the later receipt. For a Duplicate, whose first call may have had another id, it looks through the jobs of
// the queue, unless its own id has the payload.
//
// A job may be due in a year, fail for weeks or be halted, so bound the wait with ctx. When ctx ends first, or
// the executor stops or fails, Wait returns a [PendingError], which wraps the cause; the payload goes on as
// before. A handler gets ErrDeadlock for what can't end before the handler does. Other errors are ErrContext,
// ErrClosed, and ErrInvalidID for a receipt without an id or with a position that was never given.
func (t *Queue[T]) Wait(ctx context.Context, r Receipt) error {
	ctx, err := t.usable(ctx)
	switch {
	case err != nil:
	case t.q.x.cluster != nil:
		_, err = t.q.waitElsewhere(ctx, r)
	default:
		_, err = t.q.wait(ctx, r)
	}
	return err
}

// wait is Wait, and returns the end.
func (q *queue) wait(ctx context.Context, r Receipt) (await.End, error) {
	if at := max(r.Position, r.MergedInto); r.ID == "" || r.Position == 0 || journal.Position(at) >= q.x.log.Stats().Next {
		return await.End{}, noPayload(r)
	}
	return q.waitFor(ctx, r)
}

func noPayload(r Receipt) error {
	return fmt.Errorf("%w: the receipt has id %q and position %d, which is no payload, or one in an inbox without an IdempotencyKey",
		ErrInvalidID, r.ID, max(r.Position, r.MergedInto))
}

// call returns a wait for the end of a payload of an id. Its Done has to follow.
func (q *queue) call(ctx context.Context, id string) *await.Call {
	return &await.Call{
		X: q.x.crew.Engine, Context: ctx, Queue: q.To, Book: &q.Awaited, Async: q.durability == DurabilityAsync, Waiter: await.NewWaiter(), ID: id,
		Handler: func() (*attempt.Attempt, bool) {
			if !q.x.owns(ctx) {
				return nil, false
			}
			return attemptOf(ctx), true
		},
	}
}

// waitFor waits for a payload that was accepted before, and may have ended.
func (q *queue) waitFor(ctx context.Context, r Receipt) (await.End, error) {
	c := q.call(ctx, r.ID)
	defer c.Done()
	c.At, c.Another = journal.Position(cmp.Or(r.MergedInto, r.Position)), r.Duplicate // what runs, as far as the receipt says
	end, err := c.Earlier()
	return end, ended(r, err)
}

// ended returns the error of a wait with a receipt.
func ended(r Receipt, err error) error {
	switch e := err.(type) {
	case *await.Left:
		return &PendingError{r, e.Err, e.Failure}
	case *await.Grave:
		return (*BuriedError)(e)
	}
	return err
}

// waitElsewhere waits for a payload of a cluster.
func (q *queue) waitElsewhere(ctx context.Context, r Receipt) (*fleet.Answer, error) {
	if r.ID == "" || r.Position == 0 {
		return nil, noPayload(r)
	}
	a, err := q.x.cluster.About(ctx, q.Name, r.ID, fleet.Question{Do: "Wait", Position: r.Position, MergedInto: r.MergedInto, Duplicate: r.Duplicate}, true)
	switch {
	case err == nil || errors.As(err, new(*PendingError)):
	case ctx.Err() != nil:
		err = &PendingError{Receipt: r, Err: guard.Cause(ctx)}
	case q.x.life.Stopping.Load():
		err = &PendingError{Receipt: r, Err: ErrClosed}
	case errors.Is(err, ErrUnknown), a.Silent():
		err = &PendingError{Receipt: r, Err: err}
	}
	return a, err
}

// Caller is a queue whose handler returns a result, for those who call [Caller.Do].
// In all else it is a [Queue]. Its methods may be called from any goroutine.
type Caller[T, R any] struct {
	*Queue[T]
}

// Do enqueues a payload like [Queue.Enqueue], waits for its end like [Queue.Wait], and returns what the handler
// returned for it. The payload has its place in the order of its id like any other. If it is merged, the result is that
// of the payload that runs in its stead: those callers share a result, so none of them should change it.
//
// A failure that is retried is no end: Do returns when the payload is done, or with a [BuriedError] after the last
// retry. ctx bounds the wait. When ctx ends first, or the executor stops or fails, Do returns a [PendingError] with the
// last failure, and the payload goes on. ErrDiscarded and ErrDeleted say how the payload ended, too. After any other
// error but ErrUnknown and ErrNoResult the payload was not accepted: these are the errors of Enqueue, ErrDeadlock for a
// handler that would wait for itself, and ErrState before [Executor.Start] and in OnStart, because no job would run.
//
// The executor keeps results in memory only, and only for callers that wait: when the caller or the process is
// gone, so is the result. With an [IdempotencyKey] that came before, Do waits for the payload of the first
// call, whatever its id, and returns ErrNoResult if that has ended. It also returns ErrNoResult for a payload
// that was superseded by one that had ended; see "The newest state" in the guide (README.md).
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
	entries := submit.Borrow(1)
	defer submit.GiveBack(entries)
	if err = c.fill(&(*entries)[0], Item[T]{ID: id, Payload: payload}, c.q.Crew.Now(), options); err != nil {
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
	if err := q.x.life.Runs(); err != nil && q.x.front == nil { // the front has, or will
		return end, err
	}
	c := q.call(ctx, string(entries[0].ID))
	defer c.Done()
	c.Waiter.Begin = sync.OnceValue(c.Enter) // not for the payload of an earlier call, whose id is another
	o, err := q.accept(ctx, entries, options, c.Waiter)
	if err != nil {
		return end, err
	}
	r := receipt(q, &o, 0)
	if !r.Duplicate {
		end, err = c.Outcome()
		return end, ended(r, err)
	}
	c.Done() // it was for a payload that there is not
	return q.waitFor(ctx, r)
}

// doElsewhere is Do for a payload of a cluster: the result comes as JSON.
func (c *Caller[T, R]) doElsewhere(ctx context.Context, id string, payload T, options []Option) (result R, err error) {
	items, conditions, err := c.carry([]Item[T]{{ID: id, Payload: payload}}, options...)
	if err != nil {
		return result, err
	}
	it := items[0]
	q := fleet.Question{Do: "do", Payload: it.Payload, Score: it.Score, Scored: it.Score != nil, Metadata: it.Metadata, Conditions: conditions}
	if !it.Due.IsZero() {
		q.Delay = max(time.Until(it.Due), 1)
	}
	keyed := submit.Keyed(options)
	a, err := c.q.x.cluster.About(ctx, c.q.Name, it.ID, q, keyed)
	if err == nil && a.Position != 0 { // its process waits no longer
		a, err = c.q.waitElsewhere(ctx, Receipt{ID: it.ID, Position: a.Position, MergedInto: a.MergedInto, Durable: true, Duplicate: a.Duplicate})
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
