package executor

import (
	"cmp"
	"fmt"
	"time"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/executor/internal/keylock"
	"github.com/strandjobs/strand/executor/internal/limit"
	"github.com/strandjobs/strand/executor/internal/submit"
)

// LimitConfig of a [Limit], with the fields of [inspect.LimitSetting]. The zero LimitConfig limits
// nothing until [Limit.Set] or a pause. Numbers below zero are refused with ErrConfig, as are
// settings without effect or out of bounds. A new limit, so each process, begins without a Burst.
type LimitConfig = inspect.LimitSetting

// Limit bounds how many jobs with the same key run at a time, and how many start in a
// span of time: for each customer, each host, or for all. [NewLimit] makes it, and
// QueueConfig.Conditions.Limits says which queues run under it, and what the key of a
// payload is. Several queues may share one. For a limit without keys on one queue,
// MaxConcurrent costs less.
//
// A job that has to wait is blocked: it keeps its place in its id, takes no worker, spends no retry, and holds no lock,
// slot or other limit meanwhile. When it may run, it takes all that it needs in one step; so limits can't make jobs
// wait for each other in a circle. Jobs of a queue start in the order in which workers came to them, and queues that
// wait for the same key take turns. A job whose turn has come lets the next one go first if no worker comes to it
// within 10 ms, because all are busy. A job with several limits or keys lets others go first while one of them is
// taken. When it has failed to get all of them eight times, one place of each key is kept free for it, longer with each
// further failure.
//
// A handler that was told to come back later, by a 429 for example, returns
// [Throttled], which pauses its keys and spends no retry. Set and Pause hold for jobs
// that already wait, too.
//
// The methods may be called from any goroutine, handlers included, and don't block.
// After Stop they have no effect. [inspect.Inspector.Limits] shows limits and their
// keys. See "Limits" in the guide (README.md).
type Limit struct {
	x     *Executor
	name  string
	limit *limit.Limit // guarded by limits.Do
}

// NewLimit makes a limit. The name, of 1 to 512 bytes, is for people; each limit of an
// executor needs another. Make it before the queues that use it.
//
// Without Cluster it is kept in memory: a restart forgets pauses, what [Limit.Set] has changed,
// and when jobs have started. So a key may start more jobs around a restart than Rate
// says; it does not get another Burst, though.
//
// It returns ErrConfig, ErrInvalidKey for the name, ErrState after Start in a cluster, or ErrClosed after Stop.
func NewLimit(x *Executor, name string, cfg LimitConfig) (*Limit, error) {
	if x == nil {
		return nil, fmt.Errorf("%w: limit %q has no executor; Open makes one", ErrConfig, name)
	}
	c, err := fullLimit(name, cfg)
	switch err := cmp.Or(submit.CheckName(name), err); {
	case err != nil:
		return nil, err
	case x.life.Stopping.Load():
		return nil, ErrClosed
	case x.cluster != nil && x.life.Begun():
		return nil, fmt.Errorf("%w: limit %q comes after Start; a cluster has all of its limits before", ErrState, name)
	case c.Cluster && x.front != nil:
		return nil, fmt.Errorf("%w: limit %q is made with the executor of a partition, and Cluster set; make it with that of the cluster", ErrConfig, name)
	}
	l := &Limit{x: x, name: name, limit: x.limits.Add(name, c)}
	if l.limit == nil {
		return nil, fmt.Errorf("%w: limit %q exists already", ErrConfig, name)
	}
	if c.Cluster && x.cluster != nil { // without Start it may be paused, too
		x.cluster.limited.Do(func() { go x.limits.Keep(x.crew.Handlers, x.cluster.all) })
	}
	return l, nil
}

// fullLimit returns the settings of a limit with their defaults.
func fullLimit(name string, c LimitConfig) (limit.Config, error) {
	full, err := limit.Config(c).WithDefaults()
	if err != nil {
		err = fmt.Errorf("%w: limit %q: %w", ErrConfig, name, err)
	}
	return full, err
}

// Name returns the name of the limit.
func (l *Limit) Name() string { return l.name }

func (l *Limit) made() error {
	if l == nil || l.limit == nil {
		return fmt.Errorf("%w: this limit was not made by NewLimit", ErrState)
	}
	return nil
}

// Set replaces the limit's configuration. Jobs that run go on, and jobs that wait and
// may run now are woken. It looks at each key that is in use. It returns ErrConfig, or
// ErrState for a limit that NewLimit has not made, and then nothing has changed.
func (l *Limit) Set(cfg LimitConfig) error {
	if err := l.made(); err != nil {
		return err
	}
	c, err := fullLimit(l.name, cfg)
	if err != nil {
		return err
	}
	l.x.limits.Do(func(_ *limit.Table, now int64) {
		if c.Cluster != l.limit.Config().Cluster {
			err = fmt.Errorf("%w: limit %q: Cluster can't be changed", ErrConfig, l.name)
			return
		}
		l.limit.Set(now, c)
	})
	return err
}

const maxPause = 10 * 366 * 24 * time.Hour // of a key

// Pause keeps the jobs of a key from starting for the time d from now; what runs goes
// on. It takes the place of an earlier pause, and zero or less ends that. The key of a
// limit without a Key function is "". It returns ErrConfig for more than ten years,
// ErrInvalidKey or ErrState.
func (l *Limit) Pause(key string, d time.Duration) error {
	err := l.made()
	if err == nil && key != "" { // that of a limit without a Key
		err = keylock.CheckKey(key)
	}
	if err == nil && d > maxPause {
		err = fmt.Errorf("%w: a pause of %v, it must not be above %v", ErrConfig, d, maxPause)
	}
	if err != nil {
		return err
	}
	l.x.limits.Do(func(_ *limit.Table, now int64) { l.limit.Pause(now, key, now+int64(max(d, 0))) })
	return nil
}

// Throttled runs the job again after d, and until then pauses its keys: in the limits of its queue that are given, or in
// all of them if none or nil is. A longer pause stays, and a restart forgets all. It is for a handler that a service told
// to come back later, for example by a 429 with a Retry-After. It is no failure and spends no retry. Meanwhile
// no job of these keys starts (see QueueConfig.Conditions.Limits); jobs of other keys go on. In a
// queue without limits it is [Snooze]. A d below zero means zero.
//
// In [PayloadErrors] and [BatchErrors] it is for that payload or id, and pauses all keys
// of the id. The job itself waits for d even if a person ends the pause of its key
// before. Because this is no failure, the text of err is not in LastError, but in its
// [events.Snoozed].
func Throttled(d time.Duration, err error, in ...*Limit) error {
	only := each.Of(in, func(l *Limit) *limit.Limit {
		if l == nil {
			return nil
		}
		return l.limit
	})
	if len(in) == 0 {
		only = []*limit.Limit{nil}
	}
	return &WishError{Outcome: events.Snoozed, After: max(d, 0), Err: err, asks: func(c *admit.Claim) {
		for _, l := range only {
			if d > 0 {
				limit.Throttle(c, l, min(d, maxPause))
			}
		}
	}}
}

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

// addLimits adds the limits that jobs run under. They are the last of all, so that a job
// holds nothing of a limit while it waits.
func addLimits[T any](q *queue, limits []LimitOf[T], a *admit.List) error {
	if len(limits) == 0 {
		return nil
	}
	c, byPayload := &limit.Condition{Limits: q.x.limits}, false
	if q.x.front != nil && limits[0].Limit.made() == nil {
		c.Limits = limits[0].Limit.x.limits // of the front, or of the partition
	}
	for _, of := range limits {
		if of.Limit.made() != nil || of.Limit.x.limits != c.Limits || of.Limit.x != q.x && of.Limit.x != q.x.front {
			return fmt.Errorf("%w: Conditions.Limits of queue %q must come from NewLimit with the same executor", ErrConfig, q.Name)
		}
		c.Of = append(c.Of, limit.Of{Limit: of.Limit.limit, Key: keylock.ComputeOne("Limits.Key", of.Key)})
		byPayload = byPayload || of.Key != nil
	}
	if byPayload {
		a.Check(c)
	}
	a.Ask(c)
	return nil
}
