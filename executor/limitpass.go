package executor

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor/internal/limit"
	"github.com/strandjobs/strand/shard"
)

// LimitOf is a [Limit] that the jobs of a queue run under.
type LimitOf[T any] struct {
	Limit *Limit

	// Key of a payload: a customer, a host. The limit holds for each key by itself,
	// over all queues that have it. It is called as the functions of [Locks] are,
	// with what the codec gives back, when the payload is enqueued and before each
	// run, and must return 1 to 512 bytes: else Enqueue returns ErrInvalidKey.
	// Default nil: one key, "", for all, and no payload is decoded for it.
	Key func(id string, payload T) string
}

// checkLimits returns an error for a limit that can't be meant.
func (t *Queue[T]) checkLimits(x *Executor, name string) error {
	for _, of := range t.cfg.Limits {
		if of.Limit.made() != nil || of.Limit.x != x {
			return fmt.Errorf("%w: Limits of queue %q must come from NewLimit with the same executor", ErrConfig, name)
		}
	}
	return nil
}

// limitsByPayload reports whether there is a limit with a Key.
func (t *Queue[T]) limitsByPayload() bool {
	return slices.ContainsFunc(t.cfg.Limits, func(of LimitOf[T]) bool { return of.Key != nil })
}

// needsOfAll adds what a job needs whatever its payloads are.
func (t *Queue[T]) needsOfAll(w *wants) {
	for _, of := range t.cfg.Limits {
		if of.Key == nil {
			w.limits = with(w.limits, limit.Need{Limit: of.Limit.limit})
		}
	}
}

// needsOf adds what a job needs for one of its payloads.
func (t *Queue[T]) needsOf(w *wants, id string, value T) error {
	for _, of := range t.cfg.Limits {
		if of.Key == nil {
			continue
		}
		keys, err := keysOf("Limits.Key", func(id string, value T) []string { return []string{of.Key(id, value)} }, id, value)
		if err != nil {
			return err
		}
		w.limits = with(w.limits, limit.Need{Limit: of.Limit.limit, Key: keys[0]})
	}
	return nil
}

// passLimits takes what a job needs of its limits, in one step and after all else,
// so that it holds nothing of a limit while it waits, for that or for another thing.
// woken and err say what became of it before.
func (w *worker) passLimits(it *shard.Item, c *claim, woken *atomic.Bool, err error) (*atomic.Bool, error) {
	l := &w.x.limits
	switch {
	case woken != nil:
		l.do(func(t *limit.Table, now int64) { t.Aside(now, c.by) })
		return woken, nil
	case err != nil || len(c.needs) == 0:
		l.do(func(t *limit.Table, now int64) { t.Leave(now, c.by) })
		return nil, err
	}
	woken, wake := w.limitWaker(it, c.by)
	l.do(func(t *limit.Table, now int64) { c.limited = t.Enter(now, c.by, c.needs, wake) })
	if c.limited != nil {
		return nil, nil
	}
	return woken, nil
}

// limitWaker is [worker.waker] for a job whose turn is kept: one that is not going to
// come, because it is gone or was put off meanwhile, lets others have it.
func (w *worker) limitWaker(it *shard.Item, by holder) (*atomic.Bool, func()) {
	woken, s, id, l := new(atomic.Bool), w.run.Shard, it.ID, &w.x.limits
	return woken, func() {
		woken.Store(true)
		s.Tell(func(c *shard.Core) {
			c.Unpark(id)
			if job := c.Status(id); !job.Known || !job.Running && (job.Halted || c.Paused(id) || job.Due > time.Now().UnixNano()) {
				l.do(func(t *limit.Table, now int64) { t.Aside(now, by) })
			}
		})
	}
}

// leaveLimits gives back what the jobs of the batch had, once it is known what became
// of them: before hooks, the shard and the disk hear of it.
func (w *worker) leaveLimits() {
	if !w.queue.locking.limited {
		return
	}
	w.x.limits.do(func(t *limit.Table, now int64) {
		for _, it := range w.batch {
			if c := claimOf(it.Claim); c != nil && c.limited != nil {
				t.Release(now, c.limited)
				c.limited = nil
			}
		}
	})
}

// leaveLimits is that of the worker for a job that came to no end there.
func (c *claim) leaveLimits() {
	if c.limited != nil {
		c.queue.x.limits.do(func(t *limit.Table, now int64) { t.Release(now, c.limited) })
		c.limited = nil
	}
}

// explain says which limit a parked job waits for; false: none.
func (l *limits) explain(e *Explanation) (waits bool) {
	l.do(func(t *limit.Table, now int64) {
		k, called, ok := t.Waits(holder{Queue: e.Queue, ID: e.ID})
		if waits = ok; !ok {
			return
		}
		if called {
			e.State = JobReady // its shard is about to hear of it
			return
		}
		e.State = JobLimited
		e.Limit = new(l.shown(k, now))
	})
	return waits
}

// String is one line, as that of [Explanation].
func (k LimitKey) String() string {
	line := "limit " + brief(k.Limit)
	if k.Key != "" {
		line += ", key " + brief(k.Key)
	}
	if k.Config.Concurrent > 0 {
		line += fmt.Sprintf(", %d of %d running", k.Running, k.Config.Concurrent)
	}
	if !k.Until.IsZero() {
		line += ", until " + k.Until.Format(time.RFC3339Nano)
	}
	if k.Waiting > 1 {
		line += fmt.Sprintf(", %d waiting", k.Waiting)
	}
	return line
}
