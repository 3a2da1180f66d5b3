package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/await"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
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
	ErrDeadlock = errors.New("executor: it would wait for itself")
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
	return fmt.Errorf("%w: the receipt has id %q and position %d, which is no payload", ErrInvalidID, r.ID, max(r.Position, r.MergedInto))
}

// call is one wait for the end of a payload. Its end has to follow.
type call struct {
	q      *queue
	ctx    context.Context
	waiter *await.Waiter
	edge   *admit.Call // nil: the caller is no handler
	r      Receipt
}

// enter returns why a handler may not wait for a payload of an id.
func (c *call) enter(id string) error {
	x := c.q.x
	if !x.owns(c.ctx) {
		return nil
	}
	a := attemptOf(c.ctx)
	call := &admit.Call{Attempt: a, From: a.Jobs(), To: holder{Queue: c.q.Name, ID: id}, Over: c.waiter.Over}
	if len(call.From) == 0 {
		return nil // it has just returned
	}
	workers, _ := x.crew.Dispatcher.Load()
	circle, ok := x.graph.Begin(call, workers)
	switch {
	case ok:
		c.edge = call
		return nil
	case circle == nil:
		return fmt.Errorf("%w: the handlers of all %d workers would wait; Config.Workers says how many there are", ErrDeadlock, workers)
	}
	var text strings.Builder
	text.WriteString(circle[0].Owner)
	for _, hop := range circle {
		if text.WriteString(" waits for "); hop.Key != "" {
			text.WriteString(hop.Key + " of ")
		}
		text.WriteString(hop.Holder)
	}
	return fmt.Errorf("%w: %s", ErrDeadlock, text.String())
}

// end lets go of what the wait has taken.
func (c *call) end() {
	c.q.Awaited.Leave(c.waiter)
	if c.edge != nil {
		c.q.x.graph.End(c.edge)
	}
}

// waitFor waits for a payload that was accepted before, and may have ended.
func (q *queue) waitFor(ctx context.Context, r Receipt) (end await.End, err error) {
	c := &call{q: q, ctx: ctx, waiter: await.NewWaiter(), r: r}
	defer c.end()
	q.Awaited.Add(c.waiter, r.runs()) // from now on no end is missed
	over, err := c.past()
	switch {
	case err != nil && !over:
		return end, c.pending(c.unknown(err))
	case over && !c.waiter.Over():
		return await.End{Position: r.runs()}, err
	}
	if err := c.enter(r.ID); err != nil {
		return end, err
	}
	return c.outcome()
}

// past reports whether the payload of a receipt was over before the waiter was there, and
// how it ended, which is on disk. What the waiter hears of itself is not.
func (c *call) past() (over bool, err error) {
	q, at := c.q, c.r.runs()
	if live, err := q.lives(c.ctx, c.r); err != nil || live || c.waiter.Over() {
		return false, err
	}
	// What was posted may not be there yet, and the end of what is over not be on disk.
	if held, err := q.x.log.Arrived(c.ctx, at); err != nil || held {
		return false, err
	}
	switch err := q.epitaph(c.r); {
	case errors.As(err, new(*BuriedError)):
		return true, err
	case err != nil:
		return false, err
	}
	// If it is not among the dead because it has just been put back, its shard has it now.
	if err := q.x.log.Settled(c.ctx); err != nil {
		return false, err
	}
	live, err := q.lives(c.ctx, c.r)
	moved := q.Awaited.At(c.waiter) != at // it was replaced meanwhile
	return err == nil && !live && !moved, err
}

// lives asks whether the payload of a receipt waits or runs.
func (q *queue) lives(ctx context.Context, r Receipt) (live bool, err error) {
	var has bool // a call may come after its caller has gone
	err = q.Shards.Of(r.ID).Do(ctx, func(c *shard.Core) { has = c.HasPayload(r.ID, r.runs()) })
	return err == nil && has, err
}

// epitaph returns a BuriedError for a payload that became a dead letter, nil for one that is not.
func (q *queue) epitaph(r Receipt) error {
	b, err := q.x.log.BuriedAt(q.Number, r.runs())
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	return &BuriedError{
		ID: string(b.Entry.ID), Position: uint64(b.Entry.Position), Attempt: b.Retry + firstAttempt, Reason: b.Reason,
		Err: buriedBy(b.Reason, nil),
	}
}

// outcome waits for the end of a payload, and for the disk to have it.
func (c *call) outcome() (await.End, error) {
	if err := c.until(c.waiter.Done); err != nil {
		return await.End{}, c.pending(err)
	}
	end := &c.waiter.End
	if c.q.durability != DurabilityAsync {
		if err := c.written(end.Written); err != nil {
			return await.End{}, c.pending(err)
		}
	}
	switch end.Fate {
	case await.Superseded:
		return *end, c.q.epitaph(Receipt{ID: c.r.ID, Position: uint64(end.Position)}) // that of the other one
	case await.Discarded:
		return *end, ErrDiscarded
	case await.Deleted:
		return *end, ErrDeleted
	case await.Buried:
		return *end, &BuriedError{c.r.ID, uint64(end.Position), end.Attempt, end.Reason, buriedBy(end.Reason, end.Err)}
	}
	return *end, nil
}

// written waits until an end is on disk, also on a full one.
func (c *call) written(ticket journal.Ticket) error {
	if err := c.until(ticket.Done()); err != nil {
		return err
	}
	err := ticket.Wait(c.ctx) // it does not wait
	if errors.Is(err, journal.ErrFull) {
		err = c.q.x.log.Settled(c.ctx)
	}
	if err != nil {
		return c.unknown(err)
	}
	return nil
}

// unknown says why it is not known how a payload ended.
func (c *call) unknown(err error) error {
	select {
	case <-guard.Done(c.ctx):
		return guard.Cause(c.ctx)
	default:
	}
	if errors.Is(err, journal.ErrUnknown) {
		return c.until(nil) // the commit has failed, and so the executor fails
	}
	return border(err)
}

// until waits for a channel, and returns why it waits no longer. What is over is, also
// when the rest has come to its end meanwhile.
func (c *call) until(over <-chan struct{}) error {
	x := c.q.x
	var closing <-chan struct{}
	if c.edge != nil {
		closing = x.starting.Done() // Stop waits for the handler, and starts nothing any more
	}
	var err error
	select {
	case <-over:
		return nil
	case <-guard.Done(c.ctx):
		err = guard.Cause(c.ctx)
	case <-x.failed:
		err = x.failure()
	case <-closing:
		err = ErrClosed
	case <-x.stopped:
		err = ErrClosed
	}
	select {
	case <-over:
		return nil
	default:
		return err
	}
}

// pending is what a caller gets who waits no longer.
func (c *call) pending(err error) error {
	failure := c.q.Awaited.Leave(c.waiter)
	return &PendingError{c.r, err, failure}
}
