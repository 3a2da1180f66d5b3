package executor

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/strandjobs/strand/executor/internal/limit"
)

// LimitConfig of a [Limit], or of one of its keys. The zero LimitConfig is no limit,
// until [Limit.Set] or a pause. Numbers below zero are refused, and so is what has no
// effect or is out of bounds.
type LimitConfig struct {
	// Concurrent is how many jobs of a key may run at a time, over all queues that
	// have the limit, at most 131072. Default: any number.
	Concurrent int

	// Rate is how many jobs of a key may start in Per, at most one in a
	// microsecond. In no span as long as Per do more than Rate + Burst − 1 of them
	// start. They are spread evenly, at a pace that is slower than Rate by 1/200:
	// so a start that comes late, by up to Per/200, can be made up for. Default:
	// any number.
	Rate int

	// Per is the span that Rate is for, at most 366 days. Default a second. It is
	// refused without Rate.
	Per time.Duration

	// Burst is how many may start together when none did for a while: they are
	// saved up at the pace of Rate, from when the limit is made. Default 1; at most
	// 1048576, and what takes ten years to be saved up. It is refused without Rate.
	Burst int
}

// Limit bounds how many jobs with the same key run at a time, and how many start in
// a span of time; see Limits in the package comment, and QueueConfig.Limits. Its
// methods may be called from any goroutine, handlers included, and don't block. After
// Stop they have no effect.
type Limit struct {
	x     *Executor
	name  string
	limit *limit.Limit // guarded by limits.mu
}

// NewLimit makes a limit with a name of 1 to 512 bytes, for people. One limit of a
// name may be made for an executor, before the queues that use it.
//
// It is kept in memory: a restart forgets pauses, what [Limit.Set] has changed, and
// when jobs have started. So over a restart a key may start more jobs than Rate
// says, but not another Burst.
//
// It returns ErrConfig, ErrInvalidKey for the name, or ErrClosed once Stop was
// called.
func NewLimit(x *Executor, name string, cfg LimitConfig) (*Limit, error) {
	if x == nil {
		return nil, fmt.Errorf("%w: limit %q has no executor; Open makes one", ErrConfig, name)
	}
	if err := checkName(name); err != nil {
		return nil, err
	}
	c, err := cfg.check(name)
	if err != nil {
		return nil, err
	}
	if x.stopping.Load() {
		return nil, ErrClosed
	}
	l := &Limit{x: x, name: name}
	x.limits.do(func(t *limit.Table, now int64) {
		if x.limits.named[name] != nil {
			err = fmt.Errorf("%w: limit %q exists already", ErrConfig, name)
			return
		}
		l.limit = t.NewLimit(now, name, c)
		x.limits.named[name] = l
		x.limits.all = append(x.limits.all, l)
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Limits returns the limits of the executor, in the order in which they were made.
func (x *Executor) Limits() (all []*Limit) {
	x.limits.do(func(*limit.Table, int64) { all = append(all, x.limits.all...) })
	return all
}

// check returns the settings with their defaults.
func (c LimitConfig) check(name string) (limit.Config, error) {
	full, err := limit.Config(c).WithDefaults()
	if err != nil {
		return full, fmt.Errorf("%w: limit %q: %w", ErrConfig, name, err)
	}
	return full, nil
}

// Name returns the name of the limit.
func (l *Limit) Name() string { return l.name }

// errNoLimit is what a Limit says that NewLimit has not made.
var errNoLimit = fmt.Errorf("%w: this limit was not made by NewLimit", ErrState)

func (l *Limit) made() error {
	if l == nil || l.limit == nil {
		return errNoLimit
	}
	return nil
}

// Set changes the limit, for keys that have no settings of their own. What runs goes
// on; of what waits those that may run now are woken. It looks at each key that is in
// use. It returns ErrConfig, or ErrState for a limit that NewLimit has not made, and
// then it is as it was.
func (l *Limit) Set(cfg LimitConfig) error {
	if err := l.made(); err != nil {
		return err
	}
	c, err := cfg.check(l.name)
	if err != nil {
		return err
	}
	l.x.limits.do(func(_ *limit.Table, now int64) { l.limit.Set(now, c) })
	return nil
}

// SetKey gives one key settings of its own, in the place of all of the limit's, until
// ClearKey: a customer who has paid for more, say. They are remembered also while
// the key is not in use. It returns ErrConfig, ErrInvalidKey or ErrState.
func (l *Limit) SetKey(key string, cfg LimitConfig) error {
	if err := l.made(); err != nil {
		return err
	}
	c, err := cfg.check(l.name)
	if err = cmp.Or(err, checkLimitKey(key)); err != nil {
		return err
	}
	l.x.limits.do(func(_ *limit.Table, now int64) { l.limit.SetKey(now, key, &c) })
	return nil
}

// ClearKey has the settings of the limit hold for a key again. It returns ErrState.
func (l *Limit) ClearKey(key string) error {
	if err := l.made(); err != nil {
		return err
	}
	l.x.limits.do(func(_ *limit.Table, now int64) { l.limit.SetKey(now, key, nil) })
	return nil
}

// maxPause is the longest pause of a key.
const maxPause = 10 * 366 * 24 * time.Hour

// Pause has no job of a key start for so long from now; what runs goes on. It takes
// the place of an earlier pause, and zero or less ends that. The key of a limit
// without a Key function is "". It returns ErrConfig for more than ten years,
// ErrInvalidKey or ErrState.
func (l *Limit) Pause(key string, d time.Duration) error {
	if err := cmp.Or(l.made(), checkLimitKey(key)); err != nil {
		return err
	}
	if d > maxPause {
		return fmt.Errorf("%w: a pause of %v, it must not be above %v", ErrConfig, d, maxPause)
	}
	l.x.limits.do(func(_ *limit.Table, now int64) { l.limit.Pause(now, key, now+int64(max(d, 0))) })
	return nil
}

// checkLimitKey allows "", too: the key of a limit without a Key.
func checkLimitKey(key string) error {
	if key == "" {
		return nil
	}
	return checkKey(key)
}

// LimitStats are figures of a limit.
type LimitStats struct {
	Config  LimitConfig // with its defaults
	Keys    int         // in use: of jobs that run or wait, that are paused, or whose Burst is not saved up
	Running int         // jobs; one that has several keys counts for each
	Waiting int         // jobs that wait for it
}

// Stats counts what runs and waits now. That of a nil Limit is zero.
func (l *Limit) Stats() (s LimitStats) {
	if l.made() != nil {
		return s
	}
	l.x.limits.do(func(*limit.Table, int64) {
		n := l.limit.Stats()
		s = LimitStats{LimitConfig(l.limit.Config()), n.Keys, n.Running, n.Waiting}
	})
	return s
}

// LimitKey says how it stands with a key of a limit.
type LimitKey struct {
	Limit, Key string
	Config     LimitConfig // that holds for it, with its defaults
	Running    int         // jobs
	Waiting    int         // jobs
	// Until is when the next job may start: the end of a pause, or as the rate
	// says. Zero: now, or when one that runs has ended.
	Until time.Time
	// Paused is the end of a pause. Zero: it is not paused.
	Paused time.Time
}

// Key returns how it stands with a key; one that is not in use has no jobs.
func (l *Limit) Key(key string) (k LimitKey) {
	if l.made() == nil {
		l.x.limits.do(func(_ *limit.Table, now int64) { k = l.x.limits.shown(l.limit.Key(key), now) })
	}
	return k
}

// Keys returns the keys in use, up to MaxListed of those for which most jobs wait.
func (l *Limit) Keys() (keys []LimitKey) {
	if l.made() != nil {
		return nil
	}
	l.x.limits.do(func(_ *limit.Table, now int64) {
		for _, k := range l.limit.Keys(MaxListed) {
			keys = append(keys, l.x.limits.shown(k, now))
		}
	})
	return keys
}

// shown shows a key to people, on their clock.
func (l *limits) shown(k limit.KeyStats, now int64) LimitKey {
	wall := time.Now().Round(0)
	on := func(at int64) (t time.Time) {
		if at > now && at < math.MaxInt64 {
			t = wall.Add(time.Duration(at - now))
		}
		return t
	}
	return LimitKey{k.Limit, k.Key, LimitConfig(k.Config), k.Running, k.Waiting, on(k.From), on(k.Paused)}
}
