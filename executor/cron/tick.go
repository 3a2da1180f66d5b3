package cron

import (
	"context"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/internal/ownership"
)

// How a tick is made once, however many Crons fire it: each enqueues it under
// [executor.FromSource], with its time as the offset, in the commit of its payload.
// Every call after the first gets a [executor.StaleError].
func tickMark(name string) string { return "cron/tick/" + name }

// id is that of the job of a tick.
func (s *schedule) id(tick time.Time) string {
	if s.overlap == OverlapParallel {
		return s.name + "@" + tick.UTC().Format(time.RFC3339)
	}
	return s.name
}

// refuse returns [executor.ErrNotOwned] for a tick that is another process's. It is
// asked before Payload is, which would be called in all of them.
func (c *Cron) refuse(s *schedule, tick time.Time) error { return ownership.Refuse(c.x, s.id(tick)) }

// attempt is a tick in hand.
type attempt struct {
	c    *Cron
	s    *schedule
	tick time.Time
	next time.Time // when it is given up, unless all are caught up; zero: never
	send send      // with its payload; nil before it was asked for
}

// enqueue tries once. Where Enqueue waits for room, it does so for a while.
func (a *attempt) enqueue(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lastPause)
	defer cancel()
	s, id := a.s, a.s.id(a.tick)
	if err := a.c.refuse(s, a.tick); err != nil {
		return err
	}
	if s.overlap == OverlapSkip {
		if pending, err := s.pending(ctx, id); err != nil {
			return err
		} else if pending {
			return a.drop(ctx)
		}
	}
	if a.send == nil {
		send, err := s.prepare(s, a.tick)
		if err != nil {
			return err
		}
		a.send = send
	}
	_, err := a.send(ctx, id, executor.FromSource(tickMark(s.name), a.tick.Unix()),
		executor.At(a.tick), executor.Score(float64(a.tick.Unix())))
	return err
}

// drop says that the tick was not enqueued because of the former one's job. It is
// written down where it would be caught up otherwise.
func (a *attempt) drop(ctx context.Context) error {
	if a.s.missed != MissedSkip {
		if err := a.c.x.SetSourceOffset(ctx, tickMark(a.s.name), a.tick.Unix()); err != nil {
			return err
		}
	}
	return ErrOverlap
}

func (a *attempt) givenUp() bool {
	return a.s.missed != MissedAll && !a.next.IsZero() && !a.c.now().Before(a.next)
}

// wait waits before the next attempt; false when there may be none.
func (a *attempt) wait(o *term, pause time.Duration) bool {
	if a.s.missed != MissedAll && !a.next.IsZero() {
		pause = min(pause, a.next.Sub(a.c.now()))
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-o.ctx.Done():
	case <-a.c.closing:
	}
	return false
}
