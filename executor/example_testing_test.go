package executor_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strandjobs/strand/executor"
)

// TestThreeHours is how a service is tested that uses Strand: in memory, because a
// bubble has no disk, and on a clock that goes on by itself when all wait. What is
// three hours for the jobs takes some milliseconds. The executor is opened and
// stopped inside the bubble; after synctest.Wait all that can be done now is done,
// and what the handlers have written can be read.
func TestThreeHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, err := executor.Open("", executor.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var ran []time.Duration
		reminders, err := executor.Handle(x, "reminders", func(_ context.Context, job executor.Job[string]) error {
			ran = append(ran, time.Since(began))
			if job.Attempt == 1 {
				return executor.RetryAfter(time.Hour, errors.New("no answer"))
			}
			return nil
		}, executor.QueueConfig[string]{})
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = x.Stop(context.Background()) }()

		if _, err := reminders.Enqueue(t.Context(), "ann", "call back", executor.In(2*time.Hour)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if len(ran) != 2 || ran[0] != 2*time.Hour || ran[1] != 3*time.Hour {
			t.Fatal("want runs after two and three hours, got", ran)
		}
	})
}
