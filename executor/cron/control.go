package cron

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/ownership"
)

// Entry says how a schedule is doing.
type Entry struct {
	Name   string `wire:"schedule"`
	Spec   string
	Next   time.Time // the next tick, in the schedule's time zone, even if another process will fire it; dropped while Paused
	Last   time.Time // newest tick that was enqueued here, in this process or before; zero: none
	Lost   time.Time // newest tick that was missed, dropped or given up in this process, but not by Pause; zero: none
	Paused bool
	Firing bool  // a tick is being enqueued
	Err    error `wire:"error"` // why the last tick was not enqueued, or not yet; nil: it was
}

// List returns all schedules, by name.
func (c *Cron) List() []Entry {
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	now := c.now()
	entries := make([]Entry, 0, len(c.schedules))
	for _, s := range c.schedules {
		from := s.progress.handled
		if dropped := s.progress.paused || s.progress.begun.IsZero() && s.missed == MissedSkip; dropped && from.Before(now) {
			from = now
		}
		entries = append(entries, Entry{
			Name: s.name, Spec: s.spec, Next: s.table.next(from), Last: s.last, Lost: s.lost,
			Paused: s.progress.paused, Firing: c.firing[s] != nil, Err: s.err,
		})
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries
}

// find returns a schedule and the members of its group that have it.
func (c *Cron) find(name string) (*schedule, []*Cron, error) {
	if err := c.closed(); err != nil {
		return nil, nil, err
	}
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	s := c.schedules[name]
	if s == nil {
		return nil, nil, fmt.Errorf("%w: %q", ErrNotFound, name)
	}
	return s, slices.Clone(s.progress.members), nil
}

func (c *Cron) add(ctx context.Context, s *schedule) error {
	if _, _, err := c.find(s.name); err == nil { // before anything is written under its name
		return fmt.Errorf("%w: there is a schedule %q already", executor.ErrConfig, s.name)
	} else if !errors.Is(err, ErrNotFound) {
		return err
	}
	_, paused, err := c.x.SourceOffset(pauseMark(s.name))
	mark, found, unread := c.x.SourceOffset(tickMark(s.name))
	if err = cmp.Or(err, unread); err != nil {
		return err
	}
	if !found {
		// Nothing has been missed so far, and that is known after a crash, too.
		mark = c.now().Unix()
		if err := ownership.Raise(ctx, c.x, tickMark(s.name), mark); err != nil {
			return err
		}
	}
	fired := mark
	if mark, err = (ticker{c, s}).divide(ctx, mark); err != nil {
		return err
	}
	c.group.mu.Lock()
	defer c.group.mu.Unlock()
	if c.err != nil {
		return c.err
	} else if c.schedules[s.name] != nil {
		return fmt.Errorf("%w: there is a schedule %q already", executor.ErrConfig, s.name)
	}
	s.progress = c.group.join(s.name, c, time.Unix(max(mark, 0), 0), paused)
	if at := time.Unix(fired, 0); found && s.table.next(at.Add(-time.Second)).Equal(at) { // not that of Add
		s.last = at.In(s.table.zone)
	}
	c.schedules[s.name] = s
	c.poke()
	return nil
}

// fails reports whether an error of a member counts: one whose executor has ended is about to leave.
func (c *Cron) fails(m *Cron, err error) bool { return err != nil && (m.x == c.x || !isEnd(err)) }

// Pause has the ticks of a schedule dropped until Resume, in the whole group. It is
// written down, in the journal of each member whose executor goes on, before it returns
// nil. A tick that is being enqueued is not held. It returns ErrNotFound, the ErrClosed of an
// ended Cron, or an error of [executor.Executor.SetSourceOffset]; after that some of the journals
// may have the pause, which then holds from their next start on.
func (c *Cron) Pause(ctx context.Context, name string) error {
	s, members, err := c.find(name)
	if err != nil {
		return err
	}
	for _, m := range members {
		if err := m.x.SetSourceOffset(ctx, pauseMark(name), c.now().Unix()); c.fails(m, err) {
			return err
		}
	}
	c.group.locked(func() { s.progress.paused = true })
	return nil
}

// Resume ends a pause: ticks from now on fire. Ticks up to now are over, whatever
// was written down before: that is also how to go on after the clock was wrong, and
// far ahead, for a while. On a schedule that is not paused it does just that. It waits
// for a tick that is being enqueued, and none is begun meanwhile: called from the Payload of
// that schedule, or by Config.Logger about one of its ticks, it waits for itself until ctx ends.
func (c *Cron) Resume(ctx context.Context, name string) error {
	ctx, err := guard.Context(ctx)
	if err != nil {
		return err
	}
	s, members, err := c.find(name)
	if err != nil {
		return err
	}
	letGo, err := c.hold(ctx, s)
	defer letGo()
	if err != nil {
		return err
	}
	now := c.now()
	for _, m := range members {
		if err := m.x.SetSourceOffset(ctx, tickMark(name), now.Unix()); c.fails(m, err) {
			return err
		}
		if err := m.x.DeleteSourceOffset(ctx, pauseMark(name)); c.fails(m, err) {
			return err
		}
	}
	c.group.locked(func() { s.progress.paused, s.progress.handled = false, now })
	return nil
}

// hold has no tick of a schedule begun until letGo is called, and waits for those that are being enqueued. One that is
// refused is given back before its next attempt.
func (c *Cron) hold(ctx context.Context, s *schedule) (letGo func(), err error) {
	letGo = func() {
		c.group.mu.Lock()
		defer c.group.mu.Unlock()
		s.progress.held--
		for _, m := range s.progress.members { // some may have come meanwhile
			m.poke()
		}
	}
	var firing []chan struct{}
	c.group.mu.Lock()
	s.progress.held++
	for _, m := range s.progress.members {
		if idle := m.firing[m.schedules[s.name]]; idle != nil {
			firing = append(firing, idle)
		}
	}
	c.group.mu.Unlock()
	for i := 0; err == nil && i < len(firing); i++ {
		err = await(ctx, s.name, firing[i])
	}
	return letGo, err
}

// await waits for a tick that is being enqueued.
func await(ctx context.Context, name string, idle <-chan struct{}) error {
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cron: a tick of %q is still being enqueued: %w", name, guard.Cause(ctx))
	}
}

// TriggerNow enqueues a job of a schedule, as if it ticked now: paused or not, leader or not. The schedule's own ticks
// go on as before. Under OverlapParallel its id is like that of a tick, with nine digits behind the second:
// report@2026-11-21T04:00:00.123456789Z. It returns ErrOverlap under OverlapSkip, ErrNotFound, [executor.ErrClosed], an
// [executor.PanicError] of Payload, or an error of Enqueue, as [executor.ErrNotOwned] where a Splitter gives that id to
// another process.
func (c *Cron) TriggerNow(ctx context.Context, name string) (executor.Receipt, error) {
	s, _, err := c.find(name)
	if err != nil {
		return executor.Receipt{}, err
	}
	now := c.now()
	id := name
	switch s.overlap {
	case OverlapParallel:
		id += "@" + now.UTC().Format("2006-01-02T15:04:05.000000000Z") // never the id of a tick
	case OverlapSkip:
		if pending, err := s.pending(ctx, id); err != nil {
			return executor.Receipt{}, err
		} else if pending {
			return executor.Receipt{}, fmt.Errorf("%w: %q", ErrOverlap, name)
		}
	}
	send, err := s.prepare(s, now.In(s.table.zone), ticker{c, s}.complain)
	if err != nil {
		return executor.Receipt{}, err
	}
	return send(ctx, id, executor.Score(float64(now.Unix())))
}

// Remove takes a schedule out of this Cron and forgets its offsets and its pause, which stay while another
// member of the group has it on the same executor. It waits for a tick that is being enqueued, as Resume does.
// Its jobs stay. After ErrNotFound, [executor.ErrClosed] and a nil ctx nothing has changed; after any
// other error the schedule is out, but the journal may still have its offsets or its pause.
func (c *Cron) Remove(ctx context.Context, name string) error {
	ctx, err := guard.Context(ctx)
	if err != nil {
		return err
	}
	s, _, err := c.find(name)
	if err != nil {
		return err
	}
	c.group.mu.Lock()
	if c.schedules[name] != s { // another call has removed it
		c.group.mu.Unlock()
		return fmt.Errorf("%w: %q", ErrNotFound, name)
	}
	s.removed = true
	delete(c.schedules, name)
	if s.progress.quit(c); len(s.progress.members) == 0 {
		delete(c.group.progresses, name)
	}
	shared := slices.ContainsFunc(s.progress.members, func(m *Cron) bool { return m.x == c.x })
	idle := c.firing[s]
	c.group.mu.Unlock()
	if idle != nil {
		if err := await(ctx, name, idle); err != nil {
			return err
		}
	}
	if shared {
		return nil // they are those of another member, too
	}
	return errors.Join(c.x.DeleteSourceOffset(ctx, tickMark(name)), c.x.DeleteSourceOffset(ctx, pauseMark(name)),
		c.x.DeleteSourceOffset(ctx, overlapMark(name)))
}
