package executor_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

func TestStatsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	x := open(t, "", executor.Config{Workers: 1})
	q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
	for range 100 {
		if _, err := q.Stats(ctx); err != nil {
			require.True(t, errors.Is(err, context.Canceled), err)
		}
	}
}

// The lag is that of the oldest due job, whichever shard has it; what is not due
// yet does not count.
func TestStatsLagIsTheOldest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 8}})
		require.Zero(t, stats(t, q).Lag)
		enqueue(t, q, "later", "x", executor.In(24*time.Hour))
		require.Zero(t, stats(t, q).Lag, "none is due")
		for i := range 200 { // the shards take turns in having the oldest
			age := time.Duration(i+1) * time.Hour
			enqueue(t, q, strconv.Itoa(i), "x", executor.At(time.Now().Add(-age)))
			require.Equal(t, age, stats(t, q).Lag)
		}
		require.NotContains(t, x.JobsPerShard(), 0)
		time.Sleep(time.Hour)
		require.Equal(t, 201*time.Hour, stats(t, q).Lag)
		stop(t, x)
	})
}
