package executor_test

import (
	"context"
	"sync"

	"github.com/strandjobs/strand/lock"
)

// counters are a service of a user's: a key is locked while its counter is above
// zero. It wakes the jobs that watch a key when that gets there.
type counters struct {
	mu       sync.Mutex
	locks    map[string]int
	watching map[string][]func()
}

func (c *counters) Lock(_ context.Context, key string) error {
	return c.change(key, func(n int) int { return n + 1 })
}

func (c *counters) Unlock(_ context.Context, key string) error {
	return c.change(key, func(n int) int { return n - 1 })
}

func (c *counters) Locked(_ context.Context, key string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.locks[key] > 0, nil
}

func (c *counters) change(key string, f func(n int) int) error {
	c.mu.Lock()
	if c.locks == nil {
		c.locks, c.watching = make(map[string]int), make(map[string][]func())
	}
	n := f(c.locks[key])
	var woken []func()
	if n == 0 {
		woken, c.watching[key] = c.watching[key], nil
	}
	if n >= 0 {
		c.locks[key] = n
	}
	c.mu.Unlock()
	for _, wake := range woken {
		wake()
	}
	if n < 0 {
		return lock.ErrNotLocked
	}
	return nil
}

func (c *counters) Watch(key string, wake func()) (cancel func(), locked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.locks[key] == 0 {
		return func() {}, false
	}
	c.watching[key] = append(c.watching[key], wake)
	return func() {}, true
}

// flags are another one: one unlock is enough.
type flags struct{ counters }

func (f *flags) Lock(_ context.Context, key string) error {
	return f.change(key, func(int) int { return 1 })
}

func (f *flags) Unlock(_ context.Context, key string) error {
	return f.change(key, func(int) int { return 0 })
}
