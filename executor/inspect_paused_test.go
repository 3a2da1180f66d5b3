package executor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// What the list of all jobs says of the state of a job, the list of that state has, and
// no other: also of one whose id is paused.
func TestJobsOfPausedIDs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		q, err := executor.Handle(x, "q", func(ctx context.Context, _ executor.Job[string]) error { return errBoom },
			executor.QueueConfig[string]{Share: executor.Share{Shards: 1}})
		require.NoError(t, err)
		start(t, x)
		_, err = x.Inspect().Pause(t.Context(), inspect.SelectIDs(q.Name(), "paused", "paused later"))
		require.NoError(t, err)
		enqueue(t, q, "paused", "x")
		enqueue(t, q, "paused later", "x", executor.In(time.Hour))
		synctest.Wait()
		for _, more := range []bool{false, true} {
			if more {
				enqueue(t, q, "later", "x", executor.In(time.Hour))
				enqueue(t, q, "fails", "x")
				synctest.Wait()
			}
			for _, order := range []inspect.Order{inspect.OrderNone, inspect.OrderDue} {
				all, err := x.Inspect().Jobs(t.Context(), inspect.JobQuery{Queue: "q", Order: order})
				require.NoError(t, err)
				found := 0
				for _, state := range []inspect.JobState{inspect.JobReady, inspect.JobScheduled, inspect.JobRetrying, inspect.JobParked, inspect.JobHalted, inspect.JobRunning} {
					page, err := x.Inspect().Jobs(t.Context(), inspect.JobQuery{Queue: "q", Order: order, States: []inspect.JobState{state}})
					require.NoError(t, err)
					var want []string
					for _, job := range all.Jobs {
						if job.State == state {
							want = append(want, job.ID)
						}
					}
					var got []string
					for _, job := range page.Jobs {
						got = append(got, job.ID)
					}
					require.Equal(t, want, got, state)
					found += len(got)
				}
				require.Len(t, all.Jobs, found)
			}
		}
		stop(t, x)
	})
}
