package executor_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
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
