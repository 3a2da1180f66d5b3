package limit

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/each"
)

// Limits are all limits of an executor, and the jobs that wait for them, for any number
// of goroutines.
type Limits struct {
	base time.Time // when the clock of the table was 0

	// mu guards what follows. Nothing is called under it.
	mu     sync.Mutex
	table  *Table
	alarm  admit.Alarm   // of the next job that may run, over all keys
	closed bool          // no alarm any more, and no job is woken
	all    []*Limit      // in the order in which they were made
	asks   chan struct{} // holds a token when Keep should look; nil: these are a process's own
}

// New returns limits, none so far.
func New() *Limits { return &Limits{base: time.Now(), table: NewTable()} }

// Add makes a limit; nil: there is one with its name.
func (l *Limits) Add(name string, c Config) (made *Limit) {
	l.Do(func(t *Table, now int64) {
		if !t.names[name] {
			t.names[name] = true
			made = t.NewLimit(now, name, c)
			l.all = append(l.all, made)
		}
	})
	return made
}

// Show shows all limits, each with some keys, or without any with up to n in use.
func (l *Limits) Show(n int, keys []string) (all []inspect.LimitStats) {
	l.Do(func(_ *Table, now int64) {
		for _, of := range l.all {
			s := of.Stats()
			s.Keys = each.Of(keys, func(key string) inspect.LimitKey { return of.Key(now, key) })
			if len(keys) == 0 {
				s.Keys = of.Keys(now, n)
			}
			all = append(all, s)
		}
	})
	return all
}

// Do lets f look at the table or change it, and wakes the jobs that may run then.
func (l *Limits) Do(f func(t *Table, now int64)) {
	l.mu.Lock()
	now := int64(time.Since(l.base))
	f(l.table, now)
	woken := l.table.Drain()
	if asks := l.table.asks; len(asks) > 0 && asks[0].Turn < l.table.expects {
		l.table.expects = asks[0].Turn
		select {
		case l.asks <- struct{}{}:
		default: // it is about to look
		}
	}
	if l.closed {
		woken = nil
	}
	l.arm()
	l.mu.Unlock()
	for _, wake := range woken {
		wake()
	}
}

// arm sets the alarm to what happens next by itself. mu is held.
func (l *Limits) arm() {
	at, ok := l.table.Next()
	l.alarm.Set(l.base, time.Duration(at), ok && !l.closed, func() {
		l.Do(func(t *Table, now int64) {
			l.alarm.Rang()
			t.Expire(now)
		})
	})
}

// Forget takes out the jobs that wait and will not come, because their executor has ended: each
// would be called, and its turn kept for a while.
func (l *Limits) Forget(gone func(admit.Owner) bool) {
	var all []admit.Owner
	l.Do(func(t *Table, _ int64) { all = slices.Collect(maps.Keys(t.waiters)) })
	all = slices.DeleteFunc(all, func(o admit.Owner) bool { return !gone(o) })
	l.Do(func(t *Table, now int64) {
		for _, o := range all {
			t.Aside(now, o, true)
		}
	})
}

// Close stops the alarm.
func (l *Limits) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.arm()
}

// Condition has the jobs of a queue wait for limits.
type Condition struct {
	*Limits
	Of []Of
}

// Of is a limit with the key of a payload. Without a function all have the key "".
type Of struct {
	Limit *Limit
	Key   func(id string, value any) (string, error)
}

// Check implements [admit.Checker].
func (c *Condition) Check(id string, value any) error {
	for _, of := range c.Of {
		if of.Key == nil {
			continue
		}
		if _, err := of.Key(id, value); err != nil {
			return err
		}
	}
	return nil
}

// needs are those of all payloads of a job.
func (c *Condition) needs(cl *admit.Claim) (needs []Need, err error) {
	for _, of := range c.Of {
		if of.Key == nil {
			needs = admit.With(needs, Need{Limit: of.Limit})
			continue
		}
		payloads, err := cl.Payloads()
		if err != nil {
			return nil, err
		}
		for _, p := range payloads {
			key, err := of.Key(cl.By.ID, p.Value)
			if err != nil {
				return nil, err
			}
			needs = admit.With(needs, Need{Limit: of.Limit, Key: key})
		}
	}
	return needs, nil
}

// Enter implements [admit.Condition]: a job takes what it needs in one step. It is asked
// last, so that it holds nothing of a limit while it waits for another thing.
func (c *Condition) Enter(_ context.Context, cl *admit.Claim) (admit.Hold, error) {
	needs, err := c.needs(cl)
	if err != nil {
		return nil, err
	}
	if len(needs) == 0 {
		c.Aside(cl.By, true)
		return nil, nil
	}
	h := &hold{l: c.Limits}
	c.Do(func(t *Table, now int64) { h.grant = t.Enter(now, cl.By, needs, cl.Wake) })
	if h.grant == nil {
		return nil, admit.ErrWaits
	}
	return h, nil
}

// Aside implements [admit.Condition].
func (c *Condition) Aside(by admit.Owner, forget bool) {
	c.Do(func(t *Table, now int64) { t.Aside(now, by, forget) })
}

// Called implements [admit.Caller].
func (c *Condition) Called(queue string) (ids []string) {
	c.Do(func(t *Table, _ int64) { ids = t.keeping(queue) })
	return ids
}

// Waits implements [admit.Condition]. A wait for a time is left out: it ends by itself.
func (c *Condition) Waits(by admit.Owner) (all []admit.Wait) {
	c.Do(func(t *Table, _ int64) {
		if k, called := t.waits(by); k != nil && !called && k.from(ahead{}) == never && !k.limit.shared {
			all = []admit.Wait{{For: k.limit.name, On: t.running(k), Any: true}}
		}
	})
	return all
}

// Has implements [admit.Possessor]: only what runs counts.
func (c *Condition) Has(admit.Owner) bool { return false }

// hold is what a running job has of its limits.
type hold struct {
	l     *Limits
	grant *Grant
}

// Release implements [admit.Hold], and Returned [admit.Early].
func (h *hold) Release()  { h.l.Do(func(t *Table, now int64) { t.Release(now, h.grant) }) }
func (h *hold) Returned() { h.Release() }

// Throttle pauses the keys that a job runs under, those of one limit or with nil of all,
// for d.
func Throttle(c *admit.Claim, only *Limit, d time.Duration) {
	for _, h := range c.Holds() {
		if h, ok := h.(*hold); ok {
			h.l.Do(func(t *Table, now int64) { t.Throttle(now, h.grant, only, now+int64(d)) })
		}
	}
}

// Explain implements [admit.Condition].
func (c *Condition) Explain(by admit.Owner, e *inspect.Explanation) (waits bool) {
	c.Do(func(t *Table, now int64) {
		k, called := t.waits(by)
		switch waits = k != nil; {
		case called:
			e.State = inspect.JobReady // its shard is about to hear of it
		case waits:
			e.State, e.Limit = inspect.JobLimited, new(k.shown(now))
		}
	})
	return waits
}
