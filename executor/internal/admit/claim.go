package admit

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
	"github.com/strandjobs/strand/shard"
)

// Claim is a job that asks for what it needs, and what it has of that while it runs. It
// goes back in the commit that settles the job.
type Claim struct {
	By   Owner
	Item *shard.Item // nil: no worker has the job
	Full bool        // a snooze is a failure to what the job holds: it waits for a full disk

	list     *List
	holds    []Hold // as List.asked; nil: nothing of that condition
	inline   [3]Hold
	payloads []Payload
	read     bool
	passed   bool // all conditions; or else they are to forget the job when it is settled
	woken    atomic.Bool
	again    uint64 // of the list when it was made
}

// Claim returns that of a job, which has nothing yet; it: nil for one that ends without a worker.
func (l *List) Claim(id string, it *shard.Item) *Claim {
	c := &Claim{By: Owner{Queue: l.Queue, ID: id}, Item: it, list: l, again: l.again.Load()}
	c.holds = slices.Grow(c.inline[:0], len(l.asked))[:len(l.asked)]
	return c
}

// ClaimOf returns the claim that a shard has kept for an item; nil: there is none.
func ClaimOf(kept shard.Held) *Claim {
	c, _ := kept.(*Claim)
	return c
}

// Enter asks the conditions: those before the disk has what they give, or the others.
// ErrWaits: the job stands in a line, and holds nothing.
func (c *Claim) Enter(ctx context.Context, late bool) error {
	from, to := 0, len(c.holds)
	over := func(h Hold) bool { r, is := h.(Renewed); return is && !r.Renew() }
	switch {
	case late && slices.ContainsFunc(c.holds, over): // the job may ask for another
		c.Withdraw()
		c.Wake()
		return ErrWaits
	case late:
		from = c.list.durable
	case c.list.durable > 0:
		to = c.list.durable
	}
	for i := from; i < to; i++ {
		var err error
		if c.holds[i], err = c.list.asked[i].Enter(ctx, c); err != nil {
			c.holds[i] = nil
			return c.stop(i, err)
		}
	}
	c.passed = to == len(c.holds)
	return nil
}

// stop has a job hold nothing that one of its conditions has not let pass. It waits for
// nothing else, and for that one only if this closes no circle.
func (c *Claim) stop(at int, err error) error {
	c.Withdraw()
	if err != ErrWaits {
		c.list.Aside(c.By, true)
		return err
	}
	for i, other := range c.list.asked {
		if i != at {
			other.Aside(c.By, false)
		}
	}
	if circle := c.list.Graph.Closed(c.By); circle != nil {
		return &lock.DeadlockError{Cycle: circle}
	}
	return ErrWaits
}

// Wake has the job ask again.
func (c *Claim) Wake() {
	c.woken.Store(true)
	c.list.Wake(c.By.ID)
}

// Woken reports whether Wake was called, or the job may be in no line any more.
func (c *Claim) Woken() bool { return c.woken.Load() || c.again != c.list.again.Load() }

// Payloads are those that the worker has in hand, without those that have no part in the run.
func (c *Claim) Payloads() (all []Payload, err error) {
	if !c.read {
		c.payloads, err = c.list.Decode(c.Item)
		c.read = err == nil
	}
	return c.payloads, err
}

// Job is the job as user code gets it that is asked about it.
func (c *Claim) Job(withPayloads bool) (job lock.Job, err error) {
	job = lock.Job{Queue: c.By.Queue, ID: c.By.ID, Attempt: c.Item.Retry + 2} // of a retry of −1 it is the first
	if withPayloads {
		payloads, err := c.Payloads()
		if err != nil {
			return job, err
		}
		job.Payloads = each.Of(payloads, func(p Payload) any { return p.Value })
	}
	return job, nil
}

// Holds are what the job has; some are nil.
func (c *Claim) Holds() []Hold {
	if c == nil {
		return nil
	}
	return c.holds
}

// KeepAlive extends the leases that the job has, from when its handler is called.
func (c *Claim) KeepAlive() {
	c.payloads = nil // the conditions have seen them
	for _, h := range c.holds {
		if l, ok := h.(Lease); ok {
			l.KeepAlive()
		}
	}
}

// Watch calls f with the reason when a lease is lost, until forget is called.
func (c *Claim) Watch(f func(reason error)) (forget func()) {
	var forgets []func()
	for _, h := range c.holds {
		if l, ok := h.(Lease); ok {
			forgets = append(forgets, l.OnLost(func(reason error) {
				if !errors.Is(reason, lock.ErrUnlocked) { // a slot that was cleared by hand
					f(reason)
				}
			}))
		}
	}
	return func() {
		for _, forget := range forgets {
			forget()
		}
	}
}

// Lost reports whether the job no longer has what it was started with.
func (c *Claim) Lost() bool {
	return slices.ContainsFunc(c.Holds(), func(h Hold) bool { l, ok := h.(Lease); return ok && l.Lost() })
}

// Conclude completes a success, or a discard. The claim may be nil.
func (c *Claim) Conclude(ctx context.Context, v shard.Verdict) error {
	for _, h := range c.Holds() {
		if p, ok := h.(Concluded); ok {
			if err := p.Conclude(ctx, v); err != nil {
				c.list.Logger.Error("job did its work, but not its locks", slog.String("queue", c.By.Queue), slog.String("id", c.By.ID), slog.Any("error", err))
				return err
			}
		}
	}
	return nil
}

// Returned ends what no job holds whose handler has returned.
func (c *Claim) Returned() {
	for _, h := range c.Holds() {
		if e, ok := h.(Early); ok {
			e.Returned()
		}
	}
}

// Settle implements [shard.Held]. Of what a job did not come to, the condition says what
// becomes of what it has kept for it.
func (c *Claim) Settle(v shard.Verdict, over bool) (sets []journal.Set) {
	if c.Full && v == shard.VerdictSnoozed {
		v = shard.VerdictFailed
	}
	for i, h := range c.holds {
		if s, ok := h.(Settled); ok {
			sets = append(sets, s.Settle(v, over)...)
		} else if k, ok := c.list.asked[i].(Keeper); ok && h == nil {
			sets = append(sets, k.Abandoned(c.By, v, over)...)
		}
	}
	return sets
}

// Release implements [shard.Held].
func (c *Claim) Release(over bool) {
	c.release()
	if !c.passed {
		c.list.Aside(c.By, over || c.Item != nil)
	}
}

func (c *Claim) release() {
	for i, h := range c.holds {
		if h != nil {
			c.holds[i] = nil
			h.Release()
		}
	}
}

// Withdraw gives back what was taken for a job that does not run now. The claim may be nil.
func (c *Claim) Withdraw() {
	if slices.ContainsFunc(c.Holds(), func(h Hold) bool { return h != nil }) {
		change := new(journal.Change)
		c.list.Ledger.Do(change, func() { change.Sets = c.Settle(shard.VerdictUnstarted, false) })
		c.release()
	}
}

// Heart beats for a lease that is kept alive. The zero Heart stands still. Its owner calls
// its methods one after the other.
type Heart struct {
	timer   *time.Timer
	stopped atomic.Bool
}

// Beat calls f again and again, until it returns false, the heart is stopped, or ctx has
// ended: a handler that is left behind keeps no lease.
func (h *Heart) Beat(ctx context.Context, d time.Duration, f func() bool) {
	h.timer = time.AfterFunc(math.MaxInt64, func() {
		if context.Cause(ctx) == nil && !h.stopped.Load() && f() {
			h.timer.Reset(d)
		}
	})
	h.timer.Reset(d) // only now: the function needs it
}

// StopHeart ends the beat. A call that is under way is the last: it may wait for what the caller holds.
func (h *Heart) StopHeart() {
	h.stopped.Store(true)
	if h.timer != nil {
		h.timer.Stop()
	}
}

// Owner is who holds, locks or waits: a job by its queue and id, all others by an ID alone. The zero value
// is anonymous, or a person who locks by hand. An owner counts as one sequential party.
type Owner struct{ Queue, ID string }

// String names an owner for people: queue/id, or the ID as it is.
func (o Owner) String() string {
	if o.Queue == "" {
		return o.ID
	}
	return brief.Job(o.Queue, o.ID)
}
