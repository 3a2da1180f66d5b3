package executor_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// A payload counts once, whatever has become of it so far.
func TestBacklogCountsAPayloadOnce(t *testing.T) {
	for name, outcome := range map[string]error{
		"snoozed": executor.Snooze(time.Hour), "failed": executor.RetryAfter(time.Hour, errBoom),
	} {
		for _, events := range []bool{true, false} {
			t.Run(fmt.Sprint(name, events), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					disk := new(journal.Memory)
					open := func() (*executor.Executor, *executor.Queue[int]) {
						x := openOn(t, disk, executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 10}})
						if events {
							return x, must(executor.Handle(x, "q", func(context.Context, executor.Job[int]) error { return outcome }, executor.QueueConfig[int]{}))
						}
						return x, must(executor.HandleMerged(x, "q", func(context.Context, executor.Merged[int]) error { return outcome }, executor.QueueConfig[int]{}))
					}
					x, q := open()
					for i := range 5 {
						enqueue(t, q, fmt.Sprint(i), i)
					}
					start(t, x)
					time.Sleep(3 * time.Hour) // each has run several times
					for i := range 5 {
						enqueue(t, q, fmt.Sprint("later ", i), i)
					}
					synctest.Wait()
					_, err := q.Enqueue(t.Context(), "too many", 1)
					require.ErrorIs(t, err, executor.ErrFull)

					disk = disk.Crash()
					stop(t, x)
					_, q = open()
					_, err = q.Enqueue(t.Context(), "too many", 1)
					require.ErrorIs(t, err, executor.ErrFull)
					require.ErrorContains(t, err, "10 payloads are waiting")
				})
			})
		}
	}
}

// What handlers enqueue is not refused because of what they have in hand, and they
// don't wait for themselves.
func TestBacklogLetsHandlersGoOn(t *testing.T) {
	for _, waits := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			x := open(t, "", executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 4}, WaitForRoom: waits})
			var q *executor.Queue[int]
			q = must(executor.Handle(x, "q", func(ctx context.Context, job executor.Job[int]) error {
				if job.Payload == 0 {
					return nil
				}
				_, err := q.Enqueue(ctx, job.ID, job.Payload-1)
				return err
			}, executor.QueueConfig[int]{}))
			for i := range 4 {
				enqueue(t, q, fmt.Sprint(i), 1)
			}
			start(t, x)
			time.Sleep(24 * time.Hour)
			s := stats(t, q)
			require.EqualValues(t, 8, s.Done)
			require.Zero(t, s.Failed)
			stop(t, x)
		})
	}
}
