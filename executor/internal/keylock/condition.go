package keylock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/guard"
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

// undoWithin is how long a service has for keys that were locked for nothing.
const undoWithin = 10 * time.Second

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

// enterService is Enter with the queue's own service.
func (c *Condition) enterService(ctx context.Context, cl *admit.Claim, h *hold) error {
	c.unwatch(cl.By)
	locked, err := c.lockedServed(ctx, h.blockedBy)
	if err != nil {
		return err
	}
	if len(locked) == 0 {
		for _, s := range h.set {
			h.served = append(h.served, s.Key)
		}
		return c.lockServed(ctx, h.served)
	}
	decision := c.Blocked
	if handler, ok := c.Service.(lock.LockedHandler); ok {
		job, err := cl.Job(true)
		if err == nil {
			err = guard.Call(func() error { decision = handler.HandleLockedBy(ctx, job, locked); return nil })
		}
		if err != nil {
			return err
		}
	}
	if !Waits(decision) {
		return c.Refuse(decision, &lock.LockedError{Key: locked[0]})
	}
	watcher, ok := c.Service.(lock.Watcher)
	if !ok {
		return c.Refuse(decision, nil)
	}
	var blocked bool
	var cancel func()
	if err := guard.Call(func() error { cancel, blocked = watcher.Watch(locked[0], cl.Wake); return nil }); err != nil {
		return err
	}
	if cancel != nil {
		c.watches.Store(cl.By, cancel)
	}
	if !blocked {
		cl.Wake() // it was unlocked just now
	}
	return admit.ErrWaits
}

// lockedServed returns those of some keys that the queue's service has locked.
func (c *Condition) lockedServed(ctx context.Context, keys []string) (locked []string, err error) {
	for _, key := range keys {
		if err = guard.Call(func() error {
			is, err := c.Service.Locked(ctx, key)
			if is {
				locked = append(locked, key)
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	return locked, nil
}

// lockServed locks keys with the queue's service. Those that it has locked before one
// failed, or has ended the goroutine, it unlocks.
func (c *Condition) lockServed(ctx context.Context, keys []string) error {
	locked := 0
	defer func() {
		if locked < len(keys) {
			c.withdrawServed(keys[:locked])
		}
	}()
	for _, key := range keys {
		if err := guard.Call(func() error { return c.Service.Lock(ctx, key) }); err != nil {
			return fmt.Errorf("lock service: lock %q: %w", key, err)
		}
		locked++
	}
	return nil
}

// unlockServed unlocks keys with the queue's service, and returns the first error. What is not
// locked, because an earlier try has unlocked it or the executor kept it, is as it should be.
func (c *Condition) unlockServed(ctx context.Context, keys []string) (first error) {
	for _, key := range keys {
		if err := guard.Call(func() error {
			err := c.Service.Unlock(ctx, key)
			if errors.Is(err, lock.ErrNotLocked) {
				return nil
			}
			return err
		}); err != nil && first == nil {
			first = fmt.Errorf("lock service: unlock %q: %w", key, err)
		}
	}
	return first
}

// withdrawServed unlocks keys with the queue's service that were locked for nothing: also when the caller's
// time is over, or a stop has ended that of the handlers.
func (c *Condition) withdrawServed(keys []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Handlers), undoWithin)
	defer cancel()
	if err := c.unlockServed(ctx, keys); err != nil {
		c.Logger.Error("keys of a job that does not run stay locked", slog.Any("error", err))
	}
}

// unwatch has the service forget the waker of a job. The caller may be an actor, which code of
// the service could end.
func (c *Condition) unwatch(by admit.Owner) {
	if cancel, watches := c.watches.LoadAndDelete(by); watches {
		go guard.Hook(c.Logger, "cancel of Watch", cancel.(func()))
	}
}

// Close has the service forget all wakers: no job runs any more.
func (c *Condition) Close() {
	c.watches.Range(func(by, _ any) bool { c.unwatch(by.(admit.Owner)); return true })
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
	keys := make([]string, len(h.unlock))
	for i, u := range h.unlock {
		keys[i] = u.Key
	}
	return h.c.unlockServed(ctx, keys)
}

// Explain implements [admit.Condition].
func (c *Condition) Explain(by admit.Owner, e *inspect.Explanation) (waits bool) {
	c.ledger.View(func() {
		keys, called := c.WaitsFor(by)
		switch waits = called || len(keys) > 0; {
		case called:
			e.State = inspect.JobReady // its shard is about to hear of it
		case waits:
			e.State, e.More = inspect.JobBlocked, max(len(keys)-inspect.MaxListed, 0)
			for _, key := range keys[:len(keys)-e.More] {
				e.Keys = append(e.Keys, c.Status(key))
			}
		}
	})
	return waits
}

// Held implements [admit.Holder].
func (c *Condition) Held(by admit.Owner, h *inspect.Holdings) {
	c.ledger.View(func() { h.Keys = c.HeldBy(by, inspect.MaxListed) })
}
