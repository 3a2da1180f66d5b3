package executor

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor/internal/goroutine"
	"github.com/strandjobs/strand/shard"
)

// watchdog reports handlers that go on although their time is over. It looks at all
// workers now and then and remembers what each of them had in hand, so a worker
// sets no timer for a job. It sleeps while no worker has a job with a timeout.
type watchdog struct {
	x     *Executor
	awake atomic.Bool  // it will look at every batch that is in hand now
	stuck atomic.Int64 // handlers that were reported and have not returned

	// mu is held while it looks. It comes before Executor.mu and worker.mu. No user
	// code is called under it.
	mu      sync.Mutex
	timer   *time.Timer // nil until one is needed
	tick    time.Duration
	stopped bool
}

// The pause between two looks is a part of the shortest timeout, within bounds.
const (
	looksPerTimeout  = 8
	minTick, maxTick = time.Millisecond, time.Second
)

// expect makes the watchdog look often enough for a timeout.
func (d *watchdog) expect(timeout time.Duration) {
	if timeout == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if tick := min(max(timeout/looksPerTimeout, minTick), maxTick); d.tick == 0 || tick < d.tick {
		d.tick = tick
	}
}

// wake is called by a worker that has a batch with a timeout in hand.
func (d *watchdog) wake() {
	if !d.awake.Load() && d.awake.CompareAndSwap(false, true) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.setTimer()
	}
}

func (d *watchdog) setTimer() {
	switch {
	case d.stopped:
	case d.timer == nil:
		d.timer = time.AfterFunc(d.tick, d.look)
	default:
		d.timer.Reset(d.tick)
	}
}

// stop ends the looking. Stop reports what is stuck then.
func (d *watchdog) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	if d.timer != nil {
		d.timer.Stop()
	}
}

// look is what the timer calls.
func (d *watchdog) look() {
	reports, silent := d.newlyStuck()
	for _, a := range silent { // not under a lock: what waits for the context may be user code
		a.end(ErrNoHeartbeat)
	}
	for _, r := range reports {
		d.x.replace(r.worker, r.hand.number)
	}
	for _, r := range reports { // last: a log may be stuck, too
		d.x.cfg.Logger.Error("handler is stuck", slog.Any("jobs", r.worker.jobs()),
			slog.Duration("after", r.age), slog.String("stack", r.hand.goroutine.Stack()))
	}
}

// newlyStuck ends contexts, sees to it that there is a next look if one is wanted,
// and returns what is to be reported.
func (d *watchdog) newlyStuck() (reports []report, silent []*attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	busy, reports, silent := d.lookAtAll()
	if !busy {
		d.awake.Store(false)
		// A worker that took something in hand before that saw it awake.
		busy, _, _ = d.lookAtAll() // nothing can be stuck yet
		busy = busy && d.awake.CompareAndSwap(false, true)
	}
	if busy {
		d.setTimer()
	}
	return reports, silent
}

func (d *watchdog) lookAtAll() (busy bool, reports []report, silent []*attempt) {
	now := time.Now()
	for _, w := range d.x.crew() {
		watched, stuck, mute := w.watch(now)
		busy = watched || busy
		if stuck != nil {
			reports = append(reports, *stuck)
		}
		if mute != nil {
			silent = append(silent, mute)
		}
	}
	return busy, reports, silent
}

// report is about a handler that is stuck.
type report struct {
	worker *worker
	hand   watched // as it was found
	age    time.Duration
}

// watched is what the watchdog knows about the batch that a worker has in hand. It
// is guarded by the worker's mu.
type watched struct {
	run    *shard.Run // nil: there is nothing to watch
	queue  *queue
	number uint64 // of the batch

	seen     uint64    // number at the last look
	since    time.Time // the first look at it: at or after its start
	stuck    bool
	replaced bool // another worker works in this one's place

	attempt *attempt  // under QueueConfig.HeartbeatTimeout; nil: not begun, or ended for want of a heartbeat
	silent  time.Time // when that was; zero: it was not

	goroutine goroutine.Header
}

// begin notes that a batch with a timeout is in hand.
func (h *watched) begin(q *queue, r *shard.Run) {
	h.end(q.x)
	h.queue, h.run = q, r
	h.attempt, h.silent = nil, time.Time{}
	h.number++
}

// end notes that nothing is in hand any more.
func (h *watched) end(x *Executor) {
	h.run = nil
	if h.stuck {
		h.stuck = false
		x.watchdog.stuck.Add(-1)
	}
}

// watch looks at one worker. It says whether there is something to watch, once for
// each batch that it is stuck, and once for each attempt that it gives no sign of
// life.
func (w *worker) watch(now time.Time) (busy bool, stuck *report, silent *attempt) {
	seen, _ := progressOf(w) // before mu: see attempt.say
	w.mu.Lock()
	defer w.mu.Unlock()
	h := &w.hand
	if h.run == nil {
		return false, nil, nil
	}
	if h.seen != h.number {
		h.seen, h.since = h.number, now
	}
	silent = h.listen(now, seen.At)
	age := now.Sub(h.since)
	if !h.stuck && h.overFor(now) >= w.x.cfg.Stuck.After {
		h.stuck = true
		w.x.watchdog.stuck.Add(1)
		stuck = &report{w, *h, age}
	}
	return true, stuck, silent
}

// listen returns the attempt if its last sign of life, at the time heard, is too long
// ago.
func (h *watched) listen(now, heard time.Time) *attempt {
	if heard.Before(h.since) {
		heard = h.since
	}
	if h.attempt == nil || now.Sub(heard) < h.queue.heartbeat {
		return nil
	}
	mute := h.attempt
	h.attempt, h.silent = nil, now
	return mute
}

// overFor is for how long the time of the handler has been over; below zero: it is
// not.
func (h *watched) overFor(now time.Time) time.Duration {
	over := time.Duration(-1)
	if h.queue.timeout > 0 {
		over = now.Sub(h.since) - h.queue.timeout
	}
	if !h.silent.IsZero() {
		over = max(over, now.Sub(h.silent))
	}
	return over
}

// hasTime reports whether the watchdog has to look at the handlers of the queue.
func (q *queue) hasTime() bool { return q.timeout > 0 || q.heartbeat > 0 }
