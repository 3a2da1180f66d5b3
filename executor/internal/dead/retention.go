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
	var look <-chan time.Time // nil: nothing is going to be too old
	if l.c.Log.Buried(l.c.Number) > 0 {
		look = time.After(0)
	}
	for {
		ripe := false
		select {
		case <-l.closed:
			ended = true
			return
		case <-look:
			ripe, look = true, nil
		case <-l.news:
			if l.c.Age > 0 && look == nil {
				look = time.After(l.c.Age)
			}
			if l.surplus(l.c.Log.Buried) == 0 {
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
			look = time.After(next)
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

// sweep deletes what is too much, and goes through the morgue once if something may be ripe. It
// returns how many it has deleted, and when the next payload will be too old; 0: none will.
func (l *Letters) sweep(ctx context.Context, ripe bool) (next time.Duration, n int, err error) {
	if err = l.c.Log.Settled(ctx); err != nil {
		return 0, 0, err
	}
	over := l.surplus(l.c.Log.Listed)
	for did := 1; n < over && did > 0 && err == nil; n += did {
		did, err = l.delete(ctx, letters{find: l.first, since: new(uint64)}, &l.Expired)
	}
	if err != nil || !ripe || l.c.Age <= 0 {
		return 0, n, err
	}
	now, oldest, older := l.clock.look(l.c.Now()), int64(math.MaxInt64), false
	did, err := l.each(ctx, Which{Last: math.MaxUint64, Means: func(b *journal.Buried) bool {
		died := l.clock.died(b.At)
		tooOld := died <= now-int64(l.c.Age)
		if !tooOld {
			oldest, older = min(oldest, died), older || died != b.At
		}
		return tooOld
	}}, func(some letters) (int, error) { return l.delete(ctx, some, &l.Expired) })
	if err == nil && !older { // what died before the steps has gone
		l.clock.steps = nil
	}
	if oldest != math.MaxInt64 {
		next = max(time.Duration(oldest-now)+l.c.Age, l.c.Age/lateBy)
	}
	return next, n + did, err
}

// first returns some of what is beyond Count, in a turn: no other call takes anything out between
// the counting and the deleting. What is on its way to the morgue does not count, because it may
// have been accepted before all that is there.
func (l *Letters) first() (letters, error) {
	some, n := l.walk(), min(l.surplus(l.c.Log.Listed), atOnce)
	if l.c.Log.Short() {
		n = min(n, 1)
	}
	for b, err := range l.c.Log.Morgue(l.c.Number, 0) {
		if err != nil || len(some.positions) >= n || some.bytes >= bytesAtOnce {
			return some, err
		}
		some.add(&b)
	}
	return some, nil
}

// surplus is how many payloads there are beyond Count.
func (l *Letters) surplus(count func(queue uint32) int) int {
	if l.c.Count <= 0 {
		return 0
	}
	return max(count(l.c.Number)-l.c.Count, 0)
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
