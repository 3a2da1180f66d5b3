package executor_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

func TestStopFromOnFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		var x *executor.Executor
		var called atomic.Bool
		x, err := executor.OpenOn(disk, executor.Config{OnFatal: func(error) {
			called.Store(true)
			_ = x.Stop(context.Background())
		}})
		require.NoError(t, err)
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
		disk.FailNext(errBoom)
		go func() {
			synctest.Wait() // Run must not find that it has stopped
			_, _ = q.Enqueue(t.Context(), "a", "x")
		}()
		err = x.Run(t.Context())
		require.ErrorIs(t, err, executor.ErrFailed)
		require.True(t, called.Load())
	})
}

func TestStartAfterFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
		disk.FailNext(errBoom)
		_, err := q.Enqueue(t.Context(), "a", "x")
		require.ErrorIs(t, err, executor.ErrUnknown)
		synctest.Wait()
		require.ErrorIs(t, x.Start(t.Context()), executor.ErrFailed)
	})
}

// A shard that has failed takes nothing in any more. No call waits for it.
func TestEnqueueDoesNotWaitForABrokenShard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := openOn(t, new(journal.Memory), executor.Config{})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
		x.BreakShards()
		_, err := q.Enqueue(context.Background(), "a", "x")
		if err != nil {
			require.True(t, errors.Is(err, executor.ErrUnknown) || errors.Is(err, executor.ErrFailed), "%v", err)
		}
		synctest.Wait()
		require.ErrorIs(t, x.Err(), executor.ErrFailed)
		require.Error(t, x.Stop(t.Context()))
	})
}
