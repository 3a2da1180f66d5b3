package executor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
)

// busyFor is a handler that goes on until its context ends.
func busyFor(ctx context.Context, _ executor.Merged[string]) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func turnOf(t *testing.T, x *executor.Executor, queue, id string) inspect.Turn {
	t.Helper()
	e := explain(t, x, queue, id)
	require.Equal(t, inspect.JobReady, e.State)
	require.NotNil(t, e.Turn, e.String())
	require.Equal(t, fmt.Sprintf("%s/%s is ready; %v", queue, id, *e.Turn), e.String())
	return *e.Turn
}

// A job that is ready and has no worker says what keeps it from one.
func TestWhyNoWorkerComes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 4})
		few := handle(t, x, "few", busyFor, executor.QueueConfig[string]{MaxConcurrent: 2})
		narrow := handle(t, x, "narrow", busyFor, executor.QueueConfig[string]{Share: executor.Share{Shards: 1, Concurrency: 1}})
		low := handle(t, x, "low", busyFor, executor.QueueConfig[string]{Share: executor.Share{Priority: -1}})
		high := handle(t, x, "high", busyFor, executor.QueueConfig[string]{Share: executor.Share{Priority: 7}})
		late := handle(t, x, "late", busyFor, executor.QueueConfig[string]{})
		enqueue(t, few, "a", "")
		assert.Equal(t, inspect.Turn{Reason: "not started"}, turnOf(t, x, "few", "a"))
		start(t, x)
		for _, id := range []string{"b", "c"} {
			enqueue(t, few, id, "")
			synctest.Wait()
		}
		assert.Equal(t, inspect.Turn{Reason: "max concurrent", Running: 2, Of: 2}, turnOf(t, x, "few", "c"))
		assert.Equal(t, "few/c is ready; the queue runs 2 of 2", explain(t, x, "few", "c").String())
		require.NoError(t, few.Tune(executor.QueueTuning{MaxConcurrent: 1}))
		assert.Equal(t, inspect.Turn{Reason: "max concurrent", Running: 2, Of: 1}, turnOf(t, x, "few", "c"))

		enqueue(t, narrow, "a", "")
		synctest.Wait()
		enqueue(t, narrow, "b", "")
		synctest.Wait()
		assert.Equal(t, inspect.Turn{Reason: "concurrency", Running: 1, Of: 1}, turnOf(t, x, "narrow", "b"))

		enqueue(t, low, "a", "")
		synctest.Wait() // all four are busy
		enqueue(t, low, "b", "")
		synctest.Wait()
		assert.Equal(t, inspect.Turn{Reason: "workers", Running: 4, Of: 4}, turnOf(t, x, "low", "b"))
		for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
			enqueue(t, high, id, "")
			enqueue(t, late, id, "")
		}
		synctest.Wait()
		assert.Equal(t, inspect.Turn{Reason: "priority", Running: 4, Of: 4, Before: []string{"high", "late"}}, turnOf(t, x, "low", "b"))
		assert.Contains(t, explain(t, x, "low", "b").String(), "all 4 workers are busy, and queues of a higher priority come first: high, late")
		assert.Equal(t, inspect.Turn{Reason: "workers", Running: 4, Of: 4}, turnOf(t, x, "high", "b"))
		assert.Equal(t, []string{"high"}, turnOf(t, x, "late", "b").Before)
		require.Nil(t, explain(t, x, "low", "a").Turn, "it runs")
	})
}

// Under Fair a queue that has had more than its share is told which come before it; a
// scheduler of another kind has no shares. A paused executor has no turns.
func TestWhyOthersComeFirst(t *testing.T) {
	for name, c := range map[string]struct {
		scheduler executor.Scheduler
		want      inspect.Turn
	}{
		"fair":         {nil, inspect.Turn{Reason: "weight", Running: 1, Of: 1, Before: []string{"new"}}},
		"oldest first": {executor.OldestFirst(), inspect.Turn{Reason: "workers", Running: 1, Of: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{Workers: 1, Scheduler: c.scheduler})
				old := handle(t, x, "old", busyFor, executor.QueueConfig[string]{Share: executor.Share{Weight: 3}})
				fresh := handle(t, x, "new", busyFor, executor.QueueConfig[string]{})
				start(t, x)
				enqueue(t, old, "a", "")
				synctest.Wait()
				enqueue(t, old, "b", "")
				enqueue(t, fresh, "a", "")
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.Equal(t, c.want, turnOf(t, x, "old", "b"))
				assert.Equal(t, inspect.Turn{Reason: "workers", Running: 1, Of: 1}, turnOf(t, x, "new", "a"))
				did(t, 1)(x.Inspect().Pause(t.Context(), inspect.SelectQueue("old")))
				e := explain(t, x, "old", "b")
				assert.Equal(t, inspect.JobPaused, e.State)
				assert.Nil(t, e.Turn)
			})
		})
	}
}

// A text has an end, however many queues come first, and whatever a later version says.
func TestTextsOfTurns(t *testing.T) {
	names := slices.Repeat([]string{strings.Repeat("q", 999)}, brief.Most)
	text := inspect.Turn{Reason: "priority", Of: 7, Before: names, More: 3}.String()
	assert.Less(t, len(text), 2000)
	assert.Contains(t, text, fmt.Sprintf("and %d more", brief.Most-10+3))
	assert.Equal(t, "all 7 workers are busy", inspect.Turn{Reason: "of a later version", Of: 7}.String())
}
