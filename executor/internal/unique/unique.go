// Package unique lets one job at a time run for each key, as package admit asks it: by a
// lease in memory, which ends with the run and with the process. A job that waits stands
// in the lines of all its keys, and keeps its place when something else wakes it.
//
// It is safe for concurrent use. Wakers are called under no lock.
package unique

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/lock"
)

// Leases are those of the jobs of an executor. The zero Leases is ready for use.
type Leases struct {
	Table lock.Table

	// mu guards what follows. Nothing but the table is called under it.
	mu     sync.Mutex
	places map[admit.Owner]*place
	names  map[string]admit.Owner // of those that have a lease, or wait for one
}

// place is where a job waits.
type place struct {
	*lock.Place
	claim *admit.Claim // guarded by mu
}

// Condition has the jobs of a queue wait for leases.
type Condition struct {
	*Leases
	Key            func(id string, p admit.Payload) (string, error)
	Checked        func(id string, value any) (string, error) // the same, of a function of the program
	TTL, Heartbeat time.Duration
	Handlers       context.Context
}

// Check implements [admit.Checker].
func (c *Condition) Check(id string, value any) error {
	_, err := c.Checked(id, value)
	return err
}

// Enter implements [admit.Condition].
func (c *Condition) Enter(_ context.Context, cl *admit.Claim) (admit.Hold, error) {
	payloads, err := cl.Payloads()
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, p := range payloads {
		key, err := c.Key(cl.By.ID, p)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	if keys = slices.Compact(keys); len(keys) == 0 {
		c.Aside(cl.By, true)
		return nil, nil
	}
	if p := c.place(cl.By); p != nil {
		if lease, granted := p.Lease(); slices.Equal(p.Keys(), keys) && (!granted || lease.Held()) {
			return c.await(p, cl) // something else may have woken it: it keeps its place
		}
		c.Aside(cl.By, true) // it has other payloads now, or a person has broken its lease
	}
	p := &place{claim: cl}
	wake := func() {
		c.mu.Lock()
		cl := p.claim
		c.mu.Unlock()
		cl.Wake()
	}
	// The lease has no TTL yet: that counts from the start of the run, see KeepAlive.
	if p.Place, err = c.Table.Queue(lock.Options{Owner: cl.By.String()}, wake, keys...); err != nil {
		return nil, err
	}
	return c.await(p, cl)
}

func (l *Leases) place(by admit.Owner) *place {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.places[by]
}

// await returns the lease of a place if it is granted by now, and otherwise has the job
// keep it.
func (c *Condition) await(p *place, cl *admit.Claim) (admit.Hold, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.places == nil {
		c.places, c.names = make(map[admit.Owner]*place), make(map[string]admit.Owner)
	}
	p.claim, c.names[cl.By.String()] = cl, cl.By
	lease, granted := p.Lease() // after the claim is known: so it is woken, or hears now
	if !granted {
		c.places[cl.By] = p
		return nil, admit.ErrWaits
	}
	delete(c.places, cl.By)
	return &hold{c: c, by: cl.By, lease: lease}, nil // to ask whether it is held may wake others, who take mu
}

// Aside implements [admit.Condition]: a job that waits for something else has no place.
func (c *Condition) Aside(by admit.Owner, _ bool) {
	c.mu.Lock()
	p := c.places[by]
	if p != nil {
		delete(c.places, by)
		delete(c.names, by.String())
	}
	c.mu.Unlock()
	if p != nil {
		p.Cancel()
	}
}

// Waits implements [admit.Condition].
func (c *Condition) Waits(by admit.Owner) []admit.Wait {
	p := c.place(by)
	if p == nil {
		return nil
	}
	ahead := p.Ahead()
	c.mu.Lock()
	defer c.mu.Unlock()
	return each.Of(ahead, func(hop lock.Hop) admit.Wait {
		return admit.Wait{For: hop.Key, On: []admit.Owner{c.names[hop.Holder]}}
	})
}

// Has implements [admit.Possessor]: one that stands in several lines keeps others waiting.
func (c *Condition) Has(by admit.Owner) bool { return c.place(by) != nil }

// Called implements [admit.Caller]: it returns the ids that may keep others from a free key, as one does that waits
// for several keys and is first in the line of that one.
func (c *Condition) Called(queue string) (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for by, p := range c.places {
		if _, granted := p.Lease(); by.Queue == queue && (granted || len(p.Keys()) > 1) {
			ids = append(ids, by.ID)
		}
	}
	return ids
}

// Kept reports whether a lease is kept for a job that waits for a worker. Only such a one, and
// one of a TTL of centuries, has no end.
func (l *Leases) Kept(h lock.Held) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.places[l.names[h.Owner]]
	if p == nil {
		return false
	}
	lease, granted := p.Lease()
	return granted && lease.Token() == h.Token
}

// hold is the lease of a running job.
type hold struct {
	c     *Condition
	by    admit.Owner
	lease lock.Lease
	admit.Heart
}

// LeaseOf returns the lease of a job; one that has ended if there is none.
func LeaseOf(c *admit.Claim) lock.Lease {
	for _, h := range c.Holds() {
		if h, ok := h.(*hold); ok {
			return h.lease
		}
	}
	return lock.Lease{}
}

// KeepAlive implements [admit.Lease]. A TTL counts from here: before, the job may have
// waited for a worker.
func (h *hold) KeepAlive() {
	extend := func() bool { return h.lease.Extend(h.c.TTL) == nil }
	if extend() {
		h.Beat(h.c.Handlers, h.c.Heartbeat, extend)
	}
}

// Lost and OnLost implement [admit.Lease].
func (h *hold) Lost() bool                                  { return !h.lease.Held() }
func (h *hold) OnLost(f func(reason error)) (forget func()) { return h.lease.OnEnd(f) }

// Release implements [admit.Hold]. The lease may be lost.
func (h *hold) Release() {
	h.StopHeart()
	h.c.mu.Lock()
	delete(h.c.names, h.by.String())
	h.c.mu.Unlock()
	_ = h.lease.Unlock()
}

// Status returns the state of a key, for people.
func (l *Leases) Status(key string) inspect.LeaseStatus {
	s := l.Table.Status(key)
	more := max(len(s.Waiters)-brief.Most, 0)
	status := inspect.LeaseStatus{Key: s.Key, HeldFor: s.HeldFor, Remaining: s.Remaining, More: more}
	switch {
	case s.Holder.Token == 0:
	case s.Holder.TTL == 0 && l.Kept(s.Holder):
		status.Called, status.HeldFor = s.Holder.Owner, 0
	default:
		status.By, status.Token = s.Holder.Owner, s.Holder.Token
	}
	status.Waiters = each.Of(s.Waiters[:len(s.Waiters)-more], func(w lock.Waiter) inspect.LeaseWaiter {
		return inspect.LeaseWaiter{By: w.Owner, For: w.For}
	})
	return status
}

// Explain implements [admit.Condition].
func (c *Condition) Explain(by admit.Owner, e *inspect.Explanation) bool {
	p := c.place(by)
	if p == nil {
		return false
	}
	keys := p.Keys()
	e.More = max(len(keys)-brief.Most, 0)
	e.Unique = each.Of(keys[:len(keys)-e.More], c.Status)
	return len(keys) > 0
}

// Held implements [admit.Holder].
func (c *Condition) Held(by admit.Owner, h *inspect.Holdings) {
	for _, held := range c.Table.HeldBy(by.String(), brief.Most) {
		h.Leases = append(h.Leases, held.Keys...)
	}
	h.Leases = h.Leases[:min(len(h.Leases), brief.Most)]
}
