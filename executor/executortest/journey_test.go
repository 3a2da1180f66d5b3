package executortest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/executortest"
)

var errBoom = errors.New("boom")

func seconds(int) time.Duration { return time.Second }

func TestJourney(t *testing.T) {
	var orders, mails *executor.Queue[string]
	setup := func(x *executor.Executor) (err error) {
		mails, err = executor.Handle(x, "mails", func(context.Context, executor.Job[string]) error { return nil }, executor.QueueConfig[string]{})
		if err != nil {
			return err
		}
		orders, err = executor.Handle(x, "orders", func(ctx context.Context, job executor.Job[string]) error {
			executor.Progress(ctx, 1, 2, "half")
			if job.Attempt < 3 {
				return errBoom
			}
			time.Sleep(time.Second)
			return mails.FollowUp(job, job.ID, "sent "+job.Payload)
		}, executor.QueueConfig[string]{RetryIn: seconds})
		return err
	}
	executortest.Run(t, executortest.Config{}, setup, func(t *testing.T, x *executortest.Executor) {
		began := time.Now()
		_, err := orders.Enqueue(t.Context(), "1", "a")
		require.NoError(t, err)
		executortest.RequireEnqueued(x, orders, "1", "a")
		executortest.RequireOrder(x)
		x.UntilIdle()
		require.Zero(t, time.Since(began))
		executortest.RequireFailed(x, orders, "1", "boom")
		executortest.RequireDue(x, orders, "1", time.Second)
		x.UntilEmpty()
		require.Equal(t, 3*time.Second, time.Since(began))
		executortest.RequireOutcomes(x, orders, "1", events.Failed, events.Failed, events.Done)
		executortest.RequireRetries(x, orders, "1", time.Second, time.Second)
		executortest.RequireDone(x, orders, "1")
		executortest.RequireDone(x, mails, "1")
		executortest.RequireRan(x, mails, "1", "sent a")
		executortest.RequireOrder(x, "orders/1", "orders/1", "orders/1", "mails/1")
		executortest.RequireEmpty(x)
		r := executortest.Work(x, orders, "2", "b")
		require.Equal(t, events.Failed, r.Outcome)
		require.Equal(t, errBoom, r.Err)
		require.Len(t, r.Progress, 1)
		x.Crash()
		executortest.RequireDue(x, orders, "2", time.Second)
		x.Advance(time.Second)
		executortest.RequireDue(x, orders, "2", time.Second)
		x.Restart()
		x.UntilEmpty()
		executortest.RequireRan(x, mails, "2", "sent b")
	})
}
