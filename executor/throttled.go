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

// Throttled is for a handler that was told to come back later, by a 429 with a
// Retry-After say: the job runs again after d, which is no failure, and until then
// no job starts that has one of its keys, in any of the limits of its queue; see
// QueueConfig.Limits. Jobs of other keys go on. Without limits it is [Snooze]. With
// [PayloadErrors] and [BatchErrors] it is for the payload or the id that it stands
// for, and pauses all keys of that id. A d below zero means zero. The job itself waits
// for d also when somebody ends the pause of its key before. Its [EventSnoozed] has the
// text of the error; as it is no failure, LastError does not.
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
	if c := claimOf(it.Claim); c != nil && c.limited != nil && e.After > 0 {
		var only *limit.Limit
		if e.Limit != nil {
			only = e.Limit.limit
		}
		w.x.limits.do(func(t *limit.Table, now int64) {
			t.Throttle(now, c.limited, only, now+int64(min(e.After, maxPause)))
		})
	}
	it.Outcome.Error = text(err.Error)
	it.Outcome.Delay, it.Outcome.Verdict = e.After, shard.VerdictSnoozed
	return true
}
