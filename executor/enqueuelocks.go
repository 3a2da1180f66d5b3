package executor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

// enqueueLocks is what a call to Enqueue locks: it counts from before the payloads are
// accepted, because they may run before the call is back.
type enqueueLocks struct {
	l     *locks
	holds [][]*lock.KeyLock // by entry

	service *locking // with keys: what the queue's own service has locked
	keys    []string
}

// keysOnEnqueue computes what each of the entries locks; nil: nothing. It returns
// an error, too, for a bad key that is wanted only before the run.
func (q *queue) keysOnEnqueue(entries []journal.Entry) (keys [][]string, err error) {
	if q.locking.onEnqueue == nil {
		return nil, nil
	}
	if q.locking.locks {
		keys = make([][]string, len(entries))
	}
	for i := range entries {
		e := &entries[i]
		locked, err := q.locking.onEnqueue(string(e.ID), e.Payload)
		if err != nil {
			return nil, fmt.Errorf("item %d: queue %q, id %q: %w", i, q.name, e.ID, err)
		}
		if keys != nil {
			keys[i] = locked
		}
	}
	return keys, nil
}

// lockOnEnqueue locks the keys of entries.
func (q *queue) lockOnEnqueue(ctx context.Context, entries []journal.Entry, keys [][]string) (*enqueueLocks, error) {
	if keys == nil {
		return nil, nil
	}
	l := &q.x.locks
	p := &enqueueLocks{l: l, holds: make([][]*lock.KeyLock, len(entries))}
	if q.locking.service != nil {
		p.service, p.keys = &q.locking, slices.Concat(keys...)
		return p, q.locking.lockAll(ctx, p.keys)
	}
	l.mu.Lock()
	l.keys.At(time.Since(l.base))
	for i := range entries {
		by := holder{Queue: q.name, ID: string(entries[i].ID)}
		for _, key := range keys[i] {
			p.holds[i] = append(p.holds[i], l.keys.Lock(key, by, q.locking.ttl))
		}
		l.keys.Recheck(by)
	}
	_, wake := l.keys.Drain() // what is written comes with the entries
	l.arm()
	l.mu.Unlock()
	if wake != nil {
		wake()
	}
	return p, nil
}

// sets binds the key-locks to the positions of their payloads. Those that have been
// unlocked by now are not written: the log has their end first.
func (p *enqueueLocks) sets(first journal.Position) (sets []journal.Set) {
	if p == nil {
		return nil
	}
	p.l.binding.Lock()
	defer p.l.binding.Unlock()
	for i, holds := range p.holds {
		position := first + journal.Position(i)
		for _, h := range holds {
			if h.Position == gone {
				continue
			}
			h.Position = uint64(position)
			p.l.with[position] = append(p.l.with[position], h)
			if !p.l.x.volatile {
				sets = append(sets, p.l.set(h))
			}
		}
	}
	return sets
}

// withdraw unlocks what came with a call that was refused.
func (p *enqueueLocks) withdraw() {
	if p == nil {
		return
	}
	if p.service != nil {
		if err := p.service.unlockAll(p.l.x.handlers, p.keys); err != nil {
			p.l.x.cfg.Logger.Error("keys of a refused job stay locked", slog.Any("error", err))
		}
	}
	p.l.change(new(journal.Change), func(k *lock.KeyLocks) { k.Drop(slices.Concat(p.holds...)...) })
}
