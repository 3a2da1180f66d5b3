package executor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
	"github.com/strandjobs/strand/shard"
)

// slotClaim is a slot that a job has while it runs.
type slotClaim interface {
	lease() lock.Lease
	lost() bool
	renew() bool
	keepAlive()
	settle(v shard.Verdict, over bool) []journal.Set
	source() SlotSource
}

// slot is a reservation of a running job.
type slot[V any] struct {
	s   *Slots[V]
	c   *claim
	r   *reserved[V]
	ttl time.Duration

	cleared atomic.Bool // by hand
	beat    *time.Timer
}

func (t *slot[V]) lease() lock.Lease { return t.r.Lease() }

func (t *slot[V]) lost() bool { return !t.cleared.Load() && !t.lease().Held() }

func (t *slot[V]) renew() bool { return t.cleared.Load() || t.r.Extend(t.ttl) == nil }

func (t *slot[V]) source() SlotSource { return t.s }

// reserve finds the job's own slot, or takes the next free one, and writes it down.
func (s *Slots[V]) reserve(ctx context.Context, c *claim) (slotClaim, error) {
	ttl := cmp.Or(s.cfg.TTL, c.queue.timeout, lock.DefaultSlotTTL)
	s.x.locks.mu.Lock()
	r := s.mine[c.by]
	s.x.locks.mu.Unlock()
	taken := false
	if r == nil || r.Extend(ttl) != nil {
		next, err := s.slots.Reserve(ctx, lock.Options{Owner: c.by.String(), TTL: ttl})
		if err != nil {
			return nil, err
		}
		defer func() {
			if !taken {
				_ = next.Release() // the value does not encode, whichever way it said so
			}
		}()
		r = &reserved[V]{Reservation: next}
		if r.value, err = json.Marshal(next.Value()); err != nil {
			return nil, fmt.Errorf("slots %q: %w", s.name, err)
		}
	}
	start, err := s.start()
	if err != nil {
		return nil, err
	}
	change := new(journal.Change)
	s.x.locks.change(change, func(*lock.KeyLocks) {
		s.mine[c.by] = r
		if s.last == nil {
			s.last = start
		}
		change.Sets = s.sets(s.open(c.by, r), s.lastSet())
	})
	taken = true
	return &slot[V]{s: s, c: c, r: r, ttl: ttl}, nil
}

// keepAlive extends the reservation while the job runs.
func (t *slot[V]) keepAlive() {
	t.beat = every(t.s.x, t.ttl/3, func() bool {
		if t.r.Extend(t.ttl) != nil {
			return false
		}
		change := new(journal.Change)
		t.s.x.locks.change(change, func(*lock.KeyLocks) {
			if t.s.mine[t.c.by] == t.r {
				change.Sets = t.s.sets(t.s.open(t.c.by, t.r))
			}
		})
		return true
	})
}

// abandon gives back what a job has kept, which does not run again. locks.mu is held.
func (s *Slots[V]) abandon(by holder) []journal.Set {
	r := s.mine[by]
	if r == nil {
		return nil
	}
	delete(s.mine, by)
	_ = r.Release() // it may have expired
	return s.sets(journal.Set{Key: s.openKey(by)})
}

// settle ends the reservation as the verdict says; over: the job does not run
// again. locks.mu is held.
func (t *slot[V]) settle(v shard.Verdict, over bool) []journal.Set {
	s := t.s
	if t.beat != nil {
		t.beat.Stop()
	}
	if s.mine[t.c.by] != t.r {
		return nil // it was cleared by hand
	}
	if v == shard.VerdictFailed && !over && s.cfg.KeepOnFailure {
		return nil
	}
	delete(s.mine, t.c.by)
	gone := journal.Set{Key: s.openKey(t.c.by)}
	if v != shard.VerdictDone {
		_ = t.r.Release() // it may have expired
		return s.sets(gone)
	}
	if t.r.Commit() != nil {
		return s.sets(gone)
	}
	if _, position, _ := s.slots.Last(); position == t.r.Position() {
		s.last = t.r.value
	}
	return s.sets(gone, s.lastSet())
}
