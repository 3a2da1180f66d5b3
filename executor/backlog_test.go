package executor_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// backlogged returns an executor that takes ten payloads, and the queue whose
// handler waits for gate.
func backlogged(t *testing.T, cfg executor.Config, handler func(context.Context, executor.Merged[int]) error) (*executor.Executor, *executor.Queue[int]) {
	cfg.MaxBacklog.Payloads, cfg.Logger = 10, slog.New(slog.DiscardHandler)
	x, err := executor.Open("", cfg)
	require.NoError(t, err)
	q, err := executor.HandleMerged(x, "jobs", handler, executor.QueueConfig[int]{Merge: executor.MergeKeepAll})
	require.NoError(t, err)
	return x, q
}

func fill(t *testing.T, q *executor.Queue[int]) {
	for i := range 10 {
		_, err := q.Enqueue(t.Context(), fmt.Sprint("id-", i), i)
		require.NoError(t, err)
	}
}

func TestBacklogRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x, q := backlogged(t, executor.Config{}, func(context.Context, executor.Merged[int]) error { return nil })
		fill(t, q)
		_, err := q.Enqueue(t.Context(), "one-more", 1)
		require.ErrorIs(t, err, executor.ErrFull)
		require.EqualError(t, err, "executor: full: 10 payloads are waiting, Config.MaxBacklog.Payloads is 10; try again in 1s")

		_, err = q.EnqueueMany(t.Context(), make([]executor.Item[int], 0))
		require.NoError(t, err)
		many := make([]executor.Item[int], 11)
		for i := range many {
			many[i].ID = "many"
		}
		_, err = q.EnqueueMany(t.Context(), many)
		require.ErrorIs(t, err, executor.ErrTooLarge, "waiting would not help")
		require.ErrorContains(t, err, "the call is 11 payloads, Config.MaxBacklog.Payloads is 10")

		start(t, x)
		synctest.Wait()
		enqueue(t, q, "one-more", 1)
		stop(t, x)
	})
}

func TestBacklogWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, q := backlogged(t, executor.Config{WaitForRoom: true}, func(context.Context, executor.Merged[int]) error { return nil })
		fill(t, q)

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := q.Enqueue(ctx, "too-soon", 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				_, err := q.Enqueue(t.Context(), fmt.Sprint("later-", i), i)
				require.NoError(t, err)
			})
		}
		synctest.Wait()
		require.NoError(t, x.Start(t.Context()))
		wg.Wait()
		require.NoError(t, x.Stop(t.Context()))
	})
}

func TestBacklogWaitEndsWithTheExecutor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, q := backlogged(t, executor.Config{WaitForRoom: true}, func(context.Context, executor.Merged[int]) error { return nil })
		fill(t, q)
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := q.Enqueue(t.Context(), "never", 1)
			require.ErrorIs(t, err, executor.ErrClosed)
		})
		synctest.Wait()
		require.NoError(t, x.Stop(t.Context()))
		wg.Wait()
	})
}
