package attempt

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor/internal/goroutine"
	"github.com/strandjobs/strand/shard"
)

// Config is what a watchdog has to know.
type Config struct {
	After   time.Duration  // how long a handler has to return when its time is over
	Hands   func() []*Hand // those of all workers, at each call
	Replace func(Stuck)    // has another worker take the place of a stuck one
	Report  func(Stuck)    // called after all were replaced, because it may be stuck, too
}

// Watchdog reports handlers that go on although their time is over. It looks at all hands now
// and then and remembers what each of them had, so a worker sets no timer for a job.
type Watchdog struct {
	c     Config
	awake atomic.Bool  // it will look at every batch that is in hand now
	stuck atomic.Int64 // handlers that were reported and have not returned

	// mu is held while it looks.
	mu      sync.Mutex
	timer   *time.Timer
	tick    time.Duration
	stopped bool
}

// The pause between two looks is a part of the shortest timeout, within bounds.
const (
	looksPerTimeout  = 8
	minTick, maxTick = time.Millisecond, time.Second
)

// NewWatchdog returns one that sleeps.
func NewWatchdog(c Config) *Watchdog {
	d := &Watchdog{c: c}
	d.timer = time.AfterFunc(maxTick, d.look)
	d.timer.Stop()
	return d
}

// Expect makes the watchdog look often enough for a timeout; 0 is none.
func (d *Watchdog) Expect(timeout time.Duration) {
	if timeout == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if tick := min(max(timeout/looksPerTimeout, minTick), maxTick); d.tick == 0 || tick < d.tick {
		d.tick = tick
	}
}

// Wake is called by a worker that has a batch with a timeout in hand.
func (d *Watchdog) Wake() {
	if !d.awake.Load() && d.awake.CompareAndSwap(false, true) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.setTimer()
	}
}

func (d *Watchdog) setTimer() {
	if !d.stopped {
		d.timer.Reset(d.tick)
	}
}

// Stop ends the looking.
func (d *Watchdog) Stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	d.timer.Stop()
}

// Stuck returns how many handlers are stuck.
func (d *Watchdog) Stuck() int { return int(d.stuck.Load()) }

// look is what the timer calls.
func (d *Watchdog) look() {
	stuck, silent := d.newlyStuck()
	for _, a := range silent { // not under a lock: what waits for the context may be user code
		a.End(ErrNoHeartbeat)
	}
	for _, s := range stuck {
		d.c.Replace(s)
	}
	for _, s := range stuck {
		d.c.Report(s)
	}
}

// newlyStuck returns what is to be reported, and which attempts are to end, and sees to it
// that there is a next look if one is wanted.
func (d *Watchdog) newlyStuck() (stuck []Stuck, silent []*Attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	lookAtAll := func() (busy bool) {
		now := time.Now()
		for _, h := range d.c.Hands() {
			busy = h.watch(d, now, &stuck, &silent) || busy
		}
		return busy
	}
	busy := lookAtAll()
	if !busy {
		d.awake.Store(false)
		// A worker that took something in hand before that saw it awake.
		busy = lookAtAll() && d.awake.CompareAndSwap(false, true) // nothing can be stuck yet
	}
	if busy {
		d.setTimer()
	}
	return stuck, silent
}

// Stuck is about a handler that is stuck.
type Stuck struct {
	Worker    Worker
	Age       time.Duration
	Goroutine goroutine.Header
	number    uint64 // of the batch
}

// Hand is what a worker has in hand, as the watchdog sees it. Its lock guards it, and what
// else its worker says. Begin, End and Replace are called with the lock held.
type Hand struct {
	sync.Mutex
	Worker    Worker
	Goroutine goroutine.Header

	run                *shard.Run // nil: there is nothing to watch
	number             uint64     // of the batch
	timeout, heartbeat time.Duration

	seen     uint64    // number at the last look
	since    time.Time // the first look at it: at or after its start
	Stuck    bool      // what is in hand was reported
	replaced bool      // another worker works in this one's place

	attempt *Attempt  // nil: it needs no heartbeat, or was ended for want of one
	silent  time.Time // when that was; zero: it was not
}

// Begin notes that a batch with a timeout, or a time between heartbeats, is in hand; 0 is none.
func (h *Hand) Begin(d *Watchdog, r *shard.Run, a *Attempt, timeout, heartbeat time.Duration) {
	h.End(d)
	h.run, h.timeout, h.heartbeat, h.attempt, h.silent = r, timeout, heartbeat, nil, time.Time{}
	if heartbeat > 0 {
		h.attempt = a
	}
	h.number++
}

// End notes that nothing is in hand any more. It reports whether another worker has taken
// this one's place.
func (h *Hand) End(d *Watchdog) (replaced bool) {
	h.run = nil
	if h.Stuck {
		h.Stuck = false
		d.stuck.Add(-1)
	}
	return h.replaced
}

// Replace notes that another worker takes the place of this one, and returns the run that it
// is stuck with; nil: it is not any more.
func (h *Hand) Replace(s Stuck) *shard.Run {
	if h.run == nil || h.number != s.number || h.replaced {
		return nil
	}
	h.replaced = true
	return h.run
}

// watch looks at one worker. It says whether there is something to watch, and adds it once for each
// batch that it is stuck, and once for each attempt that it gives no sign of life.
func (h *Hand) watch(d *Watchdog, now time.Time, stuck *[]Stuck, silent *[]*Attempt) (busy bool) {
	h.Lock()
	defer h.Unlock()
	var heard time.Time
	if a := h.attempt; a != nil {
		h.Unlock() // the lock of an attempt comes before it
		last, _ := a.Said()
		h.Lock()
		heard = last.At
	}
	if h.run == nil {
		return false
	}
	if h.seen != h.number {
		h.seen, h.since = h.number, now
	}
	if heard.Before(h.since) {
		heard = h.since
	}
	if h.attempt != nil && now.Sub(heard) >= h.heartbeat { // its last sign of life is too long ago
		*silent = append(*silent, h.attempt)
		h.attempt, h.silent = nil, now
	}
	past := time.Duration(-1) // for how long the time of the handler has been over
	if h.timeout > 0 {
		past = now.Sub(h.since) - h.timeout
	}
	if !h.silent.IsZero() {
		past = max(past, now.Sub(h.silent))
	}
	if !h.Stuck && past >= d.c.After {
		h.Stuck = true
		d.stuck.Add(1)
		*stuck = append(*stuck, Stuck{h.Worker, now.Sub(h.since), h.Goroutine, h.number})
	}
	return true
}
