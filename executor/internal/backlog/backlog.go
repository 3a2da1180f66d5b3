// Package backlog bounds the payloads that are accepted and not over. It knows the
// queues by name only, and no call, no job and no journal.
//
// Each payload counts once, from before the journal gets it until its shard has
// recorded its end: retries, snoozes, a halt and a restart change nothing about
// that.
//
// A call that fits under its limits takes its room at once. Room that comes back
// goes to the calls that wait, in the order in which they came, each for its own
// limits only. It is not saved up until there is much of it: where most jobs are
// due next week, that would be next week.
//
// A limit stands still while calls are refused or wait and nothing ends. After a
// minute of that it is told, once until it has moved.
//
// All methods may be called from any goroutine. They don't block, and call nothing
// but the function that New was given, on a timer's goroutine.
package backlog

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/sorted"
	"github.com/strandjobs/strand/shard"
)

// Backlog is what counts against the limits of all queues.
type Backlog struct {
	born time.Time

	// mu guards what follows, and the quotas. Nothing is called under it.
	mu     sync.Mutex
	quotas []*quota
	turn   int64       // number of the newest waiter
	watch  *time.Timer // looks at what stands still
	armed  bool        // watch is set
	closed error       // why calls wait no more; nil: they may
}

// quota is a limit and what counts against it.
type quota struct {
	queue       string               // whose; empty: of all queues together
	limit, used shard.Weight         // of limit, 0 is none
	line        sorted.List[*Waiter] // by number; Invariant: the first one does not fit
	pace        pace
	refused     uint64
	still       int64        // since when a call was refused, or waits, and nothing has ended; 0: that is not so
	wanted      shard.Weight // by that call
	told        bool         // that it stands still
}

// Account is a queue's part of a backlog: the limits that hold for it.
type Account struct {
	b      *Backlog
	quotas []*quota // its own first
}

// New makes a backlog with a limit over all queues, of which 0 is none. It calls
// stalled for each limit that begins to stand still.
func New(limit shard.Weight, stalled func(Stall)) *Backlog {
	b := &Backlog{born: time.Now()}
	b.watch = time.AfterFunc(StallAfter, func() { // tells of what stands still: once, until it has moved
		for _, s := range b.newlyStalled() {
			stalled(s)
		}
	})
	b.watch.Stop()
	if limit != (shard.Weight{}) {
		b.quotas = append(b.quotas, &quota{limit: limit})
	}
	return b
}

// Join makes the account of a queue, with a limit of its own, of which 0 is none.
// One that the queue had before is forgotten: it could not be registered then.
func (b *Backlog) Join(queue string, limit shard.Weight) *Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.quotas = slices.DeleteFunc(b.quotas, func(c *quota) bool { return c.queue == queue })
	if limit != (shard.Weight{}) {
		b.quotas = append(b.quotas, &quota{queue: queue, limit: limit})
	}
	a := &Account{b: b}
	for _, c := range slices.Backward(b.quotas) {
		if c.queue == "" || c.queue == queue {
			a.quotas = append(a.quotas, c)
		}
	}
	return a
}

// Limited reports whether any limit holds for the queue. Without one nothing is
// counted, and nothing needs to be weighed.
func (a *Account) Limited() bool { return len(a.quotas) > 0 }

// Take takes room for a call; false: there is none, or another call waits for it.
func (a *Account) Take(more shard.Weight) bool {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	if a.obstacle(more, a.b.turn+1) != nil {
		return false
	}
	a.add(more)
	return true
}

// Exceed counts what is accepted whatever the limits say.
func (a *Account) Exceed(more shard.Weight) {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	for _, c := range a.quotas {
		c.used = c.used.Plus(more)
	}
}

// GiveBack ends what was taken for a call that was not accepted.
func (a *Account) GiveBack(less shard.Weight) {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	a.subtract(less)
}

// Settle counts what a shard of the queue has recorded: what is over, and what
// counts for more than was taken.
func (a *Account) Settle(over, surplus shard.Weight) {
	if !a.Limited() {
		return
	}
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	a.subtract(over.Minus(surplus))
	if over.Payloads == 0 {
		return
	}
	now := a.b.now()
	for _, c := range a.quotas {
		c.pace.count(now, over)
		a.b.moved(c)
	}
}

// obstacle returns the first limit that has no room for a call, or that an earlier call
// waits for. The caller holds mu.
func (a *Account) obstacle(more shard.Weight, number int64) *quota {
	for _, c := range a.quotas {
		if !c.fits(more) || len(c.line) > 0 && c.line[0].Turn < number {
			return c
		}
	}
	return nil
}

// add gives room to a call. The caller holds mu.
func (a *Account) add(more shard.Weight) {
	for _, c := range a.quotas {
		c.used = c.used.Plus(more)
		a.b.moved(c)
	}
}

// subtract hands the room that is left to the calls that wait. The caller holds mu.
func (a *Account) subtract(less shard.Weight) {
	for _, c := range a.quotas {
		c.used = c.used.Minus(less)
	}
	for _, c := range a.quotas {
		a.b.serve(c)
	}
}

func (c *quota) fits(more shard.Weight) bool { return within(c.used.Plus(more), c.limit) }

func within(w, limit shard.Weight) bool {
	return w.Payloads <= cmp.Or(limit.Payloads, math.MaxInt) && w.Bytes <= cmp.Or(limit.Bytes, math.MaxInt)
}

// Stats returns the figures of the limit of a queue; empty: of all together. All are zero without one.
func (b *Backlog) Stats(queue string) (s inspect.Backlog) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.quotas {
		if c.queue == queue {
			s = inspect.Backlog{Payloads: c.used.Payloads, Bytes: c.used.Bytes, Refused: c.refused, Waiting: len(c.line), Stalled: b.age(c)}
		}
	}
	return s
}

// now is the time on the monotonic clock, in nanoseconds, and not 0.
func (b *Backlog) now() int64 { return 1 + int64(time.Since(b.born)) }

// paceWindow is how far back a pace looks, or twice as far.
const paceWindow = int64(10 * time.Second)

// pace counts what has ended lately. Times are those of Backlog.now.
type pace struct {
	begun  int64        // when the window began
	ended  shard.Weight // in this window
	before int64        // when the one before began
	former shard.Weight // ended in that
	last   int64        // when anything ended
}

func (p *pace) count(now int64, w shard.Weight) {
	p.turn(now)
	p.ended = p.ended.Plus(w)
	p.last = now
}

// turn begins a window when the last one is over.
func (p *pace) turn(now int64) {
	switch age := now - p.begun; {
	case age < paceWindow:
		return
	case age < 2*paceWindow:
		p.before, p.former = p.begun, p.ended
	default:
		p.before, p.former = now, shard.Weight{}
	}
	p.begun, p.ended = now, shard.Weight{}
}

// rate returns how much ends in a second, and for how long nothing has.
func (p *pace) rate(now int64) (payloads, bytes float64, quiet time.Duration) {
	p.turn(now)
	if w, seconds := p.ended.Plus(p.former), time.Duration(now-p.before).Seconds(); seconds > 0 {
		payloads, bytes = float64(w.Payloads)/seconds, float64(w.Bytes)/seconds
	}
	return payloads, bytes, time.Duration(now - p.last)
}
