package executor

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor/internal/tally"
)

// Retention bounds the dead letters of a queue. The zero Retention keeps all.
//
// From registration on, the executor deletes what is too old or too much, as
// [Inspector.DeleteDead] does, at most a thousand at a time. QueueStats.Expired counts
// it, and the log has at most a line a minute. One timer waits for the next dead letter
// to become too old; without any there is none.
type Retention struct {
	// Age is how long a dead letter is kept after it died; it may be deleted up to a
	// 64th of Age later. At least a second. Default, and below zero: without end.
	Age time.Duration

	// Count is how many dead letters are kept. When there are more, those that were
	// accepted first are deleted. Default, and below zero: any number.
	Count int
}

func (r Retention) check() error {
	if r.Age > 0 && r.Age < time.Second {
		return fmt.Errorf("%w: DeadLetters.Retention.Age is %v, it must be a second at least; 0 keeps the dead for ever", ErrConfig, r.Age)
	}
	return nil
}

// undertaker deletes what the retention of a queue has no room or time for. Its timer
// is set while something is dead that will be too old, and one goroutine is at work
// while something is.
type undertaker struct {
	Retention
	q       *queue
	expired atomic.Uint64
	lines   tally.Lines

	// mu guards what follows. Nothing is called under it but the timer.
	mu      sync.Mutex
	timer   *time.Timer // nil until one is needed
	set     bool        // it has not run out
	working chan struct{}
	again   bool // there may be too much
	ripe    bool // there may be something too old
	fresh   bool // something was buried since work began
	closed  bool
}

const (
	expireAtOnce  = 1000
	lateBy        = 64          // parts of the age
	tryExpireWait = time.Minute // after an error
)

// open begins with what the journal has.
func (u *undertaker) open() {
	if u.Age <= 0 && u.Count <= 0 || u.q.x.log.Buried(u.q.number) == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ripe = true
	u.begin()
}

// buried is told that something has gone to the morgue. It does not wait.
func (u *undertaker) buried() {
	if u.Age <= 0 && u.Count <= 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.closed:
	case u.Count > 0 && u.q.x.log.Buried(u.q.number) > u.Count:
		u.begin()
	case u.working != nil:
		u.fresh = true
	case u.Age > 0 && !u.set:
		u.wake(u.Age)
	}
}

// begin has a goroutine look through the morgue. mu is held.
func (u *undertaker) begin() {
	if u.again = true; u.working == nil {
		u.working = make(chan struct{})
		go u.work(u.working) // ends by itself; see close
	}
}

// wake sets the timer. mu is held.
func (u *undertaker) wake(after time.Duration) {
	u.set = true
	if u.timer == nil {
		u.timer = time.AfterFunc(after, u.ring)
	} else {
		u.timer.Reset(after)
	}
}

func (u *undertaker) ring() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.set = false; !u.closed {
		u.ripe = true
		u.begin()
	}
}

// close ends it, and waits for the work at hand: the contexts of handlers have ended.
func (u *undertaker) close() {
	u.mu.Lock()
	u.closed = true
	if u.timer != nil {
		u.timer.Stop()
	}
	working := u.working
	u.mu.Unlock()
	if working == nil {
		return
	}
	select {
	case <-working:
	case <-time.After(stuckAfter): // in a logger, say
	}
}

// work looks through the morgue until nothing is to be done, and sets the timer.
func (u *undertaker) work(done chan struct{}) {
	defer u.end(done)
	for {
		ripe, more := u.more()
		if !more {
			return
		}
		next, n, err := u.sweep(u.q.x.handlers, ripe)
		u.tell(n, err)
		u.mu.Lock()
		switch {
		case u.closed || err != nil && context.Cause(u.q.x.handlers) != nil:
		case err != nil:
			u.again = false
			u.wake(tryExpireWait)
		case next > 0:
			u.wake(next)
		}
		u.mu.Unlock()
	}
}

// more reports whether there is something to be done, and whether that may be because
// something is too old.
func (u *undertaker) more() (ripe, more bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	ripe, more = u.ripe, u.again && !u.closed
	u.ripe, u.again = false, false
	return ripe, more
}

// end lets the next work begin.
func (u *undertaker) end(done chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.working = nil
	if u.fresh && u.Age > 0 && !u.set && !u.closed {
		u.wake(u.Age)
	}
	u.fresh = false
	if u.again && !u.closed { // since the last look
		u.begin()
	}
	close(done)
}

// sweep goes through the morgue once, to its end if something may be ripe, and returns
// how many it has deleted, and when the next payload will be too old; 0: none will.
func (u *undertaker) sweep(ctx context.Context, ripe bool) (next time.Duration, n int, err error) {
	q := u.q
	if err := q.x.log.Settled(ctx); err != nil {
		return 0, 0, err
	}
	now := q.x.clock().UnixNano()
	over := 0
	if u.Count > 0 {
		over = q.x.log.Buried(q.number) - u.Count
	}
	oldest := int64(0)
	some := q.exhuming.begin()
	for b, err := range q.x.log.Morgue(q.number, 0) {
		if err != nil {
			return 0, n, err
		}
		tooOld := ripe && u.Age > 0 && b.At <= now-int64(u.Age)
		if !tooOld && over <= 0 {
			if !ripe || u.Age <= 0 {
				break
			}
			if oldest == 0 || b.At < oldest {
				oldest = b.At
			}
			continue
		}
		over--
		some.add(&b)
		if len(some.positions) < expireAtOnce {
			continue
		}
		did, err := q.deleteDead(ctx, some, &u.expired)
		if n, some = n+did, some.none(); err != nil {
			return 0, n, err
		}
	}
	did, err := q.deleteDead(ctx, some, &u.expired)
	if oldest != 0 {
		next = max(time.Duration(oldest-now)+u.Age, u.Age/lateBy)
	}
	return next, n + did, err
}

// tell logs what has been deleted.
func (u *undertaker) tell(n int, err error) {
	log := u.q.x.cfg.Logger
	switch {
	case context.Cause(u.q.x.handlers) != nil:
	case err != nil:
		if rest, ok := u.lines.Line(oneAMinute); ok {
			log.LogAttrs(u.q.x.handlers, slog.LevelError, "the dead are kept longer than they should", append([]slog.Attr{slog.String("queue", u.q.name), slog.Any("error", border(err))}, rest...)...)
		}
	case n > 0:
		if rest, ok := u.lines.Line(oneAMinute); ok {
			log.LogAttrs(u.q.x.handlers, slog.LevelInfo, "dead payloads were deleted, as Retention says", append([]slog.Attr{slog.String("queue", u.q.name), slog.Int("payloads", n)}, rest...)...)
		}
	}
}
