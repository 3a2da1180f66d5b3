package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/verdict"
	"github.com/strandjobs/strand/shard"
)

// A handler says what is to become of its job by what it returns: nil is done, one
// of the following is a wish, and anything else is a failure, which spends a retry.
// Wishes may be wrapped. The [FullError] of a full disk, which a follow-up gets, is
// no failure: the job waits as if it were, and keeps its retries.
//
// What is around a handler, to measure it or to translate its errors, tells the wishes
// apart with [OutcomeOf], and finds their parts with [errors.AsType]: all are a
// [*WishError]; [Fatal], which may be around any of them, is a [*FatalError]. A value
// of these types that the program makes itself is the same wish, but for [Throttled];
// a nil pointer is a failure.

// OutcomeOf says what an error asks for that a handler, or the next of a [Middleware], has
// returned: [events.Done], Snoozed (also by [Throttled]), Discarded, Cancelled, or else Failed, also
// for the [FullError] of a full disk. Two more words are no kinds of events: it is "panicked" for a
// [*PanicError], which is a failure, too, and "mixed" for [PayloadErrors], and for [BatchErrors],
// which [Run.Outcomes] takes apart. An error whose methods panic is a failure.
func OutcomeOf(err error) events.Kind {
	if err == nil {
		return events.Done
	}
	kind := events.Failed
	_ = guard.Call(func() error {
		panicked, _ := errors.AsType[*PanicError](err)
		_, batch := errors.AsType[BatchErrors](err)
		switch wish := wishOf(err); {
		case panicked != nil:
			kind = "panicked"
		case batch || wish.Payloads != nil:
			kind = "mixed"
		case wish.Kind == verdict.Discard:
			kind = events.Discarded
		case wish.Kind == verdict.Snooze:
			kind = events.Snoozed
		case wish.Kind == verdict.Cancel:
			kind = events.Cancelled
		}
		return nil
	})
	return kind
}

// WishError is what [Cancel], [Discard], [Snooze], [Throttled] and [RetryAfter] return.
type WishError struct {
	Outcome events.Kind        // Cancelled, Discarded or Snoozed; of RetryAfter, Failed
	After   time.Duration      // of a snooze, or before the retry
	Err     error              // the reason, or the failure; nil: none is given
	asks    func(*admit.Claim) // of Throttled, about what the job holds; nil: nothing
}

// Cancel makes the payloads dead letters now, with err as the reason, because no retry
// could help. A person can put them back.
func Cancel(err error) error { return &WishError{Outcome: events.Cancelled, Err: err} }

// Discard ends the payloads as done, except that they are counted as discarded, and
// follow-ups of the run are dropped.
func Discard() error { return &WishError{Outcome: events.Discarded} }

// Snooze runs the job again after d. It is no failure and spends no retry. A d below
// zero means zero. An error that wraps it asks for the same, and its text is in [events.Snoozed].
func Snooze(d time.Duration) error { return &WishError{Outcome: events.Snoozed, After: max(d, 0)} }

// RetryAfter is a failure with err that names its own pause: the job runs again after d
// instead of after QueueConfig.RetryIn, and spends a retry. A d below zero means zero.
func RetryAfter(d time.Duration, err error) error {
	return &WishError{Outcome: events.Failed, After: max(d, 0), Err: err}
}

func (e *WishError) Error() string {
	switch {
	case e.Outcome == events.Cancelled:
		return "cancelled: " + reason(e.Err)
	case e.Outcome == events.Discarded:
		return "discarded"
	case e.asks != nil:
		return fmt.Sprintf("throttled for %v: %s", e.After, reason(e.Err))
	case e.Outcome == events.Snoozed:
		return fmt.Sprintf("snoozed for %v", e.After)
	}
	return reason(e.Err)
}

// Unwrap returns Err.
func (e *WishError) Unwrap() error { return e.Err }

// RetryIn is the default pause before retry n, which counts from 0: n⁴ + 15 +
// rand(30)·(n+1) seconds. Without the random part these are 15 s, 16 s, 31 s, 96 s, 271
// s, …; 25 retries take about 20 days. An n below zero counts as 0, and no pause is
// longer than 100 years. Any goroutine may call it.
func RetryIn(n int) time.Duration { return verdict.RetryIn(n) }

// BatchErrors is what a handler of [HandleBatch] returns when ids had different
// outcomes, by id. Each id gets its own outcome, as if its own handler had returned
// that error; an id with a nil error, or without an entry, is done. An entry for an id
// that is not in the batch fails every id without an entry, because it must have been
// meant for one of them.
type BatchErrors map[string]error

func (e BatchErrors) Error() string { return brief.Errors(e, "%s: %v") }

// PayloadErrors is what a handler of [HandleMerged] returns when the payloads of a job
// had different outcomes, by Payload.Position. A payload with a nil error, or without
// an entry, is done. [Cancel] and [Discard] end the payload that they are for. All
// payloads that fail or snooze run again together, after the longest of their pauses:
// as one failure with the first error, or as a snooze if none has failed. An entry for
// a position that is not in the job is a failure of all payloads without an entry.
//
// It may be the error of an id in [BatchErrors]. With [Handle] it is a failure, and in a
// queue with Locks.Unlock it is a failure of all payloads, because the executor can't
// tell which keys a part of a job unlocks.
type PayloadErrors map[uint64]error

func (e PayloadErrors) Error() string { return brief.Errors(e, "payload %d: %v") }

// wishIn finds out what the error of a handler asks for.
func wishIn(q *queue, it *shard.Item, err error) verdict.Wish {
	switch e := err.(type) {
	case *undecodable:
		if !e.mayPass(q, it) {
			return verdict.Wish{Kind: verdict.Refused, Text: true, Undecoded: true}
		}
		w := wishOf(err)
		w.Undecoded = true
		return w
	case *PanicError:
		if e != nil {
			return verdict.Wish{Kind: verdict.Panicked, Stack: e.Stack}
		}
	}
	return wishOf(err)
}

// wishOf finds out what an error asks for that is no panic. Its methods are the user's code.
func wishOf(err error) (w verdict.Wish) {
	if f, ok := errors.AsType[*FatalError](err); ok && f != nil {
		w.Fatal = f
	}
	if each, ok := errors.AsType[PayloadErrors](err); ok {
		if w.Payloads = each; each == nil {
			w.Payloads = PayloadErrors{}
		}
	}
	switch e, _ := errors.AsType[*WishError](err); {
	case e == nil:
		if e, ok := errors.AsType[*FullError](err); ok && e.Disk { // for a follow-up mostly: not the fault of the job
			w.Kind, w.After = verdict.FullDisk, retryFullDisk
		}
	case e.Outcome == events.Discarded:
		w.Kind = verdict.Discard
	case e.Outcome == events.Cancelled:
		w.Kind = verdict.Cancel
	case e.Outcome == events.Snoozed:
		w.Kind, w.After, w.Text, w.Asks = verdict.Snooze, e.After, e.asks != nil || err != error(e), e.asks // what is around it says why
	default:
		w.Kind, w.After = verdict.FailFor, e.After
	}
	return w
}

// ErrNoHeartbeat is the cause of a handler's context when the handler has given no
// sign of life for QueueConfig.HeartbeatTimeout. The error of a job that failed after
// that wraps it.
var ErrNoHeartbeat = attempt.ErrNoHeartbeat

// Progress says how far a handler has come: done of total, in units of its own. It is
// also a sign of life, see QueueConfig.HeartbeatTimeout. ctx is that of the handler, or
// made of it; with another context, and after the handler has returned or ctx has ended, Progress
// has no effect. Any goroutine may call it, as often as it likes. The last call counts, and at
// most once a second it becomes an [events.Progress] for those who read events. Progress
// is in memory only, of message the first 256 bytes.
func Progress(ctx context.Context, done, total int64, message string) {
	if a := attemptOf(ctx); a != nil {
		a.Progress(done, total, strings.Clone(strings.ToValidUTF8(message[:min(256, len(message))], "")))
	}
}

// Heartbeat is a sign of life of a handler, as Progress is, and leaves what Progress
// said as it is; see QueueConfig.HeartbeatTimeout. Any goroutine may call it.
func Heartbeat(ctx context.Context) {
	if a := attemptOf(ctx); a != nil {
		a.Heartbeat()
	}
}

// attemptOf returns the attempt that ctx is of, nil if there is none.
func attemptOf(ctx context.Context) *attempt.Attempt {
	a, ok := ctx.(*attempt.Attempt)
	if !ok && ctx != nil {
		_ = guard.Call(func() error { a, _ = ctx.Value(attempt.Key{}).(*attempt.Attempt); return nil })
	}
	return a
}
