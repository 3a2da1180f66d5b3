package executor

import (
	"fmt"
	"time"

	"github.com/strandjobs/strand/executor/internal/limit"
	"github.com/strandjobs/strand/shard"
)

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
	it.Outcome.Error = text(err.Error)
	it.Outcome.Delay, it.Outcome.Verdict = e.After, shard.VerdictSnoozed
	return true
}
