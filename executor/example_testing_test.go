package executor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/executortest"
)

// TestThreeHours is how a service is tested that uses Strand: on a disk in memory, and
// on a clock that goes on by itself when all wait. What is three hours for the jobs
// takes some milliseconds. Jobs run inside the calls of x; after each of them what the
// handlers have written can be read.
func TestThreeHours(t *testing.T) {
	var reminders *executor.Queue[string]
	setup := func(x *executor.Executor) (err error) {
		reminders, err = executor.Handle(x, "reminders", func(_ context.Context, job executor.Job[string]) error {
			if job.Attempt == 1 {
				return executor.RetryAfter(time.Hour, errors.New("no answer"))
			}
			return nil
		}, executor.QueueConfig[string]{})
		return err
	}
	executortest.Run(t, executortest.Config{}, setup, func(t *testing.T, x *executortest.Executor) {
		if _, err := reminders.Enqueue(t.Context(), "ann", "call back", executor.In(2*time.Hour)); err != nil {
			t.Fatal(err)
		}
		x.UntilIdle()
		executortest.RequireDue(x, reminders, "ann", 2*time.Hour)
		x.Advance(2 * time.Hour)
		executortest.RequireFailed(x, reminders, "ann", "no answer")
		executortest.RequireDue(x, reminders, "ann", time.Hour)
		x.UntilEmpty()
		executortest.RequireDone(x, reminders, "ann")
	})
}
