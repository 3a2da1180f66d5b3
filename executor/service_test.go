package executor_test

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
	ask      func() // nil, or called before it says whether a key is locked
}

func (c *canceled) Locked(ctx context.Context, key string) (bool, error) {
	if c.ask != nil {
		c.ask()
	}
	return c.counters.Locked(ctx, key)
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

// An executor that has stopped leaves no watcher with a service, which would keep it in memory.
func TestAServiceForgetsWatchersAtAStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		s := new(canceled)
		q := handle(t, x, "q", new(probe).handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{
			Locks: executor.Locks[string]{BlockedBy: keys("k"), Service: s},
		}})
		start(t, x)
		require.NoError(t, s.Lock(t.Context(), "k"))
		enqueue(t, q, "a", "1")
		enqueue(t, q, "b", "1")
		synctest.Wait()
		require.EqualValues(t, 2, s.watchers.Load())
		stop(t, x)
		synctest.Wait()
		require.Zero(t, s.watchers.Load())
	})
}

// Nor does one that has left a worker behind in a call of the service.
func TestAServiceForgetsWatchersAfterAStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		answer := make(chan struct{})
		s := &canceled{ask: func() { <-answer }}
		q := handle(t, x, "q", new(probe).handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{
			Locks: executor.Locks[string]{BlockedBy: keys("k"), Service: s},
		}})
		start(t, x)
		require.NoError(t, s.Lock(t.Context(), "k"))
		enqueue(t, q, "a", "1")
		synctest.Wait()
		require.ErrorIs(t, within(10*time.Millisecond, x.Stop), executor.ErrStuck)
		close(answer)
		synctest.Wait()
		require.Zero(t, s.watchers.Load())
	})
}

// remote is a service of which a call does nothing once its context has ended.
type remote struct {
	counters
	locking  func(ctx context.Context) error // before key b is locked
	unlocked func(key string)
}

func (r *remote) Lock(ctx context.Context, key string) error {
	if key == "b" {
		if err := r.locking(ctx); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return r.counters.Lock(ctx, key)
}

func (r *remote) Unlock(ctx context.Context, key string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	defer r.unlocked(key)
	return r.counters.Unlock(ctx, key)
}

// What a service has locked for a payload that is refused is unlocked, and so is what it has locked for a
// run that does not begin, whoever's time is over by then, and whether or not a call of it ends its goroutine.
func TestAServiceUnlocksWhatIsRefused(t *testing.T) {
	exit := func(context.Context, *executor.Executor) error { runtime.Goexit(); return nil }
	refuse := func(context.Context, *executor.Executor) error { return errBoom }
	over := func(ctx context.Context, _ *executor.Executor) error { <-ctx.Done(); return nil }
	for name, c := range map[string]struct {
		onRun   bool
		locking func(ctx context.Context, x *executor.Executor) error
		exits   bool  // when it unlocks the first key
		err     error // of the call
	}{
		"a stop ends meanwhile":  {false, func(_ context.Context, x *executor.Executor) error { return x.Stop(context.Background()) }, false, executor.ErrClosed},
		"the call is over":       {false, over, false, context.DeadlineExceeded},
		"the service exits":      {false, exit, false, nil},
		"it exits once more":     {false, exit, true, nil},
		"an unlock exits":        {false, refuse, true, nil},
		"a stop ends the run":    {true, over, false, nil},
		"the service ends a run": {true, exit, false, nil},
		"an unlock ends a run":   {true, refuse, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var log records
				x := open(t, "", executor.Config{Logger: log.logger(slog.LevelError)})
				s := &remote{locking: func(ctx context.Context) error { return c.locking(ctx, x) }, unlocked: func(key string) {
					if c.exits && key == "z" {
						runtime.Goexit()
					}
				}}
				locks := executor.Locks[string]{OnEnqueue: keys("z", "a", "b"), Service: s}
				if c.onRun {
					locks = executor.Locks[string]{OnRun: keys("z", "a", "b"), Service: s}
				}
				q := handle(t, x, "q", new(probe).handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: locks}})
				start(t, x)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				said := make(chan error, 1)
				go func() {
					defer close(said)
					_, err := q.Enqueue(ctx, "1", "x")
					said <- err
				}()
				require.ErrorIs(t, <-said, c.err)
				synctest.Wait()
				require.NoError(t, x.Stop(ctx))
				require.Zero(t, s.locks["z"]+s.locks["a"]+s.locks["b"])
				told := slices.ContainsFunc(log.take(), func(r record) bool { return r.attrs["key"] == "z" })
				require.Equal(t, c.exits, told)
			})
		})
	}
}
