package keylock

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
	"github.com/strandjobs/strand/shard"
)

// KeysOf returns the keys of a payload, each once. Nil: it has none.
type KeysOf func(id string, value any) ([]string, error)

func (f KeysOf) of(id string, value any) ([]string, error) {
	if f == nil {
		return nil, nil
	}
	return f(id, value)
}

// Condition has the jobs of a queue wait for keys that others have locked, and lock and
// unlock them.
type Condition struct {
	*Keys
	Queue                               string
	OnEnqueue, BlockedBy, OnRun, Unlock KeysOf
	Counted, UnlockOnBurial             bool
	Supersedes                          bool // a newer payload has locked what it needs itself
	TTL                                 time.Duration
	Blocked                             lock.Decision
	Service                             lock.Service // keeps the keys; nil: the executor does
	Logger                              *slog.Logger
	Handlers                            context.Context // of user code that undoes something

	Refuse func(d lock.Decision, why error) error // what a job gets that does not wait, or can't be woken

	watches sync.Map // of admit.Owner: the cancel of its Watch of Service
}

// Waits reports whether a job that is blocked waits.
func Waits(d lock.Decision) bool { return !d.Skip && d.Fail == nil && d.After <= 0 }

// KeysOnEnqueue computes what a payload locks when it is accepted, and all else that it
// will want: the caller hears of a bad key.
func (c *Condition) KeysOnEnqueue(id string, value any) ([]string, error) {
	_, err := c.BlockedBy.of(id, value)
	_, err2 := c.OnRun.of(id, value)
	_, err3 := c.Unlock.of(id, value)
	keys, err4 := c.OnEnqueue.of(id, value)
	return keys, cmp.Or(err, err2, err3, err4)
}

// unlocking is a key that the success of a job unlocks, if it counts for one of its
// payloads. own: that payload locks it itself, and unlocks no lock but that.
type unlocking struct {
	setting
	own bool
}

// want adds the keys of a payload. Counted keys count for each payload, as they did when
// it was enqueued; a service decides itself whether its keys do. OnRun keys are the
// payload's in any case: its burial, or its deletion, ends its own locks and no other.
func (h *hold) want(p admit.Payload) error {
	c, id := h.c, h.by.ID
	blockedBy, err := c.BlockedBy.of(id, p.Value)
	set, err2 := c.OnRun.of(id, p.Value)
	unlock, err3 := c.Unlock.of(id, p.Value)
	if err := cmp.Or(err, err2, err3); err != nil {
		return err
	}
	for _, key := range blockedBy {
		h.blockedBy = admit.With(h.blockedBy, key)
	}
	for _, key := range set {
		h.set = append(h.set, setting{Key: key, Position: journal.Position(p.Position)})
	}
	if !c.Counted && c.Service == nil {
		for _, key := range unlock {
			h.unlock = admit.With(h.unlock, unlocking{setting: setting{Key: key}})
		}
		return nil
	}
	own := set
	if len(unlock) > 0 && c.Counted {
		enqueued, err := c.OnEnqueue.of(id, p.Value)
		if err != nil {
			return err
		}
		own = append(own, enqueued...)
	}
	for _, key := range unlock {
		h.unlock = append(h.unlock, unlocking{setting{Key: key, Position: journal.Position(p.Position)}, slices.Contains(own, key)})
	}
	return nil
}

// Enter locks what the job locks when it runs, unless it is blocked.
func (c *Condition) Enter(ctx context.Context, cl *admit.Claim) (admit.Hold, error) {
	payloads, err := cl.Payloads()
	if err != nil {
		return nil, err
	}
	h := &hold{c: c, by: cl.By}
	for _, p := range payloads {
		if err := h.want(p); err != nil {
			return nil, err
		}
	}
	switch {
	case len(h.blockedBy)+len(h.set) == 0:
		h.aside = c.BlockedBy != nil && c.stands(cl.By)
		return h, nil
	case c.Service != nil:
		return h, c.enterService(ctx, cl, h)
	}
	wake := cl.Wake
	if !Waits(c.Blocked) {
		wake = nil
	}
	r := request{By: cl.By, BlockedBy: h.blockedBy, Lock: h.set, TTL: c.TTL}
	c.ledger.Do(nil, func() {
		var key string
		if h.fresh, key = c.Keys.locks.Enter(r, wake); key != "" && wake == nil {
			err = c.lockedError(key, cl.By)
		} else if key != "" {
			err = admit.ErrWaits
		}
	})
	if wake == nil && err != nil {
		err = c.Refuse(c.Blocked, err)
	}
	return h, err
}

// stands reports whether a job stands in line with another payload, whose place that stays. It steps aside.
func (c *Condition) stands(by admit.Owner) (stands bool) {
	c.ledger.View(func() { stands = c.waiting[by] != nil })
	c.Aside(by, false)
	return stands
}

// Aside implements [admit.Condition].
func (c *Condition) Aside(by admit.Owner, forget bool) {
	c.unwatch(by)
	c.ledger.Do(nil, func() { c.Leave(by, forget) })
}

// Waits implements [admit.Condition].
func (c *Condition) Waits(by admit.Owner) (all []admit.Wait) {
	c.ledger.View(func() {
		keys, _ := c.WaitsFor(by)
		for _, key := range keys {
			w := admit.Wait{For: key}
			for h := range c.each(key) {
				if h.Owner != by {
					w.On = append(w.On, h.Owner)
				}
			}
			all = append(all, w)
		}
	})
	return all
}

// Has implements [admit.Possessor].
func (c *Condition) Has(by admit.Owner) (has bool) {
	c.ledger.View(func() { has = c.held[by] > 0 })
	return has
}

// Called implements [admit.Caller].
func (c *Condition) Called(queue string) (ids []string) {
	c.ledger.View(func() {
		for w := range c.called {
			if w.By.Queue == queue {
				ids = append(ids, w.By.ID)
			}
		}
	})
	return ids
}

// Merging implements [admit.Witness].
func (c *Condition) Merging(change *shard.Change) {
	for _, m := range change.Merged {
		if c.Supersedes {
			c.Drop(c.comingWith(m.Position)...)
			continue
		}
		c.Replace(c.comingWith(m.Position), m.Into, func(h *Lock) { c.rebind(h, m.Into) })
	}
}

// Ending implements [admit.Witness].
func (c *Condition) Ending(change *shard.Change) {
	c.DropAll(change.Exhumed)
	c.DropAll(change.Deleted)
	if c.OnRun != nil && !c.Counted {
		c.leaveToJobs(change.Ended)
	}
	if c.UnlockOnBurial {
		for i := range change.Buried {
			c.Drop(c.comingWith(change.Buried[i].Ref.Position())...)
		}
	}
}

// hold is what a running job has locked, and will unlock.
type hold struct {
	c         *Condition
	by        admit.Owner
	blockedBy []string
	unlock    []unlocking
	set       []setting // keys that it locks when it runs
	fresh     []*Lock   // keys that this very run has locked
	served    []string  // the same, of a service; nil once the job has run
	aside     bool      // another payload of the job has a place in a line
}

// Renew implements [admit.Renewed]: nothing that blocks the job has been locked meanwhile.
func (h *hold) Renew() (free bool) {
	h.c.ledger.View(func() { free = h.c.Service != nil || !h.c.Blocks(h.blockedBy, h.by) })
	return free
}

// Settle implements [admit.Settled].
func (h *hold) Settle(v shard.Verdict, _ bool) []journal.Set {
	if v == shard.VerdictUnstarted {
		h.c.Drop(h.fresh...)
		return nil
	}
	h.served = nil
	h.c.Leave(h.by, !h.aside)
	if v == shard.VerdictDone || v == shard.VerdictDiscarded {
		for _, u := range h.unlock {
			// Of a counted key it ends the lock of the very payload. If that is gone, because a person, a
			// burial or its time has ended it, there is nothing to be unlocked for it. Beside a service it
			// ends what the executor kept before.
			var own []*Lock
			if h.c.Counted || h.c.Service != nil {
				own = h.c.comingWith(u.Position)
			}
			switch i := slices.IndexFunc(own, func(l *Lock) bool { return l.Key == u.Key }); {
			case i >= 0:
				h.c.Drop(own[i])
			case h.c.Service != nil:
			case !u.own:
				h.c.Keys.Unlock(u.Key, h.c.Counted, h.by)
			}
		}
	}
	return nil
}

// Release implements [admit.Hold].
func (h *hold) Release() {
	if len(h.served) > 0 {
		h.c.withdrawServed(h.served)
	}
}

// Conclude implements [admit.Concluded]: a service of the queue's own unlocks what the
// journal does not.
func (h *hold) Conclude(ctx context.Context, _ shard.Verdict) error {
	if h.c.Service == nil {
		return nil
	}
	return h.c.unlockServed(ctx, each.Of(h.unlock, func(u unlocking) string { return u.Key }))
}

// Explain implements [admit.Condition].
func (c *Condition) Explain(by admit.Owner, e *inspect.Explanation) (waits bool) {
	c.ledger.View(func() {
		keys, called := c.WaitsFor(by)
		switch waits = called || len(keys) > 0; {
		case called:
			e.State = inspect.JobReady // its shard is about to hear of it
		case waits:
			e.State, e.More = inspect.JobBlocked, max(len(keys)-brief.Most, 0)
			e.Keys = each.Of(keys[:len(keys)-e.More], c.Status)
		}
	})
	return waits
}

// Held implements [admit.Holder].
func (c *Condition) Held(by admit.Owner, h *inspect.Holdings) {
	c.ledger.View(func() { h.Keys = c.HeldBy(by, brief.Most) })
}
