package slots

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
	"github.com/strandjobs/strand/shard"
)

// sureOfNone is how often in a row a job has to find that no value is free and no
// job has one, before it takes that for more than a coincidence.
const sureOfNone = 100

// condition has the jobs of a queue reserve values of a sequence.
type condition[V any] struct {
	*Slots[V]
	ttl time.Duration // where the sequence says nothing
}

// Condition returns that of a queue, where a job keeps its value for ttl if the sequence
// does not say how long.
func (s *Slots[V]) Condition(ttl time.Duration) admit.Condition { return &condition[V]{s, ttl} }

// Durable implements [admit.Durable].
func (c *condition[V]) Durable() {}

// Enter implements [admit.Condition]: a job takes a value, or waits until one is given
// back.
func (c *condition[V]) Enter(ctx context.Context, cl *admit.Claim) (admit.Hold, error) {
	c.Aside(cl.By, true)
	job, err := cl.Job(c.cfg.TTLOf != nil)
	if err != nil {
		return nil, err
	}
	h := &hold[V]{s: c.Slots, by: cl.By}
	reserve := func() error { return guard.Call(func() error { return c.reserve(ctx, h, job) }) }
	if err = reserve(); err == nil || !errors.Is(err, lock.ErrNoFreeSlot) {
		return h, err
	}
	cancel := c.slots.Watch(func() {
		c.Aside(cl.By, true)
		cl.Wake()
	})
	// One may have been given back before that, and taken by another job, which
	// gives it back before we ask which jobs have one.
	for range sureOfNone {
		if err = reserve(); err == nil || !errors.Is(err, lock.ErrNoFreeSlot) {
			break
		}
		if cl.Woken() || len(c.slots.Snapshot().Open) > 0 {
			c.mu.Lock()
			defer c.mu.Unlock()
			if !cl.Woken() {
				c.waiting[cl.By] = cancel
			}
			return nil, admit.ErrWaits
		}
	}
	cancel()
	return h, err // ErrNoFreeSlot: no job has one that it could give back
}

// reserve finds the job's own value, or takes the next free one, and writes it down.
func (c *condition[V]) reserve(ctx context.Context, h *hold[V], job lock.Job) error {
	s := c.Slots
	h.ttl = cmp.Or(s.cfg.TTL, c.ttl)
	if s.cfg.TTLOf != nil {
		h.ttl = cmp.Or(max(s.cfg.TTLOf(job), 0), h.ttl)
	}
	var r *reserved[V]
	s.cfg.Ledger.View(func() { r = s.mine[h.by] })
	taken := false
	if h.kept = r != nil && r.Extend(h.ttl) == nil; !h.kept {
		next, err := s.slots.Reserve(ctx, lock.Options{Owner: h.by.String(), TTL: h.ttl})
		if err != nil {
			return err
		}
		defer func() {
			if !taken {
				_ = next.Unlock() // the value does not encode, whichever way it said so
			}
		}()
		r = &reserved[V]{Reservation: next}
		if r.value, err = json.Marshal(next.Value()); err != nil {
			return fmt.Errorf("slots %q: %w", s.cfg.Store, err)
		}
	}
	start, resets, err := s.start()
	if err != nil {
		return err
	}
	change := new(journal.Change)
	s.cfg.Ledger.Do(change, func() {
		s.mine[h.by] = r
		if s.last == nil && s.resets == resets {
			s.last = start
		}
		change.Sets = append(s.sets(s.open(h.by, r), s.lastSet()), s.exhume()...)
	})
	taken, h.r = true, r
	h.beat()
	return nil
}

// Aside implements [admit.Condition].
func (s *Slots[V]) Aside(by admit.Owner, _ bool) {
	s.mu.Lock()
	cancel := s.waiting[by]
	delete(s.waiting, by)
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// Waits implements [admit.Condition].
func (s *Slots[V]) Waits(by admit.Owner) []admit.Wait {
	s.mu.Lock()
	waits := s.waiting[by] != nil
	s.mu.Unlock()
	if !waits {
		return nil
	}
	w := admit.Wait{For: s.cfg.Store, Any: true}
	s.cfg.Ledger.View(func() {
		w.On = slices.Collect(maps.Keys(s.mine))
		if s.buried.Load() > 0 {
			w.On = append(w.On, admit.Owner{}) // they end by themselves
		}
	})
	return []admit.Wait{w}
}

// Has implements [admit.Possessor]: a value that was kept for it.
func (s *Slots[V]) Has(by admit.Owner) (has bool) {
	s.cfg.Ledger.View(func() { has = s.mine[by] != nil })
	return has
}

// Abandoned implements [admit.Keeper]: it gives back what a job has kept, which does not
// run again.
func (s *Slots[V]) Abandoned(by admit.Owner, v shard.Verdict, over bool) []journal.Set {
	r := s.mine[by]
	if r == nil || !over {
		return nil
	}
	delete(s.mine, by)
	if v != shard.VerdictDeleted && s.cfg.KeepOnBurial {
		return s.bury(by, r)
	}
	_ = r.Unlock() // it may have expired
	return s.sets(journal.Set{Key: s.openKey(by)})
}

// bury leaves a reservation to its TTL, of which no job knows any more. The ledger is
// held.
func (s *Slots[V]) bury(by admit.Owner, r *reserved[V]) []journal.Set {
	w := s.openValue(by, r)
	w.Buried = true
	s.await(r)
	return s.sets(journal.Set{Key: s.openKey(by)}, w.Set(s.buriedKey(r)))
}

// await has exhume return what the journal has of a buried reservation, once that has ended. With TTLs
// of their own they end in any order, and to look at all of them each time would take long.
func (s *Slots[V]) await(r *reserved[V]) {
	s.buried.Add(1)
	r.OnEnd(func(error) {
		s.buried.Add(-1)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = append(s.ended, journal.Set{Key: s.buriedKey(r)})
	})
}

// exhume returns what deletes the journal's records of those slots of the buried that have ended since the last call.
func (s *Slots[V]) exhume() (gone []journal.Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone, s.ended = s.sets(s.ended...), nil
	return gone
}

// hold is the value of a running job.
type hold[V any] struct {
	s   *Slots[V]
	by  admit.Owner
	r   *reserved[V]
	ttl time.Duration

	kept    bool        // for this run, by the one before
	cleared atomic.Bool // by hand
	runs    atomic.Bool // its handler has been called
	admit.Heart
}

// Renew implements [admit.Renewed].
func (h *hold[V]) Renew() bool { return h.cleared.Load() || h.r.Extend(h.ttl) == nil }

// Conclude implements [admit.Concluded]: a value that was lost may be another job's.
func (h *hold[V]) Conclude(_ context.Context, v shard.Verdict) error {
	if v == shard.VerdictDone && !h.Renew() {
		return lock.ErrLockLost
	}
	return nil
}

// Lost, OnLost and KeepAlive implement [admit.Lease].
func (h *hold[V]) Lost() bool                                  { return !h.cleared.Load() && !h.r.Held() }
func (h *hold[V]) OnLost(f func(reason error)) (forget func()) { return h.r.OnEnd(f) }
func (h *hold[V]) KeepAlive()                                  { h.runs.Store(true) }

// beat extends the reservation while its job waits for the disk, which may take longer than
// the TTL, and while it runs. The journal hears of it only then.
func (h *hold[V]) beat() {
	s := h.s
	h.Beat(s.cfg.Handlers, h.ttl/3, func() bool {
		if h.r.Extend(h.ttl) != nil {
			return false
		}
		if !h.runs.Load() {
			return true
		}
		change := new(journal.Change)
		s.cfg.Ledger.Do(change, func() {
			if s.mine[h.by] == h.r {
				change.Sets = s.sets(s.open(h.by, h.r))
			}
		})
		return true
	})
}

// Settle implements [admit.Settled].
func (h *hold[V]) Settle(v shard.Verdict, over bool) []journal.Set {
	s := h.s
	h.StopHeart()
	if s.mine[h.by] != h.r {
		return nil // it was cleared by hand
	}
	keeps := s.cfg.KeepOnFailure && (v == shard.VerdictFailed || h.kept && (v == shard.VerdictInterrupted || v == shard.VerdictSnoozed))
	if !over && (keeps || v == shard.VerdictUnstarted && h.kept) {
		return nil
	}
	delete(s.mine, h.by)
	if over && s.cfg.KeepOnBurial && (v == shard.VerdictFailed || v == shard.VerdictCanceled) {
		return s.bury(h.by, h.r)
	}
	gone := journal.Set{Key: s.openKey(h.by)}
	if v != shard.VerdictDone {
		_ = h.r.Unlock() // it may have expired
		return s.sets(gone)
	}
	if h.r.Commit() != nil {
		return s.sets(gone)
	}
	if _, position, _ := s.slots.Last(); position > 0 && position == h.r.Position() {
		s.last = h.r.value
	}
	return s.sets(gone, s.lastSet())
}

// Release implements [admit.Hold].
func (h *hold[V]) Release() {}

// Explain implements [admit.Condition].
func (c *condition[V]) Explain(by admit.Owner, e *inspect.Explanation) bool {
	if c.Waits(by) == nil {
		return false
	}
	e.Slots = c.Holders()
	e.More = max(len(e.Slots)-brief.Most, 0)
	e.Slots = e.Slots[:len(e.Slots)-e.More]
	return true
}

// Held implements [admit.Holder].
func (c *condition[V]) Held(by admit.Owner, h *inspect.Holdings) {
	name := by.String()
	for _, held := range c.Holders() {
		if held.By == name && len(h.Slots) < brief.Most {
			h.Slots = append(h.Slots, held)
		}
	}
}
