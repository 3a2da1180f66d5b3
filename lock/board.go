package lock

import (
	"cmp"
	"container/list"
	"context"
	"slices"
	"sync"
	"time"
)

// board is the part that flags and counters share: a number per key, locked while above zero.
type board struct {
	// mu guards everything below. No user code runs under it: wake functions are collected and called after Unlock.
	// Nothing is locked after it.
	mu    sync.Mutex
	clock clock
	cells map[string]*cell // the keys that are locked
	ends  agenda[*cell]
}

// cell is a locked key. Invariant: n > 0 while it is in board.cells.
type cell struct {
	alarm
	key      string
	n        int
	ttl      time.Duration
	since    time.Duration
	watchers watchers
}

// Count is the state of one key of [Flags] or [Counters] as plain data.
type Count struct {
	Key   string
	N     int           // above zero; 1 for a flag
	Since time.Time     // wall clock time since when it has been above zero
	Until time.Time     // wall clock time at which it falls to zero; zero = it stays
	TTL   time.Duration // as of the last Lock; 0 = it has none
}

func (b *board) enter(w *wakes) time.Duration {
	b.mu.Lock()
	now := b.clock.now()
	for c, ok := b.ends.due(now); ok; c, ok = b.ends.due(now) {
		b.dropLocked(c, w)
	}
	return now
}

func (b *board) leave(now time.Duration, w *wakes) {
	if b.ends.late() {
		if b.ends.fire == nil {
			b.ends.fire = b.expire
		}
		b.ends.arm(now)
	}
	b.mu.Unlock()
	w.run()
}

// expire is what the timer calls.
func (b *board) expire() {
	var w wakes
	now := b.enter(&w)
	b.ends.on = false
	b.ends.fired++
	b.leave(now, &w)
}

// dropLocked unlocks c and collects those who wait for that.
func (b *board) dropLocked(c *cell, w *wakes) {
	b.ends.drop(c)
	delete(b.cells, c.key)
	c.watchers.take(w)
}

// change replaces the number of key by f of it; a ttl above zero starts anew.
func (b *board) change(key string, ttl time.Duration, f func(n int) (int, error)) error {
	if key == "" {
		return ErrEmptyKey
	}
	if ttl < 0 {
		return ErrDuration
	}
	var w wakes
	now := b.enter(&w)
	c := b.cells[key]
	old := 0
	if c != nil {
		old = c.n
	}
	n, err := f(old)
	switch {
	case err != nil:
	case n > 0:
		b.setLocked(key, n, ttl, now)
	case c != nil:
		b.dropLocked(c, &w)
	}
	b.leave(now, &w)
	return err
}

func (b *board) setLocked(key string, n int, ttl, now time.Duration) *cell {
	c := b.cells[key]
	if c == nil {
		c = &cell{key: key, since: now}
		if b.cells == nil {
			b.cells = make(map[string]*cell)
		}
		b.cells[key] = c
	}
	c.n = n
	if ttl > 0 {
		c.ttl = ttl
		b.ends.set(c, after(now, ttl))
	}
	return c
}

// Locked reports whether key is locked now. The error is [ErrEmptyKey] or nil.
func (b *board) Locked(_ context.Context, key string) (bool, error) {
	if key == "" {
		return false, ErrEmptyKey
	}
	return b.count(key) > 0, nil
}

func (b *board) count(key string) int {
	var w wakes
	now := b.enter(&w)
	n := 0
	if c := b.cells[key]; c != nil {
		n = c.n
	}
	b.leave(now, &w)
	return n
}

func (b *board) clear(key string) int {
	n := 0
	_ = b.change(key, 0, func(old int) (int, error) {
		n = old
		return 0, nil
	})
	return n
}

// Watch implements [Watcher]: wake is called once when key becomes unlocked, by Unlock, by Clear or at the end of its
// TTL, on the goroutine that did it, with no mutex held. It must not block, and may be nil. It returns false when key is
// not locked.
func (b *board) Watch(key string, wake func()) (cancel func(), locked bool) {
	var w wakes
	now := b.enter(&w)
	c := b.cells[key]
	var at *list.Element
	if c != nil {
		at = c.watchers.add(wake)
	}
	b.leave(now, &w)
	if at == nil {
		return func() {}, false
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		c.watchers.remove(at)
	}, true
}

// Snapshot returns the locked keys as plain data, sorted by key, in one consistent view.
func (b *board) Snapshot() []Count {
	var w wakes
	now, wall := b.enter(&w), time.Now().Round(0)
	var counts []Count
	for _, c := range b.cells {
		count := Count{Key: c.key, N: c.n, Since: wall.Add(c.since - now)}
		if c.index > 0 {
			count.Until, count.TTL = wall.Add(c.at-now), c.ttl
		}
		counts = append(counts, count)
	}
	b.leave(now, &w)
	slices.SortFunc(counts, func(a, b Count) int { return cmp.Compare(a.Key, b.Key) })
	return counts
}

// Restore brings a snapshot back, in place of what the same keys have now; what has expired meanwhile stays unlocked.
// It refuses, and changes nothing, an empty key ([ErrEmptyKey]), a number below one ([ErrNotLocked]) and a negative
// TTL ([ErrDuration]).
func (b *board) Restore(counts []Count) error {
	for _, count := range counts {
		switch {
		case count.Key == "":
			return ErrEmptyKey
		case count.N < 1:
			return ErrNotLocked
		case count.TTL < 0:
			return ErrDuration
		}
	}
	var w wakes
	now, wall := b.enter(&w), time.Now()
	for _, count := range counts {
		left, live := left(count.Until, count.TTL, wall)
		if !live {
			continue
		}
		c := b.setLocked(count.Key, count.N, left, now)
		c.since = now - wall.Sub(count.Since)
		c.ttl = count.TTL
		if left == 0 {
			b.ends.drop(c)
		}
	}
	b.leave(now, &w)
	return nil
}
