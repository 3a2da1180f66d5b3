package executortest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/executortest"
)

// A setup that fails is told, and leaves nothing behind.
func TestSetupFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{TB: t}
		told := f.of(func() {
			executortest.Open(f, executortest.Config{}, func(*executor.Executor) error { return errBoom })
		})
		require.Equal(t, []string{"executortest: setup: boom"}, told)
		f.end()
	})
}

// What a program has around its queues works as it does there: middleware, events,
// queues that are registered later.
func TestAroundQueues(t *testing.T) {
	seen := 0
	cfg := executortest.Config{Executor: executor.Config{Advanced: executor.Advanced{EventBuffer: -1}, Middleware: []executor.Middleware{{
		Run: func(ctx context.Context, _ *executor.Run, next func(context.Context) error) error {
			seen++
			return next(ctx)
		},
	}}}}
	executortest.Run(t, cfg, nil, func(t *testing.T, x *executortest.Executor) {
		late, err := executor.Handle(x.Executor, "late", done, executor.QueueConfig[string]{})
		require.NoError(t, err)
		_, err = late.Enqueue(t.Context(), "1", "a")
		require.NoError(t, err)
		x.UntilIdle()
		executortest.RequireDone(x, late, "1")
		require.Equal(t, 1, seen)
		kinds := []events.Kind{}
		for _, e := range x.History() {
			kinds = append(kinds, e.Kind)
		}
		require.Equal(t, []events.Kind{events.Accepted, events.Started, events.Done}, kinds)
	})
}

// Schedules fire on the clock of the bubble, in each life.
func TestSchedules(t *testing.T) {
	var reports *executor.Queue[string]
	stopped := 0
	executortest.Run(t, executortest.Config{}, func(x *executor.Executor) (err error) {
		if reports, err = executor.Handle(x, "reports", done, executor.QueueConfig[string]{}); err != nil {
			return err
		}
		c, err := cron.New(x, cron.Config{})
		if err != nil {
			return err
		}
		executortest.AtEnd(x, func() { require.NoError(t, c.Stop(context.Background())); stopped++ })
		err = cron.Add(context.Background(), c, cron.Schedule[string]{
			Name: "report", Spec: "0 4 * * *", Queue: reports, Payload: func(tick time.Time) string { return tick.UTC().Format("01-02") },
		})
		if err != nil {
			return err
		}
		return c.Start()
	}, func(t *testing.T, x *executortest.Executor) {
		x.Advance(48 * time.Hour)
		x.Crash()
		x.Advance(24 * time.Hour)
		var payloads []any
		for _, e := range x.Enqueued("reports") {
			payloads = append(payloads, e.Payload)
		}
		require.Equal(t, []any{"01-01", "01-02", "01-03"}, payloads)
		require.Equal(t, 1, stopped)
		x.Restart()
	})
	require.Equal(t, 3, stopped)
}
