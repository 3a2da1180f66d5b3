package cron

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cluster"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/lock"
)

// Config says which group a Cron belongs to, and where it logs. The zero Config works.
type Config struct {
	// Group of which one member at a time fires. Default nil: this one fires.
	Group *Group

	// Member is the name of this one in its group, where it is unique. Needed with a Group.
	Member string

	// Logger gets missed ticks, one line for each gap, what could not be enqueued,
	// and who leads. Default [slog.Default], as it is when New is called.
	Logger *slog.Logger
}

const (
	// lookEvery is the longest time between two looks at the clock, which may be set.
	lookEvery = time.Minute
	never     = math.MaxInt64
)

// Cron enqueues the jobs of its schedules when they tick. Its methods may be called
// from any goroutine.
type Cron struct {
	x         *executor.Executor
	cfg       Config
	group     *Group
	candidate *lock.Candidate
	now       func() time.Time
	look      time.Duration // at the clock, at least; lookEvery, except in tests

	ctx    context.Context // ends after Stop, and then what still enqueues does
	cancel context.CancelCauseFunc

	wake    chan struct{} // holds a token while the clock is to be looked at
	closing chan struct{} // closed when nothing is to be fired any more
	ended   chan struct{} // closed when the clock has ended
	retired sync.Once

	// Of the clock's goroutine.
	term    context.Context // ends when this one does not lead any longer
	endTerm context.CancelFunc

	// Guarded by group.mu.
	schedules map[string]*schedule
	firing    map[*schedule]chan struct{} // closed when it ends
	started   bool
	err       error // executor.ErrClosed, once closing is closed
}

// New returns a Cron for the queues of x that fires nothing yet. It returns
// [executor.ErrConfig], also for the executor of a cluster, whose partitions have a Cron each,
// and for the name of a member that is taken.
func New(x *executor.Executor, cfg Config) (*Cron, error) {
	switch {
	case x == nil:
		return nil, fmt.Errorf("%w: no executor; executor.Open makes one", executor.ErrConfig)
	case cluster.Of(x) != nil:
		return nil, fmt.Errorf("%w: x is of a cluster; make a Cron for each partition, as in Setup of journal/postgres", executor.ErrConfig)
	case cfg.Group != nil && cfg.Member == "":
		return nil, fmt.Errorf("%w: Member is empty, a group knows its members by name", executor.ErrConfig)
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	c := &Cron{
		x: x, cfg: cfg, group: cfg.Group, look: lookEvery,
		now:  func() time.Time { return time.Now().Round(0) }, // ticks are about the wall clock, which may be set
		wake: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{}),
		schedules: make(map[string]*schedule), firing: make(map[*schedule]chan struct{}),
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	if c.group == nil {
		c.group, c.term = newGroup(nil), c.ctx
		return c, nil
	}
	var err error
	if c.candidate, err = c.group.election.Candidate(cfg.Member); err != nil {
		return nil, fmt.Errorf("%w: %w", executor.ErrConfig, err)
	}
	c.term, c.endTerm = context.WithCancel(c.ctx)
	c.endTerm() // it does not lead
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	if c.group.members[cfg.Member] != nil {
		return nil, fmt.Errorf("%w: the group has a member %q already", executor.ErrConfig, cfg.Member)
	}
	c.group.members[cfg.Member] = c
	return c, nil
}

// Start begins to fire, if it leads; jobs wait for the Start of the executor. Schedules may be added later, too.
// It returns [executor.ErrClosed] after Stop, also that of the executor; a second call does nothing.
func (c *Cron) Start() error {
	if err := c.gone(); err != nil {
		return err
	}
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	if c.err != nil || c.started {
		return c.err
	}
	c.started = true
	go c.clock() // ends in Stop, which waits for it
	return nil
}

// clock is the goroutine that looks at the clock: when the next tick is due, when
// the leader changes, and when it is told to.
func (c *Cron) clock() {
	defer func() {
		if c.gone() != nil {
			c.retire() // ended is closed
		}
	}()
	defer close(c.ended)
	timer := time.NewTimer(never)
	defer timer.Stop()
	for {
		if c.gone() != nil { // nothing else tells, where all ticks are another process's
			c.close()
			return
		}
		latest, changed := c.stand()
		if c.term.Err() == nil {
			latest = min(latest, c.fireDue())
		}
		timer.Reset(max(latest, 0))
		select {
		case <-timer.C:
		case <-changed:
		case <-c.wake:
		case <-c.closing:
			return
		}
	}
}

// fireDue has schedules fire what is due. It returns when the next tick is.
func (c *Cron) fireDue() (next time.Duration) {
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	next = never
	if c.err != nil {
		return next
	}
	now := c.now()
	for _, s := range c.schedules {
		if c.firing[s] != nil || s.progress.paused || s.progress.held > 0 {
			continue // the call that changes that wakes the clock
		}
		if r := s.progress; r.begun.IsZero() { // no leader has looked at it: what was missed before is over, or is made up for
			r.begun = now
		}
		if tick := s.nextTick(); tick.After(now) {
			next = min(next, tick.Sub(now))
		} else if !tick.IsZero() {
			c.firing[s] = make(chan struct{})
			go ticker{c, s}.fire(c.term) // ends with the term; Stop and Remove wait for it
		}
	}
	return next
}

// gone returns executor.ErrClosed when the executor accepts nothing any more.
func (c *Cron) gone() error {
	if err := c.x.Err(); isEnd(err) {
		return fmt.Errorf("%w: the executor has ended: %w", executor.ErrClosed, err)
	}
	return nil
}

// poke has the clock looked at.
func (c *Cron) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// closed returns executor.ErrClosed after Stop, also that of the executor.
func (c *Cron) closed() error {
	if err := c.gone(); err != nil {
		return err
	}
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	return c.err
}

// Leads reports whether this Cron fires at the moment.
func (c *Cron) Leads() bool {
	var live bool
	c.group.locked(func() { live = c.started && c.err == nil })
	return live && (c.candidate == nil || c.candidate.Epoch() != 0)
}

// Stop ends the firing for good, waits until what is being enqueued is, or ctx ends, and lets
// another member lead. Jobs that were enqueued are not concerned. It is idempotent, and returns
// [executor.ErrStuck] when ctx ended first: the schedules that the text names give up the tick that they have
// in hand. In a group the next leader fires that one, if it has not gone on to a later tick. It
// returns [executor.ErrContext], and stops nothing, for a ctx that is nil or panics.
func (c *Cron) Stop(ctx context.Context) error {
	ctx, err := guard.Context(ctx)
	if err != nil {
		return err
	}
	started := c.close()
	if started {
		<-c.ended
	}
	var firing []chan struct{}
	c.group.locked(func() { firing = slices.Collect(maps.Values(c.firing)) })
	for _, idle := range firing {
		_ = await(ctx, "", idle) // who is stuck is asked below
	}
	var stuck []string
	c.group.locked(func() {
		for s := range c.firing {
			stuck = append(stuck, s.name)
		}
	})
	c.cancel(executor.ErrStopping) // which isEnd does not take for the end of the executor
	c.retire()
	if len(stuck) > 0 {
		slices.Sort(stuck)
		return fmt.Errorf("%w: the schedules %s", executor.ErrStuck, strings.Join(stuck, ", "))
	}
	return nil
}

// close has nothing more fired.
func (c *Cron) close() (started bool) {
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	if c.err == nil {
		c.err = fmt.Errorf("%w: the Cron was stopped", executor.ErrClosed)
		close(c.closing)
	}
	return c.started
}

// retire leaves the group. The clock has ended: it would stand again.
func (c *Cron) retire() {
	if c.candidate == nil {
		return
	}
	c.retired.Do(func() {
		c.group.locked(func() {
			delete(c.group.members, c.cfg.Member)
			for _, s := range c.schedules {
				s.progress.quit(c) // and the progress stays, for the next member
			}
		})
		_ = c.candidate.Resign() // ErrNotLeader, if it does not lead
	})
}

// report logs, on a goroutine of its own, for which it waits. A line is worth less than what it is
// about: a panic or a Goexit of the user's handler ends here.
func (c *Cron) report(level slog.Level, message string, attrs ...slog.Attr) {
	<-guard.Returned(func() {
		_ = guard.Call(func() error { c.cfg.Logger.LogAttrs(context.Background(), level, message, attrs...); return nil })
	})
}

// Errors of schedules that are there.
var (
	// ErrNotFound is returned for a name that has no schedule.
	ErrNotFound = errors.New("cron: no such schedule")
	// ErrOverlap is returned by TriggerNow under OverlapSkip while the job of an
	// earlier tick is not over.
	ErrOverlap = errors.New("cron: the former job is not over")
)
