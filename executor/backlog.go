package executor

import (
	"container/list"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/strandjobs/strand/shard"
)

// Overflow says what Enqueue does when the backlog is full.
type Overflow uint8

const (
	// Refuse returns a [FullError]. The default.
	Refuse Overflow = iota
	// Wait waits until there is room, or ctx ends: then the error is the cause of
	// ctx, and a [FullError] at the same time. Who came first goes first. Before
	// Start, and in OnStart, there is no end to it, because no job ends. A handler has to
	// enqueue with its own context, or it may wait for itself.
	Wait
)

// backlog holds the payloads that are accepted and not over against the limits. Each
// counts once, from before the journal gets it until its shard has recorded its end:
// retries, snoozes, a halt and a restart change nothing about that.
//
// A call that fits under its limits takes its room at once. Room that comes back goes
// to those who wait, in the order in which they came. It is not saved up until there
// is much of it: where most jobs are due next week, that would be next week.
type backlog struct {
	x    *Executor
	born time.Time

	// mu guards what follows, and the quotas. Nothing is called under it.
	mu     sync.Mutex
	quotas []*quota
	turn   uint64      // number of the newest waiter
	watch  *time.Timer // looks at what stands still; nil until one is needed
	armed  bool        // watch is set
	closed error       // why nobody waits any more; nil: they may
}

// quota is a limit and what counts against it.
type quota struct {
	queue       string       // whose; empty: of all queues together
	limit, used shard.Weight // of limit, 0 is none
	line        list.List    // of *waiter, by number; Invariant: the first one does not fit
	pace        pace
	refused     uint64
	still       int64        // since when a call was refused, or waits, and nothing has ended; 0: that is not so
	wanted      shard.Weight // by that call
	told        bool         // that it stands still
}

// init makes the limits of the executor count.
func (b *backlog) init(x *Executor) {
	b.x, b.born = x, time.Now()
	if limit := (shard.Weight{Payloads: x.cfg.MaxBacklog, Bytes: x.cfg.MaxBacklogBytes}); limit != (shard.Weight{}) {
		b.quotas = append(b.quotas, &quota{limit: limit})
	}
}

// join makes the limits of a queue count, and says which hold for it.
func (b *backlog) join(q *queue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.quotas = slices.DeleteFunc(b.quotas, func(c *quota) bool { return c.queue == q.name }) // it could not be registered then
	if q.limit != (shard.Weight{}) {
		b.quotas = append(b.quotas, &quota{queue: q.name, limit: q.limit})
	}
	for _, c := range slices.Backward(b.quotas) { // its own first
		if c.queue == "" || c.queue == q.name {
			q.quotas = append(q.quotas, c)
		}
	}
	q.core.Weighed = len(q.quotas) > 0
}

// now is the time on the monotonic clock, in nanoseconds, and not 0.
func (b *backlog) now() int64 { return 1 + int64(time.Since(b.born)) }

func (c *quota) fits(more shard.Weight) bool { return within(c.used.Plus(more), c.limit) }

func within(w, limit shard.Weight) bool {
	return w.Payloads <= orNone(limit.Payloads) && w.Bytes <= orNone(limit.Bytes)
}

// orNone makes no limit of 0.
func orNone(limit int) int {
	if limit == 0 {
		return math.MaxInt
	}
	return limit
}

// take takes room for a call, unless there is none or somebody has been waiting for
// it.
func (b *backlog) take(q *queue, more shard.Weight) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.obstacle(q, more, b.turn+1) != nil {
		return false
	}
	b.add(q, more)
	return true
}

// obstacle returns the limit that keeps a call with a number out, or whose line has
// somebody before it. The caller holds mu.
func (b *backlog) obstacle(q *queue, more shard.Weight, number uint64) *quota {
	for _, c := range q.quotas {
		first := c.line.Front()
		if !c.fits(more) || first != nil && first.Value.(*waiter).number < number {
			return c
		}
	}
	return nil
}

// add gives room to a call. The caller holds mu.
func (b *backlog) add(q *queue, more shard.Weight) {
	for _, c := range q.quotas {
		c.used = c.used.Plus(more)
		b.moved(c)
	}
}

// exceed counts what is accepted whatever the limits say.
func (b *backlog) exceed(q *queue, more shard.Weight) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range q.quotas {
		c.used = c.used.Plus(more)
	}
}

// giveBack ends what was taken for a call that was not accepted.
func (b *backlog) giveBack(q *queue, less shard.Weight) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subtract(q, less)
}

func (b *backlog) subtract(q *queue, less shard.Weight) {
	for _, c := range q.quotas {
		c.used = c.used.Minus(less)
	}
	b.serve(q)
}

// settle counts what a shard of q has recorded.
func (b *backlog) settle(q *queue, change *shard.Change) {
	if len(q.quotas) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subtract(q, change.Over.Minus(change.Surplus))
	if change.Over.Payloads == 0 {
		return
	}
	now := b.now()
	for _, c := range q.quotas {
		c.pace.count(now, change.Over)
		b.moved(c)
	}
}

// Backlog says how full a backlog is. All of it is zero without a limit.
type Backlog struct {
	// Payloads and Bytes are what counts against the limits: what is accepted and
	// not over, with the calls that are under way.
	Payloads, Bytes int
	Refused         uint64 // calls that got [ErrFull] because of this limit, since Open
	Waiting         int    // calls that wait for room, under Overflow: [Wait]

	// Stalled is for how long calls have been refused, or have waited, while nothing
	// ended. 0: something has ended since, or the last call was accepted. See
	// [ErrStalled].
	Stalled time.Duration
}

// stats returns the figures of the quota of a queue; empty: of all together.
func (b *backlog) stats(queue string) (s Backlog) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.quotas {
		if c.queue == queue {
			s = Backlog{Payloads: c.used.Payloads, Bytes: c.used.Bytes, Refused: c.refused, Waiting: c.line.Len(), Stalled: b.age(c)}
		}
	}
	return s
}
