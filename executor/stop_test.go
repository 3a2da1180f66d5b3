package executor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

func TestStopShardOffersItselfMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		release := make(chan struct{})
		var q *executor.Queue[string]
		q = handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
			<-release
			_, err := q.Enqueue(ctx, "c", "x")
			return err
		}, executor.QueueConfig[string]{Share: executor.Share{Shards: 2, Concurrency: 2}})
		start(t, x)
		for _, id := range []string{"a", "b", "d", "e", "f", "g"} {
			enqueue(t, q, id, "1")
		}
		synctest.Wait()
		go func() { time.Sleep(time.Second); close(release) }()
		require.NoError(t, x.Stop(context.Background()))
	})
}

func TestStopSecondContextCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		release := make(chan struct{})
		q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { <-release; return nil }, executor.QueueConfig[string]{})
		start(t, x)
		enqueue(t, q, "a", "1")
		synctest.Wait()
		go x.Stop(context.Background())
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		err := x.Stop(ctx)
		require.ErrorIs(t, err, executor.ErrStuck)
		require.LessOrEqual(t, time.Since(begin), 1100*time.Millisecond)
		close(release)
	})
}
