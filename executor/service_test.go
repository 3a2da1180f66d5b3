package executor_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
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

// canceled is a service whose watchers are counted.
type canceled struct {
	counters
	watchers atomic.Int64
}

func (c *canceled) Watch(key string, wake func()) (cancel func(), locked bool) {
	if cancel, locked = c.counters.Watch(key, wake); locked {
		c.watchers.Add(1)
		cancel = sync.OnceFunc(func() { c.watchers.Add(-1) })
	}
	return cancel, locked
}

// A job that asks again, because something else has woken it, leaves one watcher with its service, and none when it is gone.
func TestAServiceForgetsWatchers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		var p probe
		s := new(canceled)
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{
			Locks: executor.Locks[string]{BlockedBy: func(string, string) []string { return []string{"k"} }, Service: s},
		}})
		start(t, x)
		require.NoError(t, s.Lock(t.Context(), "k"))
		enqueue(t, q, "a", "1")
		enqueue(t, q, "b", "1")
		synctest.Wait()
		for range 3 {
			_, err := x.Inspect().Pause(t.Context(), inspect.SelectIDs("q", "a"))
			require.NoError(t, err)
			_, err = x.Inspect().Resume(t.Context(), inspect.SelectIDs("q", "a"))
			require.NoError(t, err)
			synctest.Wait()
			require.EqualValues(t, 2, s.watchers.Load())
		}
		_, err := x.Inspect().Delete(t.Context(), inspect.SelectIDs("q", "a"))
		require.NoError(t, err)
		synctest.Wait()
		require.EqualValues(t, 1, s.watchers.Load())
		require.NoError(t, s.Unlock(t.Context(), "k"))
		synctest.Wait()
		require.Equal(t, []string{"b[1]"}, p.log())
		stop(t, x)
	})
}
