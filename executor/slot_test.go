package executor_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/lock"
)

// A job that finds no free slot waits, also when the last one comes back at the
// very moment in which it looks which job has one. It never fails for that.
func TestSlotThatComesBackJustThen(t *testing.T) {
	jobs := sampled(1000)
	x := open(t, "", executor.Config{Workers: 8})
	s, err := executor.NewSlots(x, "s", executor.SlotsConfig[int]{
		Next: func(v int) int { return v + 1 }, MaxSteps: 1,
	})
	require.NoError(t, err)
	q := handle(t, x, "q", func(context.Context, executor.Merged[int]) error { return nil },
		executor.QueueConfig[int]{MaxRetries: -1, Conditions: executor.Conditions[int]{Slots: []executor.SlotSource{s}}})
	start(t, x)
	for i := range jobs {
		enqueue(t, q, fmt.Sprint(i), i)
	}
	done := drained(t, q)
	require.EqualValues(t, jobs, done.Done)
	require.Zero(t, done.Buried)
}

// Of many jobs that wait for a few values each looks when one comes back, but what has a value is
// gone through once: the calls of Next are as many as the jobs, and not as the jobs that wait each time.
func TestManyJobsThatWaitForAFewSlots(t *testing.T) {
	const jobs, values = 200, 5
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 8})
		var steps atomic.Int64
		s, err := executor.NewSlots(x, "s", executor.SlotsConfig[int]{
			Next: func(v int) int { steps.Add(1); return (v + 1) % values }, MaxSteps: values,
		})
		require.NoError(t, err)
		q := handle(t, x, "q", func(context.Context, executor.Merged[int]) error {
			time.Sleep(time.Second)
			return nil
		}, executor.QueueConfig[int]{Conditions: executor.Conditions[int]{Slots: []executor.SlotSource{s}}})
		start(t, x)
		for i := range jobs {
			enqueue(t, q, fmt.Sprint(i), i)
		}
		time.Sleep(time.Hour)
		require.EqualValues(t, jobs, stats(t, q).Done)
		require.Less(t, steps.Load(), int64(10*values*jobs))
		stop(t, x)
	})
}

// Of no job there is a slot: a nil, which a helper of a handler may be given, is no panic.
func TestSlotOfNoJob(t *testing.T) {
	s, err := executor.NewSlots(open(t, "", executor.Config{}), "s", executor.SlotsConfig[int]{Next: func(v int) int { return v + 1 }})
	require.NoError(t, err)
	for name, job := range map[string]executor.Parent{"nil": nil, "made by no executor": executor.Job[int]{}} {
		_, ok := s.Of(job)
		require.False(t, ok, name)
		require.ErrorIs(t, s.Clear(job), lock.ErrLockLost, name)
	}
}
