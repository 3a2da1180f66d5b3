package executor_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// What the section Testing of the package comment says: hours of a service take as
// long as what happens in them.
func TestHoursInABubble(t *testing.T) {
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		deliver := func(_ context.Context, job executor.Job[string]) error {
			attempts = job.Attempt
			return errBoom
		}
		require.ErrorIs(t, deliver(t.Context(), executor.Job[string]{ID: "order-42", Attempt: 3}), errBoom)
		x, err := executor.Open("", executor.Config{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		orders, err := executor.Handle(x, "orders", deliver, executor.QueueConfig[string]{})
		require.NoError(t, err)
		require.NoError(t, x.Start(t.Context()))
		_, err = orders.Enqueue(t.Context(), "order-42", "order")
		require.NoError(t, err)
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		require.InDelta(t, 10, attempts, 1)
		for range orders.Morgue() {
			require.Fail(t, "it has retries left")
		}
		require.NoError(t, x.Stop(context.Background()))
	})
	require.Less(t, time.Since(began), time.Minute)
}
