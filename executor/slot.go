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

func (s *Slots[V]) looksAtJobs() bool { return s.cfg.TTLOf != nil }

// ttl is how long a job keeps its slot that can't extend it.
func (s *Slots[V]) ttl(q *queue, job lock.Job) (own time.Duration) {
	if s.cfg.TTLOf != nil {
		own = max(s.cfg.TTLOf(job), 0)
	}
	return cmp.Or(own, s.cfg.TTL, q.timeout, s.x.cfg.SlotTTL)
}

// reserve finds the job's own slot, or takes the next free one, and writes it down.
func (s *Slots[V]) reserve(ctx context.Context, c *claim, job lock.Job) (slotClaim, error) {
	ttl := s.ttl(c.queue, job)
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
	start, resets, err := s.start()
	if err != nil {
		return nil, err
	}
	change := new(journal.Change)
	s.x.locks.change(change, func(*lock.KeyLocks) {
		s.mine[c.by] = r
		if s.last == nil && s.resets == resets {
			s.last = start
		}
		change.Sets = append(s.sets(s.open(c.by, r), s.lastSet()), s.exhume()...)
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
func (s *Slots[V]) abandon(by holder, buried bool) []journal.Set {
	r := s.mine[by]
	if r == nil {
		return nil
	}
	delete(s.mine, by)
	if buried && s.cfg.KeepOnBurial {
		return s.bury(by, r)
	}
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
	if over && s.cfg.KeepOnBurial && (v == shard.VerdictFailed || v == shard.VerdictCanceled) {
		return s.bury(t.c.by, t.r)
	}
	gone := journal.Set{Key: s.openKey(t.c.by)}
	if v != shard.VerdictDone {
		_ = t.r.Release() // it may have expired
		return s.sets(gone)
	}
	if t.r.Commit() != nil {
		return s.sets(gone)
	}
	if _, position, _ := s.slots.Last(); position > 0 && position == t.r.Position() {
		s.last = t.r.value
	}
	return s.sets(gone, s.lastSet())
}

// bury leaves a reservation to its TTL, of which no job knows any more. locks.mu is held.
func (s *Slots[V]) bury(by holder, r *reserved[V]) []journal.Set {
	s.buried = append(s.buried, r)
	w := s.openValue(by, r)
	w.Buried = true
	return s.sets(journal.Set{Key: s.openKey(by)}, w.Set(s.buriedKey(r)))
}

// exhume forgets reservations of the buried that have ended. locks.mu is held.
func (s *Slots[V]) exhume() (gone []journal.Set) {
	for len(s.buried) > 0 && !s.buried[0].Lease().Held() {
		gone = append(gone, s.sets(journal.Set{Key: s.buriedKey(s.buried[0])})...)
		s.buried = s.buried[1:]
	}
	return gone
}
