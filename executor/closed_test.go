package executor_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// calls are all methods that can say that the executor is closed.
func calls(x *executor.Executor, q *executor.Queue[string]) map[string]func(context.Context) error {
	all := map[string]func(context.Context) error{
		"Start":              x.Start,
		"Err":                func(context.Context) error { return x.Err() },
		"Compact":            x.Compact,
		"SetSourceOffset":    func(ctx context.Context) error { return x.SetSourceOffset(ctx, "m", 2) },
		"DeleteSourceOffset": func(ctx context.Context) error { return x.DeleteSourceOffset(ctx, "m") },
		"Mark":               func(context.Context) error { _, _, err := x.SourceOffset("m"); return err },
		"Stats":              func(ctx context.Context) error { _, err := x.Stats(ctx); return err },
		"Explain":            func(ctx context.Context) error { _, err := x.Inspect().Explain(ctx, "q", "1"); return err },
		"Enqueue":            func(ctx context.Context) error { _, err := q.Enqueue(ctx, "1", "p"); return err },
		"Enqueue bytes":      func(ctx context.Context) error { _, err := enqueueRaw(ctx, x, "q", "1", []byte(`"p"`)); return err },
		"EnqueueMany bytes": func(ctx context.Context) error {
			q, err := x.Lookup("q")
			if err == nil {
				_, err = q.EnqueueMany(ctx, []executor.Item[[]byte]{{ID: "1", Payload: []byte(`"p"`)}})
			}
			return err
		},
		"Enqueue once": func(ctx context.Context) error {
			_, err := q.Enqueue(ctx, "1", "p", executor.FromSource("m", 9))
			return err
		},
		"Enqueue key": func(ctx context.Context) error {
			_, err := q.Enqueue(ctx, "1", "p", executor.IdempotencyKey("k"))
			return err
		},
		"EnqueueMany": func(ctx context.Context) error {
			_, err := q.EnqueueMany(ctx, []executor.Item[string]{{ID: "1"}})
			return err
		},
		"Queue.Stats": func(ctx context.Context) error { _, err := q.Stats(ctx); return err },
		"Pending":     func(ctx context.Context) error { _, err := q.Pending(ctx, "1"); return err },
		"RunNow": func(ctx context.Context) error {
			_, err := x.Inspect().RunNow(ctx, inspect.SelectIDs(q.Name(), "1"))
			return err
		},
		"Requeue": func(ctx context.Context) error {
			_, err := x.Inspect().Requeue(ctx, inspect.SelectIDs(q.Name(), "1"))
			return err
		},
		"RequeueAll": func(ctx context.Context) error {
			_, err := x.Inspect().Requeue(ctx, inspect.SelectQueue(q.Name()))
			return err
		},
		"Morgue": func(context.Context) error {
			for _, err := range q.Morgue() {
				return err
			}
			return nil
		},
		"Handle": func(context.Context) error {
			_, err := executor.HandleMerged(x, "late", (&probe{}).handle, executor.QueueConfig[string]{})
			return err
		},
		"NewSlots": func(context.Context) error {
			_, err := executor.NewSlots(x, "late", executor.SlotsConfig[int]{Next: func(i int) int { return i + 1 }})
			return err
		},
		"Keys.Lock":   func(ctx context.Context) error { return x.KeyLocks().Lock(ctx, "late") },
		"Keys.Unlock": func(ctx context.Context) error { return x.KeyLocks().Unlock(ctx, "held") },
		"Keys.Locked": func(ctx context.Context) error { _, err := x.KeyLocks().Locked(ctx, "held"); return err },
	}
	return all
}

// After Stop every call that can say so says that the executor is closed, and
// changes nothing: what returned nil is there after the next start.
func TestClosed(t *testing.T) {
	for _, dir := range []string{"", filepath.Join(t.TempDir(), "j")} {
		x := open(t, dir, executor.Config{})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
		require.NoError(t, x.KeyLocks().Lock(t.Context(), "held"))
		stop(t, x)
		for name, call := range calls(x, q) {
			err := call(t.Context())
			if name == "Start" {
				assert.ErrorIs(t, err, executor.ErrState)
				continue
			}
			assert.ErrorIs(t, err, executor.ErrClosed, "%s in %q", name, dir)
		}
		_, waits := x.KeyLocks().Watch("held", func() { assert.Fail(t, "nothing is unlocked any more") })
		assert.False(t, waits)
		_, _, err := x.Inspect().LockedKeys("", 0)
		assert.ErrorIs(t, err, executor.ErrClosed)
		if dir != "" {
			assert.ErrorIs(t, x.Copy(t.Context(), t.TempDir()+"/copy"), executor.ErrClosed)
			again := open(t, dir, executor.Config{})
			require.Equal(t, []string{"held 1"}, locked(again))
			stop(t, again)
		}
	}
}

// While Stop waits for a handler, that one may still lock and unlock; others not.
func TestKeysWhileStopping(t *testing.T) {
	disk := new(journal.Memory)
	x := openOn(t, disk, executor.Config{})
	running, stopping := make(chan struct{}), make(chan struct{})
	q := handle(t, x, "q", func(ctx context.Context, _ executor.Merged[string]) error {
		close(running)
		<-stopping
		return x.KeyLocks().Lock(ctx, "from a handler")
	}, executor.QueueConfig[string]{})
	start(t, x)
	enqueue(t, q, "1", "")
	await(t, running)
	stopped := make(chan error, 1)
	go func() { stopped <- x.Stop(context.Background()) }()
	require.Eventually(t, func() bool { return errors.Is(x.KeyLocks().Lock(t.Context(), "late"), executor.ErrClosed) }, time.Minute, time.Millisecond)
	close(stopping)
	require.NoError(t, await(t, stopped))
	again := openOn(t, disk, executor.Config{})
	for _, key := range locked(again) {
		require.True(t, strings.HasPrefix(key, "from a handler ") || strings.HasPrefix(key, "late "), key)
	}
	require.Contains(t, locked(again), "from a handler 1")
}

// A journal that has failed writes nothing down, and the keys say so.
func TestKeysAfterFailure(t *testing.T) {
	disk := new(journal.Memory)
	x := openOn(t, disk, executor.Config{})
	disk.FailNext(errBoom)
	require.Error(t, x.SetSourceOffset(t.Context(), "m", 1))
	for _, err := range []error{x.KeyLocks().Lock(t.Context(), "k"), x.KeyLocks().Unlock(t.Context(), "k")} {
		require.ErrorIs(t, err, executor.ErrFailed)
	}
	require.Empty(t, locked(x))
}

// A slot of a job that outlived Stop is not given back any more.
func TestSlotsAfterStop(t *testing.T) {
	x := open(t, "", executor.Config{})
	slots, err := executor.NewSlots(x, "serials", executor.SlotsConfig[int]{Next: func(i int) int { return i + 1 }})
	require.NoError(t, err)
	running, goOn, cleared := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
		close(running)
		<-goOn
		cleared <- slots.Clear(job)
		return nil
	}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Slots: []executor.SlotSource{slots}}})
	start(t, x)
	enqueue(t, q, "1", "")
	await(t, running)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, x.Stop(ended), executor.ErrStuck)
	close(goOn)
	require.ErrorIs(t, await(t, cleared), executor.ErrClosed)
}
