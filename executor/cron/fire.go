package cron

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/internal/ownership"
)

// The pauses between attempts to enqueue a tick that was refused.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
)

// ticker fires the ticks of a schedule for a Cron.
type ticker struct {
	*Cron
	*schedule
}

// fire enqueues what is due, on a goroutine of its own: a queue without room, or a
// payload function that takes its time, delays no other.
func (t ticker) fire(term context.Context) {
	defer func() {
		t.group.locked(func() { close(t.firing[t.schedule]); delete(t.firing, t.schedule) })
		t.poke()
	}()
	for {
		var handled, begun time.Time
		t.group.locked(func() { handled, begun = t.progress.handled, t.progress.begun })
		ticks, lost := t.plan(handled, begun, t.now())
		if !lost.IsZero() { // what is missed is over
			t.reportMissed(handled, lost)
			t.group.locked(func() {
				if term.Err() == nil {
					t.progress.advance(lost)
				}
			})
		}
		if len(ticks) == 0 {
			return
		}
		for _, tick := range ticks {
			if !t.fireTick(term, tick) {
				return
			}
		}
	}
}

// reportMissed says which ticks are over although they were not fired. Those of other
// processes are theirs to report.
func (t ticker) reportMissed(after, upTo time.Time) {
	others := func(tick time.Time) bool { return errors.Is(t.refuse(tick), executor.ErrNotOwned) }
	ticks := slices.DeleteFunc(t.table.newest(after, upTo, maxCatchUp), others)
	if len(ticks) == 0 {
		return
	}
	newest := ticks[len(ticks)-1]
	attrs := []slog.Attr{slog.String("schedule", t.name), slog.Int("ticks", len(ticks))}
	oldest := t.table.next(after)
	for oldest.Before(ticks[0]) && others(oldest) {
		oldest = t.table.next(oldest)
	}
	if oldest.Before(ticks[0]) { // there may be years of them
		attrs = append(attrs, slog.Bool("more", true))
	}
	t.group.mu.Lock()
	if newest.After(t.lost) { // a later one may have been given up meanwhile
		t.lost = newest
	}
	t.group.mu.Unlock()
	t.report(slog.LevelWarn, "ticks missed", append(attrs, slog.Time("oldest", oldest), slog.Time("newest", newest))...)
}

// fireTick enqueues a tick. False: this schedule is not to be fired here now.
func (t ticker) fireTick(term context.Context, tick time.Time) bool {
	giveBack, claimed, goOn := t.claim(term, tick)
	if !claimed {
		return goOn
	}
	a := attempt{ticker: t, tick: tick, next: t.table.next(tick)}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := a.enqueue(term)
		over := isEnd(err) && t.gone() != nil            // or it is of another executor, which a middleware has asked
		again := !errors.Is(err, executor.ErrUnknown) && // nothing was enqueued, and another attempt may do better
			(over || errors.Is(err, executor.ErrFull) || errors.Is(err, context.DeadlineExceeded))
		if !again && (err == nil || term.Err() == nil || errors.Is(err, executor.ErrUnknown) || errors.Is(err, executor.ErrNotOwned)) {
			t.note(tick, err)
			return true
		}
		t.complain(err)
		switch {
		case over:
			giveBack()
			t.close()
			<-t.ended
			t.retire()
			return false
		case !a.wait(term, pause):
			if !giveBack() { // another member fires those after it, and none this one
				t.note(tick, err)
			}
			return false
		case t.missed != MissedAll && !a.next.IsZero() && !t.now().Before(a.next):
			t.note(tick, err)
			return true
		}
	}
}

// claim takes a tick in hand, if this Cron may still fire it, and it is neither over nor in other
// hands. What it returns gives the tick back, and reports false if a member has gone on since.
func (t ticker) claim(term context.Context, tick time.Time) (giveBack func() bool, claimed, goOn bool) {
	t.group.mu.Lock()
	defer t.group.mu.Unlock()
	if term.Err() != nil || t.Cron.err != nil || t.removed || t.progress.paused || t.progress.held > 0 {
		return nil, false, false
	}
	r := t.progress
	before := r.handled
	if !tick.After(before) {
		return nil, false, true
	}
	r.handled = tick
	return func() bool {
		t.group.mu.Lock()
		defer t.group.mu.Unlock()
		if !r.handled.Equal(tick) {
			return false
		}
		r.handled = before
		for _, m := range r.members {
			m.poke()
		}
		return true
	}, true, true
}

// isEnd reports whether the executor accepts nothing any more.
func isEnd(err error) bool {
	return errors.Is(err, executor.ErrClosed) || errors.Is(err, executor.ErrFailed)
}

// note writes down what became of a tick that is over.
func (t ticker) note(tick time.Time, err error) {
	if err != nil {
		level := slog.LevelWarn
		if errors.Is(err, executor.ErrNotOwned) || errors.Is(err, ErrOverlap) {
			level = slog.LevelDebug // another process fires it, or it was to be skipped
		}
		t.report(level, "tick not enqueued", slog.String("schedule", t.name), slog.Time("tick", tick), slog.Any("error", err))
	}
	if errors.Is(err, executor.ErrNotOwned) {
		return
	}
	t.group.mu.Lock()
	defer t.group.mu.Unlock()
	if t.schedule.err = err; err == nil {
		t.last = tick
		return
	}
	t.lost = tick
	if stale, ok := errors.AsType[*executor.StaleError](err); ok {
		// Another member has fired it, and perhaps more: before the clock was set back.
		t.progress.advance(time.Unix(stale.Last, 0))
	}
}

// complain writes down why a tick is not enqueued, or not yet.
func (t ticker) complain(err error) { t.group.locked(func() { t.schedule.err = err }) }

// How a tick is made once, however many Crons fire it: each enqueues it under
// [executor.FromSource], with its time as the offset, in the commit of its payload.
// Every call after the first gets a [executor.StaleError].
func tickMark(name string) string { return "cron/tick/" + name }

// overlapMark is for whose ticks a process knows how far they have come: those of its own ids, which
// are one or many.
func overlapMark(name string) string { return "cron/overlap/" + name }

// divide returns where the ticks of the schedule begin. When Overlap has changed so that other ids have them, other
// processes have fired up to now what this one did not.
func (t ticker) divide(ctx context.Context, mark int64) (int64, error) {
	if !ownership.Divided(t.x) {
		return mark, nil
	}
	ids := int64(1)
	if t.overlap == OverlapParallel {
		ids++
	}
	before, found, err := t.x.SourceOffset(overlapMark(t.name))
	if err != nil || before == ids {
		return mark, err
	}
	if found {
		began := mark
		mark = max(mark, t.now().Unix())
		t.reportMissed(time.Unix(began, 0), time.Unix(mark, 0))
		err = ownership.Raise(ctx, t.x, tickMark(t.name), mark)
	}
	if err == nil {
		err = t.x.SetSourceOffset(ctx, overlapMark(t.name), ids)
	}
	return mark, err
}

// id is that of the job of a tick.
func (s *schedule) id(tick time.Time) string {
	if s.overlap == OverlapParallel {
		return s.name + "@" + tick.UTC().Format(time.RFC3339)
	}
	return s.name
}

// refuse returns [executor.ErrNotOwned] for a tick that is another process's. It is
// asked before Payload is, which would be called in all of them.
func (t ticker) refuse(tick time.Time) error { return ownership.Refuse(t.x, t.id(tick)) }

// attempt is a tick in hand.
type attempt struct {
	ticker
	tick time.Time
	next time.Time // when it is given up, unless all are caught up; zero: never
	send send      // with its payload; nil before it was asked for
}

// enqueue tries once. Where Enqueue waits for room, it does so for a while.
func (a *attempt) enqueue(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lastPause)
	defer cancel()
	id := a.id(a.tick)
	if err := a.refuse(a.tick); err != nil {
		return err
	}
	if a.overlap == OverlapSkip {
		pending, err := a.pending(ctx, id)
		if pending && a.missed != MissedSkip { // or it would be caught up
			err = ownership.Raise(ctx, a.x, tickMark(a.name), a.tick.Unix())
		}
		if err != nil {
			return err
		} else if pending {
			return ErrOverlap
		}
	}
	if a.send == nil {
		send, err := a.prepare(a.schedule, a.tick, func(err error) { a.note(a.tick, err) })
		if err != nil {
			return err
		}
		a.send = send
	}
	_, err := a.send(ctx, id, executor.FromSource(tickMark(a.name), a.tick.Unix()),
		executor.At(a.tick), executor.Score(float64(a.tick.Unix())))
	return err
}

// wait waits before the next attempt; false when there may be none.
func (a *attempt) wait(term context.Context, pause time.Duration) bool {
	if a.missed != MissedAll && !a.next.IsZero() {
		pause = min(pause, a.next.Sub(a.now()))
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		a.group.mu.Lock()
		defer a.group.mu.Unlock()
		return a.progress.held == 0 // or a call waits for it
	case <-term.Done():
	case <-a.closing:
	}
	return false
}
