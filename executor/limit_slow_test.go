package executor_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/executortest"
)

// A start counts when the handler begins, and that is not before its slot is on disk: a
// disk that stands still lets no crowd start together afterwards.
func TestStartsAreCountedBehindSlots(t *testing.T) {
	var began []time.Time
	var q *executor.Queue[string]
	setup := func(x *executor.Executor) error {
		tickets, err := executor.NewSlots(x, "tickets", executor.SlotsConfig[int]{Next: func(n int) int { return n + 1 }, TTL: time.Hour})
		if err != nil {
			return err
		}
		limit, err := executor.NewLimit(x, "starts", executor.LimitConfig{Rate: 1, Per: 10 * time.Second})
		if err != nil {
			return err
		}
		q, err = executor.Handle(x, "q", func(context.Context, executor.Job[string]) error {
			began = append(began, time.Now())
			return nil
		}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Slots: []executor.SlotSource{tickets}, Limits: []executor.LimitOf[string]{{Limit: limit}}}})
		return err
	}
	executortest.Run(t, executortest.Config{Executor: executor.Config{Workers: 8}}, setup, func(t *testing.T, x *executortest.Executor) {
		for i := range 6 {
			_, err := q.Enqueue(t.Context(), fmt.Sprint("id-", i), "x")
			require.NoError(t, err)
		}
		x.Disk.Slow(time.Minute)
		x.UntilEmpty()
		require.Len(t, began, 6)
		for i, at := range began[1:] {
			require.GreaterOrEqual(t, at.Sub(began[i]), 10*time.Second, "between start %d and the next", i)
		}
	})
}

// The time of a handler counts from its call: a slow disk, which its job waits for, takes
// nothing of it, and is not taken for a handler that is stuck or silent.
func TestAHandlerHasItsTimeBehindASlowDisk(t *testing.T) {
	for name, cfg := range map[string]executor.QueueConfig[string]{
		"Timeout":          {Timeout: 2 * time.Second, MaxRetries: -1},
		"HeartbeatTimeout": {HeartbeatTimeout: 2 * time.Second, MaxRetries: -1},
	} {
		t.Run(name, func(t *testing.T) {
			log := new(logs)
			var q *executor.Queue[string]
			setup := func(x *executor.Executor) error {
				tickets, err := executor.NewSlots(x, "tickets", executor.SlotsConfig[int]{Next: func(n int) int { return n + 1 }})
				if err != nil {
					return err
				}
				cfg.Conditions.Slots = []executor.SlotSource{tickets}
				q, err = executor.Handle(x, "q", func(ctx context.Context, _ executor.Job[string]) error {
					time.Sleep(1500 * time.Millisecond)
					return context.Cause(ctx)
				}, cfg)
				return err
			}
			executortest.Run(t, executortest.Config{Executor: executor.Config{
				Logger: slog.New(slog.NewTextHandler(log, nil)), Stuck: executor.Stuck{After: time.Second},
			}}, setup, func(t *testing.T, x *executortest.Executor) {
				x.Disk.Slow(7 * time.Second)
				_, err := q.Enqueue(t.Context(), "id", "x")
				require.NoError(t, err)
				x.UntilEmpty()
				executortest.RequireDone(x, q, "id")
				require.NotContains(t, log.String(), "stuck")
			})
		})
	}
}

// The time of a slot counts from the start of the run, and not from its reservation: a
// disk that is slower than that costs no attempt.
func TestASlotLastsFromTheStart(t *testing.T) {
	var q *executor.Queue[string]
	setup := func(x *executor.Executor) error {
		tickets, err := executor.NewSlots(x, "tickets", executor.SlotsConfig[int]{Next: func(n int) int { return n + 1 }, TTL: time.Minute})
		if err != nil {
			return err
		}
		q, err = executor.Handle(x, "q", func(context.Context, executor.Job[string]) error {
			time.Sleep(50 * time.Second)
			return nil
		}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Slots: []executor.SlotSource{tickets}}})
		return err
	}
	executortest.Run(t, executortest.Config{}, setup, func(t *testing.T, x *executortest.Executor) {
		for _, slow := range []time.Duration{40 * time.Second, 61 * time.Second} {
			_, err := q.Enqueue(t.Context(), "id", slow.String())
			require.NoError(t, err)
			x.Disk.Slow(slow)
			x.UntilEmpty()
		}
		stats, err := x.Stats(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 2, stats.Queues[0].Done)
		require.Zero(t, stats.Queues[0].Failed)
	})
}
