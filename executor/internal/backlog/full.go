package backlog

import (
	"cmp"
	"time"

	"github.com/strandjobs/strand/executor/internal/sorted"
	"github.com/strandjobs/strand/shard"
)

// Full is a limit that keeps a call out.
type Full struct {
	Queue          string        // whose limit; empty: of all queues together
	Bytes          bool          // Waiting and Limit are bytes, and not payloads
	Waiting, Limit int           // what is not over, and how much that may be
	RetryAfter     time.Duration // until there is room for the call, and an eighth of the limit is free
}

// The bounds of Full.RetryAfter.
const (
	retrySoonest = 10 * time.Millisecond
	retryUnknown = time.Second
	retryLatest  = time.Minute
)

// Refuse counts a call for which there is no room, and says why. Nil and nil: there
// is some by now. err is what Close was given.
func (a *Account) Refuse(more shard.Weight) (full *Full, err error) {
	b := a.b
	b.mu.Lock()
	defer b.mu.Unlock()
	c := a.obstacle(more, b.turn+1)
	if c == nil || b.closed != nil {
		return nil, b.closed
	}
	c.refused++
	b.held(c, more)
	return b.full(c, more), nil
}

// TooLarge returns the limit under which a call can't fit, however little waits,
// with the size of the call as what is waiting; nil: there is none.
func (a *Account) TooLarge(w shard.Weight) *Full {
	for _, c := range a.quotas {
		switch {
		case within(w, c.limit):
		case within(w, shard.Weight{Payloads: c.limit.Payloads}):
			return &Full{Queue: c.queue, Bytes: true, Waiting: w.Bytes, Limit: c.limit.Bytes}
		default:
			return &Full{Queue: c.queue, Waiting: w.Payloads, Limit: c.limit.Payloads}
		}
	}
	return nil
}

// full says why there is no room for more under a limit. The caller holds mu.
func (b *Backlog) full(c *quota, more shard.Weight) *Full {
	e := &Full{Queue: c.queue, Waiting: c.used.Payloads, Limit: c.limit.Payloads}
	payloads, bytes, quiet := c.pace.rate(b.now())
	need, rate := more.Payloads, payloads
	if c.limit.Payloads == 0 || c.used.Payloads+need <= c.limit.Payloads && c.limit.Bytes > 0 {
		e.Bytes, e.Waiting, e.Limit = true, c.used.Bytes, c.limit.Bytes
		need, rate = more.Bytes, bytes
	}
	if rate == 0 {
		e.RetryAfter = min(max(quiet, retryUnknown), retryLatest)
		return e
	}
	seconds := float64(e.Waiting+max(e.Limit/8, need)-e.Limit) / rate
	e.RetryAfter = time.Duration(min(max(seconds, retrySoonest.Seconds()), retryLatest.Seconds()) * float64(time.Second))
	return e
}

// StallAfter is how long calls may be refused, or wait, while no payload ends, before that is logged.
const StallAfter = time.Minute

// Stall is a limit that stands still.
type Stall struct {
	Full *Full // of the call that was the first to be refused, or to wait
	For  time.Duration
}

// held notes that there was no room for a call. The caller holds mu.
func (b *Backlog) held(c *quota, more shard.Weight) {
	if c.still == 0 {
		c.still, c.wanted = b.now(), more
		b.arm(StallAfter)
	}
}

// moved notes that something has ended, or that a call was let in. The caller holds
// mu.
func (b *Backlog) moved(c *quota) {
	c.still, c.told = 0, false
	if len(c.line) > 0 {
		b.held(c, c.line[0].weight)
	}
}

// arm sets the timer to look after a while, unless it looks sooner. The caller
// holds mu.
func (b *Backlog) arm(after time.Duration) {
	if !b.armed && b.closed == nil {
		b.armed = true
		b.watch.Reset(after)
	}
}

func (b *Backlog) newlyStalled() (stalled []Stall) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed = false
	oldest := time.Duration(-1)
	for _, c := range b.quotas {
		switch age := b.age(c); {
		case c.still == 0 || c.told:
		case age < StallAfter:
			oldest = max(oldest, age)
		default:
			c.told = true
			stalled = append(stalled, Stall{b.full(c, c.wanted), age})
		}
	}
	if oldest >= 0 {
		b.arm(StallAfter - oldest)
	}
	return stalled
}

// age is how long a quota has stood still. The caller holds mu.
func (b *Backlog) age(c *quota) time.Duration {
	if c.still == 0 {
		return 0
	}
	return time.Duration(b.now() - c.still)
}

// Stalled returns a limit that has stood still for StallAfter, or nil.
func (b *Backlog) Stalled() *Stall {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.quotas {
		if age := b.age(c); age >= StallAfter {
			return &Stall{b.full(c, c.wanted), age}
		}
	}
	return nil
}

// Waiter is a call that waits for room.
type Waiter struct {
	account *Account
	weight  shard.Weight

	// Guarded by Backlog.mu.
	sorted.Place        // in its line
	stands       *quota // in whose line; nil: it waits no more

	// Ready is closed when the call has its room, or Err.
	Ready chan struct{}
	Err   error // what Close was given: there will be no room. To be read once Ready is closed
}

// Wait puts a call in line, unless there is room by now.
func (a *Account) Wait(more shard.Weight) *Waiter {
	b := a.b
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn++
	w := &Waiter{account: a, weight: more, Place: sorted.Place{Turn: b.turn}, Ready: make(chan struct{})}
	switch c := a.obstacle(more, w.Turn); {
	case b.closed != nil:
		w.Err = b.closed
		close(w.Ready)
	case c == nil:
		a.add(more)
		close(w.Ready)
	default:
		w.join(c)
		b.held(c, more)
	}
	return w
}

// join takes the place in a line that is w's by its number.
func (w *Waiter) join(c *quota) {
	w.stands = c
	c.line.Put(w)
}

func (w *Waiter) leave() {
	w.stands.line.Remove(w)
	w.stands = nil
}

// serve takes those calls out of a line for which there is room under that limit:
// each has its room then, or stands in the line of another limit. The caller holds
// mu.
func (b *Backlog) serve(c *quota) {
	for len(c.line) > 0 && c.fits(c.line[0].weight) {
		w := c.line[0]
		w.leave()
		if other := w.account.obstacle(w.weight, w.Turn); other != nil {
			w.join(other)
			b.held(other, w.weight)
			continue
		}
		w.account.add(w.weight)
		close(w.Ready)
	}
}

// Quit ends the wait of a call that waits no longer, and says for what it waited;
// nil: its wait was over.
func (w *Waiter) Quit() *Full {
	b := w.account.b
	b.mu.Lock()
	defer b.mu.Unlock()
	c := w.stands
	if c == nil {
		if w.Err == nil {
			w.account.subtract(w.weight) // its room came too late
		}
		return nil
	}
	full := b.full(c, w.weight)
	w.leave()
	b.serve(c) // smaller ones may have waited behind it
	return full
}

// Close ends all waits with an error, and those that would begin later. Only the
// first error counts.
func (b *Backlog) Close(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = cmp.Or(b.closed, err)
	b.watch.Stop()
	for _, c := range b.quotas {
		for len(c.line) > 0 {
			w := c.line[0]
			w.leave()
			w.Err = b.closed
			close(w.Ready)
		}
	}
}
