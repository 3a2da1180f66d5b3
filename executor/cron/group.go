package cron

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/lock"
)

// Group is several Crons with the same schedules, of which one at a time fires: the leader. Members
// may work on one executor or on several, and are given the same schedules. What one of them has
// fired no other one fires, and so they have to own the same ids, where a Splitter divides these.
//
// The offset of a tick is in the journal of the executor that it went to. After a
// restart the members of a group know of each other's ticks as soon as their
// schedules are added: add those of all members before any of them is started.
type Group struct {
	election *lock.Election // nil: the only member leads

	// mu guards what follows, and what the members and their schedules say it does.
	// Nothing is called under it, and no disk is waited for.
	mu         sync.Mutex
	members    map[string]*Cron
	progresses map[string]*progress
}

// NewGroup returns the group of an election, which belongs to it alone. Unless the
// election extends by itself, a leader extends its lease each time it looks at the
// clock, three times in a lease at least: one that hangs loses it.
//
//	election, err := new(lock.Table).NewElection("cron", lock.ElectionConfig{})
//	group, err := cron.NewGroup(election)
//	c, err := cron.New(x, cron.Config{Group: group, Member: "a"})
func NewGroup(election *lock.Election) (*Group, error) {
	if election == nil {
		return nil, fmt.Errorf("%w: a group has an election; lock.Table.NewElection makes one", executor.ErrConfig)
	}
	return newGroup(election), nil
}

func newGroup(election *lock.Election) *Group {
	return &Group{election: election, members: make(map[string]*Cron), progresses: make(map[string]*progress)}
}

// locked calls f under mu.
func (g *Group) locked(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

// progress is how far the ticks of a schedule have come, for all members.
type progress struct {
	members []*Cron   // that have the schedule
	begun   time.Time // when a leader looked at it for the first time
	paused  bool
	held    int // calls while which no tick is begun

	// handled: all ticks up to here are over, or in the hands of a member: fired,
	// missed, given up. Invariant: the member that enqueues a tick has moved it
	// there before, in one step with looking, so no tick is in two hands.
	handled time.Time
}

// join adds a member with a schedule to the progress of that name. The caller holds mu.
func (g *Group) join(name string, c *Cron, handled time.Time, paused bool) *progress {
	r := g.progresses[name]
	if r == nil {
		r = new(progress)
		g.progresses[name] = r
	}
	r.members = append(r.members, c)
	r.paused = r.paused || paused
	r.advance(handled)
	return r
}

// quit takes a member out of a progress. The caller holds mu.
func (r *progress) quit(c *Cron) {
	r.members = slices.DeleteFunc(r.members, func(m *Cron) bool { return m == c })
}

// advance never goes back. The caller holds mu.
func (r *progress) advance(to time.Time) {
	if to.After(r.handled) {
		r.handled = to
	}
}

// stand tries to lead. It returns until when to look again at the latest, and a
// channel that is closed when another member may lead, or none does.
func (c *Cron) stand() (time.Duration, <-chan struct{}) {
	e := c.group.election
	if e == nil {
		return c.look, nil
	}
	for range 2 { // the leader may go between the two questions
		leads := c.candidate.IsLeader()
		leader, changed := e.Leader()
		if leads {
			if c.term.Err() != nil { // another one begins, unless it is lost at once: the channel says so, too
				if ctx, end, err := c.candidate.Context(c.ctx); err == nil {
					c.term, c.endTerm = ctx, end
					c.report(slog.LevelInfo, "cron leads", slog.String("member", c.cfg.Member))
				}
			}
			if leader.Until.IsZero() { // a lease of centuries
				return c.look, changed
			}
			return min(c.look, time.Until(leader.Until)/3), changed
		}
		if c.endTerm(); leader.Owner != "" {
			return c.look, changed // at the executor, which may have ended
		}
	}
	return c.look, nil
}

// SetLease makes the lease of the leader last d from now on: the present one, and each
// that this member takes or extends later. Only the leader may change it. The lease of
// another member is as long as the election, or a SetLease of its own, says. It returns,
// without effect, [lock.ErrNotLeader] when this member does not lead, [executor.ErrConfig]
// for a d that is not above zero and for a Cron without a Group, and [executor.ErrClosed].
func (c *Cron) SetLease(d time.Duration) error {
	switch err := c.closed(); {
	case err != nil:
		return err
	case c.candidate == nil:
		return fmt.Errorf("%w: no Group, so no lease; Config.Group is for several members", executor.ErrConfig)
	case d <= 0:
		return fmt.Errorf("%w: a lease of %v, it must be above zero", executor.ErrConfig, d)
	}
	if err := c.candidate.SetLease(d); err != nil {
		return fmt.Errorf("cron: the lease is the leader's to change: %w", err)
	}
	c.poke() // a shorter one is extended sooner
	return nil
}
