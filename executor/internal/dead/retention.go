package dead

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/strandjobs/strand/executor/internal/tally"
	"github.com/strandjobs/strand/journal"
)

const (
	lateBy   = 64          // parts of the age
	tryAgain = time.Minute // after an error
	lastWait = 50 * time.Millisecond
)

// Open begins to delete what is kept no longer, until Close is called. The shards are there.
func (l *Letters) Open(ctx context.Context) {
	if l.c.Age > 0 || l.c.Count > 0 {
		l.clock = clock{now: l.c.Now(), at: time.Now()}
		go l.expire(ctx) // see the census
	} else {
		close(l.over)
	}
}

// Buried is told that something has gone to the morgue. It does not wait.
func (l *Letters) Buried() {
	select {
	case l.news <- struct{}{}:
	default:
	}
}

// Close stops the deleting, and waits a moment for the work at hand. The ctx of Open must have
// ended before.
func (l *Letters) Close() {
	close(l.closed)
	select {
	case <-l.over:
	case <-time.After(lastWait): // in a logger, say
	}
}

// expire sleeps until something may be too old or too much.
func (l *Letters) expire(ctx context.Context) {
	ended := false
	defer func() {
		if ended {
			close(l.over)
		} else {
			go l.expire(ctx) // a logger has ended the goroutine
		}
	}()
	look := time.NewTimer(0)
	set := l.c.Log.Buried(l.c.Number) > 0 // look will ring
	if !set {
		look.Stop()
	}
	for {
		ripe := false
		select {
		case <-l.closed:
			ended = true
			return
		case <-look.C:
			ripe, set = true, false
		case <-l.news:
			if l.c.Age > 0 && !set {
				set = true
				look.Reset(l.c.Age)
			}
			if l.surplus() == 0 {
				continue
			}
		}
		next, n, err := l.sweep(ctx, ripe)
		if context.Cause(ctx) != nil || errors.Is(err, journal.ErrClosed) {
			continue
		}
		if err != nil {
			next = tryAgain
		}
		if next > 0 {
			set = true
			look.Reset(next)
		}
		if n > 0 || err != nil {
			l.log(ctx, n, err)
		}
	}
}

// log says what has been deleted, or why it was not, once a minute.
func (l *Letters) log(ctx context.Context, n int, err error) {
	rest, ok := l.lines.Line(tally.OneAMinute)
	if !ok {
		return
	}
	rest = append(rest, slog.String("queue", l.c.Name))
	if err != nil {
		l.c.Logger.LogAttrs(ctx, slog.LevelError, "the dead are kept longer than they should", append(rest, slog.Any("error", err))...)
	} else {
		l.c.Logger.LogAttrs(ctx, slog.LevelInfo, "dead payloads were deleted, as Retention says", append(rest, slog.Int("payloads", n))...)
	}
}

// sweep goes through the morgue once, to its end if something may be ripe, and returns how
// many it has deleted, and when the next payload will be too old; 0: none will.
func (l *Letters) sweep(ctx context.Context, ripe bool) (next time.Duration, n int, err error) {
	if err := l.c.Log.Settled(ctx); err != nil {
		return 0, 0, err
	}
	now, over := l.clock.look(l.c.Now()), l.surplus()
	oldest, older := int64(math.MaxInt64), false
	some := l.walk()
	for b, err := range l.c.Log.Morgue(l.c.Number, 0) {
		if err != nil {
			return 0, n, err
		}
		died := l.clock.died(b.At)
		tooOld := ripe && l.c.Age > 0 && died <= now-int64(l.c.Age)
		if !tooOld && over <= 0 {
			if !ripe || l.c.Age <= 0 {
				break
			}
			oldest, older = min(oldest, died), older || died != b.At
			continue
		}
		over--
		some.add(&b)
		if len(some.positions) < atOnce {
			continue
		}
		did, err := l.delete(ctx, some, &l.Expired)
		if n, some = n+did, some.none(); err != nil {
			return 0, n, err
		}
	}
	if ripe && !older { // what died before the steps has gone
		l.clock.steps = nil
	}
	did, err := l.delete(ctx, some, &l.Expired)
	if oldest != math.MaxInt64 {
		next = max(time.Duration(oldest-now)+l.c.Age, l.c.Age/lateBy)
	}
	return next, n + did, err
}

// surplus is how many payloads are in the morgue beyond Count.
func (l *Letters) surplus() int {
	if l.c.Count <= 0 {
		return 0
	}
	return max(l.c.Log.Buried(l.c.Number)-l.c.Count, 0)
}

// clock is the wall clock, with what it was set forward by since the sweeps began: nothing is older for that.
type clock struct {
	now   int64     // what it said
	at    time.Time // when it did
	steps []step
}

// step is that the clock was set forward by so much, when it said before or less.
type step struct{ before, by int64 }

const smallStep = int64(time.Second) // clocks are not exact

// look is told what the clock says, and returns that.
func (c *clock) look(now int64) int64 {
	at := time.Now()
	by := now - c.now - int64(at.Sub(c.at))
	if by >= smallStep {
		c.steps = append(c.steps, step{now - by, by})
	}
	for n := len(c.steps) - 1; n >= 0 && by < 0; n-- { // it was too far ahead
		back := min(c.steps[n].by, -by)
		c.steps[n].by, by = c.steps[n].by-back, by+back
	}
	c.now, c.at = now, at
	return now
}

// died returns when something has died, by the clock as it is now.
func (c *clock) died(at int64) int64 {
	for _, s := range c.steps {
		if at <= s.before {
			at += s.by
		}
	}
	return at
}
