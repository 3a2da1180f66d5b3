package executor

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/limit"
	"github.com/strandjobs/strand/shard"
)

// A handler says what is to become of its job by what it returns: nil is done, one
// of the following is a wish, and anything else is a failure, which spends a retry.
// Wishes may be wrapped. The [FullError] of a full disk, which a follow-up gets, is
// no failure: the job waits as if it were, and keeps its retries.
//
// What is around a handler, to measure it or to translate its errors, tells the
// wishes apart with [errors.As], or [errors.AsType]: they are a [*CancelError], a
// [*DiscardError], a [*SnoozeError], a [*ThrottledError] and a [*RetryError]; [Fatal],
// which may be around any of them, is a [*FatalError]. A value
// of one of these types that the program makes itself is the same wish; a nil pointer is
// a failure.

// CancelError is what [Cancel] returns.
type CancelError struct{ Err error } // the reason

// DiscardError is what [Discard] returns.
type DiscardError struct{}

// SnoozeError is what [Snooze] returns.
type SnoozeError struct{ After time.Duration }

// RetryError is what [RetryAfter] returns.
type RetryError struct {
	After time.Duration
	Err   error // the failure
}

// Cancel makes the payloads dead letters now, with err as the reason, because no retry
// could help. A person can put them back.
func Cancel(err error) error { return &CancelError{err} }

// Discard ends the payloads as done, except that they are counted as discarded, and
// follow-ups of the run are dropped.
func Discard() error { return &DiscardError{} }

// Snooze runs the job again after d. It is no failure and spends no retry. A d below
// zero means zero. If the error is wrapped, its text is in the job's [events.Snoozed].
func Snooze(d time.Duration) error { return &SnoozeError{max(d, 0)} }

// RetryAfter is a failure with err that names its own pause: the job runs again after d
// instead of after QueueConfig.RetryIn, and spends a retry. A d below zero means zero.
func RetryAfter(d time.Duration, err error) error { return &RetryError{max(d, 0), err} }

// asWish finds a wish in an error. A nil pointer is none.
func asWish[T any, W interface {
	*T
	error
}](err error) (W, bool) {
	w, found := errors.AsType[W](err)
	return w, found && w != nil
}

func (e *CancelError) Error() string  { return "cancelled: " + reason(e.Err) }
func (e *CancelError) Unwrap() error  { return e.Err }
func (e *DiscardError) Error() string { return "discarded" }
func (e *SnoozeError) Error() string  { return fmt.Sprintf("snoozed for %v", e.After) }
func (e *RetryError) Error() string   { return reason(e.Err) }
func (e *RetryError) Unwrap() error   { return e.Err }

// BatchErrors is what a handler of [HandleBatch] returns when ids had different
// outcomes, by id. Each id gets its own outcome, as if its own handler had returned
// that error; an id with a nil error, or without an entry, is done. An entry for an id
// that is not in the batch fails every id without an entry, because it must have been
// meant for one of them.
type BatchErrors map[string]error

func (e BatchErrors) Error() string { return joined(e, "%s: %v") }

// PayloadErrors is what a handler of [HandleMerged] returns when the payloads of a job
// had different outcomes, by Payload.Position. A payload with a nil error, or without
// an entry, is done. [Cancel] and [Discard] end the payload that they are for. All
// payloads that fail or snooze run again together, after the longest of their pauses:
// as one failure with the first error, or as a snooze if none has failed. An entry for
// a position that is not in the job is a failure of all payloads without an entry.
//
// In [BatchErrors] it may stand for an id. With [Handle] it is a failure, and in a
// queue with Locks.Unlock it is a failure of all payloads, because the executor can't
// tell which keys a part of a job unlocks.
type PayloadErrors map[uint64]error

func (e PayloadErrors) Error() string { return joined(e, "payload %d: %v") }

// joined is the texts of errors, in the order of what they are for.
func joined[K cmp.Ordered](errs map[K]error, format string) string {
	var texts []string
	for _, of := range slices.Sorted(maps.Keys(errs)) {
		texts = append(texts, fmt.Sprintf(format, of, errs[of]))
	}
	return strings.Join(texts, "; ")
}

// ThrottledError is what [Throttled] and [Limit.Throttled] return.
type ThrottledError struct {
	After time.Duration // at most ten years of pause
	Err   error         // why
	Limit *Limit        // whose key is paused; nil: the keys of all limits of the queue
}

// Throttled is for a handler that a service told to come back later, for example by a
// 429 with a Retry-After. The job runs again after d, which is no failure and spends no
// retry. Until then no job starts that has one of its keys, in any of the limits of its
// queue (see QueueConfig.Conditions.Limits); jobs of other keys go on. In a queue
// without limits it is [Snooze]. A d below zero means zero.
//
// In [PayloadErrors] and [BatchErrors] it is for that payload or id, and pauses all
// keys of the id. The job itself waits for d even if a person ends the pause of its key
// before. The text of err is in its [events.Snoozed], and because this is no failure not
// in LastError.
func Throttled(d time.Duration, err error) error {
	return &ThrottledError{After: max(d, 0), Err: err}
}

// Throttled is the function of that name for a queue with several limits: it pauses
// the job's keys in this one only.
func (l *Limit) Throttled(d time.Duration, err error) error {
	return &ThrottledError{After: max(d, 0), Err: err, Limit: l}
}

func (e *ThrottledError) Error() string {
	return fmt.Sprintf("throttled for %v: %s", e.After, reason(e.Err))
}

func (e *ThrottledError) Unwrap() error { return e.Err }

// throttled judges an error that pauses the keys of its job; false: it is another.
func (w *worker) throttled(it *shard.Item, err error) bool {
	e, is := asWish[ThrottledError](err)
	if !is {
		return false
	}
	if e.After > 0 {
		var only *limit.Limit
		if e.Limit != nil {
			only = e.Limit.limit
		}
		limit.Throttle(claimOf(it.Claim), only, min(e.After, maxPause))
	}
	it.Outcome.Error = guard.Text(err.Error)
	it.Outcome.Delay, it.Outcome.Verdict = e.After, shard.VerdictSnoozed
	return true
}
