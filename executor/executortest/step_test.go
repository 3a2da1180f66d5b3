package executortest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/executortest"
	"github.com/strandjobs/strand/executor/inspect"
)

// A handler that waits for ever is named, with the place where it waits.
func TestStuckHandler(t *testing.T) {
	var orders *executor.Queue[string]
	setup := queue(&orders, func(ctx context.Context, _ executor.Job[string]) error {
		<-ctx.Done() // the end of the test lets it go
		return nil
	}, executor.QueueConfig[string]{})
	failing(t, executortest.Config{Patience: time.Minute}, setup, func(t *testing.T, f *fake, x *executortest.Executor) {
		began := time.Now()
		_, err := orders.Enqueue(t.Context(), "42", "a")
		require.NoError(t, err)
		told := f.of(x.UntilIdle)
		require.Len(t, told, 1)
		require.Contains(t, told[0], "UntilIdle: nothing has happened for 1m0s")
		require.Contains(t, told[0], "orders/42")
		require.Contains(t, told[0], "TestStuckHandler")
		require.InDelta(t, time.Minute, time.Since(began), float64(10*time.Second))
		f.told = nil
		f.end()
		require.Len(t, f.told, 1)
		require.Contains(t, f.told[0], "the test has ended")
		require.Contains(t, f.told[0], "orders/42")
		f.cleanups = nil
	})
}

// A chain that has no end is cut, and its last calls are shown.
func TestEndlessLoop(t *testing.T) {
	for name, again := range map[string]func(q *executor.Queue[string], job executor.Job[string]) error{
		"follow-ups": func(q *executor.Queue[string], job executor.Job[string]) error {
			return q.FollowUp(job, job.ID, job.Payload)
		},
		"snoozes": func(*executor.Queue[string], executor.Job[string]) error { return executor.Snooze(0) },
	} {
		for step, take := range map[string]func(*executortest.Executor){
			"UntilIdle": (*executortest.Executor).UntilIdle, "UntilEmpty": (*executortest.Executor).UntilEmpty,
			"Advance": func(x *executortest.Executor) { x.Advance(time.Second) },
		} {
			t.Run(name+" "+step, func(t *testing.T) {
				var orders *executor.Queue[string]
				setup := queue(&orders, func(_ context.Context, job executor.Job[string]) error { return again(orders, job) }, executor.QueueConfig[string]{})
				failing(t, executortest.Config{MaxRuns: 50}, setup, func(t *testing.T, f *fake, x *executortest.Executor) {
					_, err := orders.Enqueue(t.Context(), "42", "a")
					require.NoError(t, err)
					told := f.of(func() { take(x) })
					require.Len(t, told, 1)
					require.Contains(t, told[0], step+": handlers were called more than 50 times")
					require.Contains(t, told[0], "orders/42: a, attempt 1")
				})
			})
		}
	}
}

// UntilEmpty says what the jobs wait for that don't come to an end.
func TestUntilEmptySaysWhatWaits(t *testing.T) {
	var orders *executor.Queue[string]
	setup := queue(&orders, func(_ context.Context, job executor.Job[string]) error {
		if job.ID == "halts" {
			return errBoom
		}
		return nil
	}, executor.QueueConfig[string]{
		MaxRetries: -1, DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedHalt},
		Conditions: executor.Conditions[string]{
			Locks: executor.Locks[string]{BlockedBy: func(id, _ string) []string { return []string{"door " + id} }},
		},
	})
	failing(t, executortest.Config{}, setup, func(t *testing.T, f *fake, x *executortest.Executor) {
		require.NoError(t, x.KeyLocks().Lock(t.Context(), "door blocked"))
		for _, id := range []string{"halts", "blocked", "runs"} {
			_, err := orders.Enqueue(t.Context(), id, "a")
			require.NoError(t, err)
		}
		_, err := orders.Enqueue(t.Context(), "later", "a", executor.In(30*24*time.Hour))
		require.NoError(t, err)
		told := f.of(x.UntilEmpty)
		require.Len(t, told, 1)
		require.Contains(t, told[0], "2 jobs are left, and nothing has happened for 1h0m0s")
		require.Contains(t, told[0], "orders/halts is halted")
		require.Contains(t, told[0], `"door blocked" locked by a person`)
		executortest.RequireDone(x, orders, "runs", "later")
		require.NoError(t, x.KeyLocks().Unlock(t.Context(), "door blocked"))
		_, err = x.Inspect().Delete(t.Context(), inspect.SelectIDs("orders", "halts"))
		require.NoError(t, err)
		x.UntilEmpty()
		executortest.RequireDone(x, orders, "blocked")
	})
}

// UntilIdle lets time pass for handlers, and not for what is due later.
func TestUntilIdleTakesTheTimeOfHandlers(t *testing.T) {
	var orders *executor.Queue[string]
	executortest.Run(t, executortest.Config{}, queue(&orders, func(context.Context, executor.Job[string]) error {
		time.Sleep(90 * time.Minute) // longer than Patience would be, but for what happens
		return nil
	}, executor.QueueConfig[string]{}), func(t *testing.T, x *executortest.Executor) {
		executortest.RequireEmpty(x)
	})
	cfg := executortest.Config{Patience: 2 * time.Hour, Executor: executor.Config{Workers: 1}}
	executortest.Run(t, cfg, queue(&orders, func(context.Context, executor.Job[string]) error {
		time.Sleep(90 * time.Minute)
		return nil
	}, executor.QueueConfig[string]{}), func(t *testing.T, x *executortest.Executor) {
		began := time.Now()
		for id, due := range map[string]time.Duration{"now": 0, "meanwhile": time.Hour, "later": 4 * time.Hour} {
			_, err := orders.Enqueue(t.Context(), id, "a", executor.In(due))
			require.NoError(t, err)
		}
		x.UntilIdle()
		require.Equal(t, 3*time.Hour, time.Since(began))
		executortest.RequireOrder(x, "orders/now", "orders/meanwhile")
		executortest.RequireDue(x, orders, "later", time.Hour)
		x.Advance(time.Hour)
		require.Equal(t, 4*time.Hour, time.Since(began))
		executortest.RequireOrder(x, "orders/now", "orders/meanwhile", "orders/later")
		executortest.RequireOutcomes(x, orders, "later", "") // it runs
		x.UntilEmpty()
		executortest.RequireDone(x, orders, "later")
	})
}

func TestLive(t *testing.T) {
	var prices *executor.Caller[string, int]
	executortest.Run(t, executortest.Config{}, func(x *executor.Executor) (err error) {
		prices, err = executor.HandleResult(x, "prices", func(_ context.Context, job executor.Job[string]) (int, error) {
			time.Sleep(time.Second)
			return len(job.Payload), nil
		}, executor.QueueConfig[string]{})
		return err
	}, func(t *testing.T, x *executortest.Executor) {
		x.Live(func() {
			n, err := prices.Do(t.Context(), "1", "seven")
			require.NoError(t, err)
			require.Equal(t, 5, n)
		})
		executortest.RequireDone(x, prices, "1")
		r := executortest.Work(x, prices.Queue, "1", "four")
		require.Equal(t, events.Done, r.Outcome)
	})
}

// Work runs one payload, once; what comes of it waits.
func TestWork(t *testing.T) {
	var orders *executor.Queue[string]
	setup := queue(&orders, func(ctx context.Context, job executor.Job[string]) error {
		executor.Progress(ctx, 1, 3, "packed")
		switch job.Payload {
		case "bad":
			return executor.Cancel(errBoom)
		case "again":
			return executor.Snooze(0)
		}
		return orders.FollowUp(job, job.ID, "next", executor.In(-time.Second))
	}, executor.QueueConfig[string]{})
	failing(t, executortest.Config{}, setup, func(t *testing.T, f *fake, x *executortest.Executor) {
		r := executortest.Work(x, orders, "1", "first", executor.Metadata(map[string]string{"k": "v"}))
		require.Equal(t, events.Done, r.Outcome)
		require.Equal(t, "v", r.Payloads[0].Metadata["k"])
		require.Len(t, r.FollowUps, 1)
		require.Equal(t, "next", r.FollowUps[0].Payload)
		require.Len(t, r.Progress, 1)
		require.Equal(t, "packed", r.Progress[0].Error)
		require.NotZero(t, r.Receipt.Position)
		executortest.RequireRan(x, orders, "1", "first") // the follow-up waits
		_, err := x.Inspect().Delete(t.Context(), inspect.SelectQueue("orders"))
		require.NoError(t, err)
		r = executortest.Work(x, orders, "2", "bad")
		require.Equal(t, events.Cancelled, r.Outcome)
		require.ErrorIs(t, r.Err, errBoom)
		require.Empty(t, r.FollowUps)
		r = executortest.Work(x, orders, "3", "again")
		require.Equal(t, events.Snoozed, r.Outcome)
		executortest.RequireRan(x, orders, "3", "again")
		_, err = x.Inspect().Pause(t.Context(), inspect.SelectQueue(orders.Name()))
		require.NoError(t, err)
		told := f.of(func() { executortest.Work(x, orders, "4", "a") })
		require.Len(t, told, 1)
		require.Contains(t, told[0], "orders/4 was not run")
		require.Contains(t, told[0], "paused")
	})
}

// A payload that came before is not run a second time, and that is no success.
func TestWorkOfADuplicate(t *testing.T) {
	var orders *executor.Queue[string]
	setup := queue(&orders, done, executor.QueueConfig[string]{})
	failing(t, executortest.Config{}, setup, func(t *testing.T, f *fake, x *executortest.Executor) {
		require.Equal(t, events.Done, executortest.Work(x, orders, "1", "a", executor.IdempotencyKey("k")).Outcome)
		told := f.of(func() { executortest.Work(x, orders, "1", "a", executor.IdempotencyKey("k")) })
		require.Len(t, told, 1)
		require.Contains(t, told[0], "orders/1 was not enqueued (a duplicate: true)")
	})
}
