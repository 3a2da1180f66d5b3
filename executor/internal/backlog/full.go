package backlog

import (
	"time"

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
