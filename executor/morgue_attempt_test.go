package executor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// The handler, what explains a job, and the morgue count attempts alike.
func TestAttemptsAreCountedAlike(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		var attempts []int
		q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
			if job.Payload == "hopeless" {
				return executor.Cancel(errBoom)
			}
			attempts = append(attempts, job.Attempt)
			return errBoom
		}, executor.QueueConfig[string]{MaxRetries: 2, RetryIn: always(time.Hour)})
		require.NoError(t, err)
		explained := func() int {
			e, err := x.Inspect().Explain(t.Context(), "q", "a")
			require.NoError(t, err)
			return e.Attempt
		}
		require.Equal(t, 1, explained(), "it is not known yet")
		enqueue(t, q, "a", "x")
		require.Equal(t, 1, explained())
		start(t, x)
		for _, next := range []int{2, 3} {
			synctest.Wait()
			require.Equal(t, next, explained())
			time.Sleep(time.Hour)
		}
		synctest.Wait()
		require.Equal(t, []int{1, 2, 3}, attempts)
		dead := morgue(t, q)
		require.Len(t, dead, 1)
		require.Equal(t, 3, dead[0].Attempt)
		enqueue(t, q, "b", "hopeless")
		synctest.Wait()
		require.Equal(t, 1, morgue(t, q)[1].Attempt)
		stop(t, x)
	})
}
