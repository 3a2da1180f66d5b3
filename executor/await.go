package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/await"
	"github.com/strandjobs/strand/executor/internal/ending"
	"github.com/strandjobs/strand/executor/internal/fleet"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/journal"
)

// Errors of awaiting: of [Caller.Do] and [Queue.Wait].
var (
	// ErrDiscarded is returned for a payload that its handler discarded.
	ErrDiscarded = errors.New("executor: discarded")

	// ErrDeleted is returned for a payload that was deleted.
	ErrDeleted = errors.New("executor: deleted")

	// ErrNoResult is returned by Do when the payload that it would wait for has ended before: that of
	// an earlier call with the same [IdempotencyKey], or a newer one that supersedes this one.
	// Results are kept for those only who wait when the handler returns.
	ErrNoResult = errors.New("executor: it has ended, and its result is gone")

	// ErrDeadlock is matched by the error of a call from a handler that would wait
	// for what can't end before that handler does: a payload of its own id, one that
	// waits, perhaps over others, for this one or for what it holds, or any at all
	// while the handlers of all other workers wait, too.
	ErrDeadlock = ending.ErrDeadlock
)

// PendingError is returned by a call that waits for a payload no longer: its context has
// ended, or the executor has. The payload is accepted, and goes on; or it has ended, and that
// was not on disk yet.
type PendingError struct {
	Receipt Receipt // to wait on with
	Err     error   // why: the cause of the context, ErrClosed or ErrFailed
	Failure error   // the last failure of the payload; nil: none that is known
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
	Reason   string // the last failure, or why it was cancelled, as in [Dead]
	Err      error  // that error itself, if this process has it; what a person has canceled matches ErrCanceledByOperator; or nil
}

func (e *BuriedError) Error() string {
	return fmt.Sprintf("executor: buried: id %q, position %d, attempt %d: %s", e.ID, e.Position, e.Attempt, e.Reason)
}

// Unwrap returns Err.
func (e *BuriedError) Unwrap() error { return e.Err }

// buriedBy returns why a payload was buried: a person, or its last failure.
func buriedBy(reason string, failure error) error {
	if strings.HasPrefix(reason, ErrCanceledByOperator.Error()) {
		return attempt.Canceled(reason)
	}
	return failure
}

// Wait returns when the payload of a receipt has ended: nil when it is done, a
// [BuriedError] when it became a dead letter, ErrDiscarded, or ErrDeleted. If the
// payload is merged, Wait waits for the one that runs in its stead: the one that
// MergedInto names, or one that takes its place during the wait. Under DurabilitySync
// an end counts when it is on disk, also when the disk is full; so what Wait has said
// stays true after a crash.
//
// Wait uses only ID, Position and MergedInto of the receipt, which may be from an
// earlier process. It returns nil for a payload that had ended before the call and is
// no dead letter. It does the same for one that a later equal payload had replaced
// before the call, although that may still wait: the executor keeps no record of
// replaced payloads. Where Merge allows that, wait from the start, as [Caller.Do] does,
// or wait with the later receipt.
//
// A job may be due in a year, fail for weeks or be halted, so bound the wait with ctx.
// When ctx ends first, or the executor stops or fails, Wait returns a [PendingError],
// which wraps the cause; the payload goes on as before. A handler gets ErrDeadlock for
// what can't end before the handler does. Other errors are ErrContext, ErrClosed, and
// ErrInvalidID for a receipt without an id or with a position that was never given.
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
func (q *queue) call(ctx context.Context, id string) *ending.Call {
	return &ending.Call{X: &q.x.ends, Context: ctx, Queue: q.To, Book: &q.Awaited, Async: q.durability == DurabilityAsync, Waiter: await.NewWaiter(), ID: id}
}

// enter returns why the caller may not wait, if it is a handler.
func (q *queue) enter(c *ending.Call) error {
	if !q.x.owns(c.Context) {
		return nil
	}
	return c.Enter(attemptOf(c.Context))
}

// waitFor waits for a payload that was accepted before, and may have ended.
func (q *queue) waitFor(ctx context.Context, r Receipt) (end await.End, err error) {
	c := q.call(ctx, r.ID)
	defer c.Done()
	c.At = r.runs()
	over, letter, err := c.Past()
	switch {
	case letter != nil && !c.Waiter.Over():
		return await.End{Position: c.At}, epitaph(letter)
	case err != nil:
		return end, &PendingError{r, c.Unknown(err), c.Done()}
	case over && !c.Waiter.Over():
		return await.End{Position: c.At}, nil
	}
	if err := q.enter(c); err != nil {
		return end, err
	}
	return q.outcome(c, r)
}

// outcome waits for the end of a payload.
func (q *queue) outcome(c *ending.Call, r Receipt) (await.End, error) {
	end, err := c.Wait()
	if err != nil {
		return end, &PendingError{r, err, c.Done()}
	}
	switch end.Fate {
	case await.Superseded: // by one that may be dead
		letter, err := c.Letter(end.Position)
		if letter != nil {
			err = epitaph(letter)
		}
		return end, err
	case await.Discarded:
		return end, ErrDiscarded
	case await.Deleted:
		return end, ErrDeleted
	case await.Buried:
		return end, &BuriedError{r.ID, uint64(end.Position), end.Attempt, end.Reason, buriedBy(end.Reason, end.Err)}
	}
	return end, nil
}

// epitaph returns what a dead letter says.
func epitaph(b *journal.Buried) error {
	return &BuriedError{
		ID: string(b.Entry.ID), Position: uint64(b.Entry.Position), Attempt: b.Retry + firstAttempt, Reason: b.Reason,
		Err: buriedBy(b.Reason, nil),
	}
}

// waitElsewhere waits for a payload of a cluster.
func (q *queue) waitElsewhere(ctx context.Context, r Receipt) (*fleet.Answer, error) {
	if r.ID == "" || r.Position == 0 {
		return nil, noPayload(r)
	}
	a, err := q.x.cluster.About(ctx, q.Name, r.ID, fleet.Question{Do: "Wait", Position: r.Position, MergedInto: r.MergedInto}, true)
	switch {
	case err == nil || errors.As(err, new(*PendingError)):
	case ctx.Err() != nil:
		err = &PendingError{Receipt: r, Err: guard.Cause(ctx)}
	case q.x.stopping.Load():
		err = &PendingError{Receipt: r, Err: ErrClosed}
	case errors.Is(err, ErrUnknown):
		err = &PendingError{Receipt: r, Err: err}
	}
	return a, err
}
