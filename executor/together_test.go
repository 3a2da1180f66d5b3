package executor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// What is made for one purpose meets what is made for another.

// Who waits for a payload that a person deletes, or cancels, is told so.
func TestWaitHearsOfAnOperator(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		q, err := executor.Handle(x, "q", func(context.Context, executor.Job[int]) error { return nil }, executor.QueueConfig[int]{})
		require.NoError(t, err)
		start(t, x)
		deleted := enqueue(t, q, "deleted", 1, executor.In(time.Hour))
		canceled := enqueue(t, q, "canceled", 1, executor.In(time.Hour))
		outcomes := make(chan error, 2)
		go func() { outcomes <- q.Wait(t.Context(), deleted) }()
		synctest.Wait()
		n, err := x.Inspect().Delete(t.Context(), inspect.SelectIDs("q", "deleted"))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.ErrorIs(t, <-outcomes, executor.ErrDeleted)

		go func() { outcomes <- q.Wait(t.Context(), canceled) }()
		synctest.Wait()
		_, err = x.Inspect().Cancel(t.Context(), inspect.SelectIDs("q", "canceled"), "wrong address")
		require.NoError(t, err)
		err = <-outcomes
		require.ErrorAs(t, err, new(*executor.BuriedError))
		require.ErrorContains(t, err, "wrong address")
		stop(t, x)
	})
}

// What a handler says of its progress is shown with what runs.
func TestRunningShowsProgress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		q, err := executor.Handle(x, "q", func(ctx context.Context, _ executor.Job[int]) error {
			time.Sleep(time.Minute)
			executor.Progress(ctx, 3, 10, "pages")
			time.Sleep(time.Minute)
			return nil
		}, executor.QueueConfig[int]{})
		require.NoError(t, err)
		start(t, x)
		enqueue(t, q, "id", 1)
		running := func() inspect.Running {
			list, err := x.Inspect().Running(t.Context(), inspect.RunningQuery{Queue: "q"})
			require.NoError(t, err)
			require.Len(t, list.Running, 1)
			return list.Running[0]
		}
		time.Sleep(time.Second)
		require.Nil(t, running().Progress, "it has said nothing")
		time.Sleep(time.Minute)
		p := running().Progress
		require.NotNil(t, p)
		require.EqualValues(t, 3, p.Done)
		require.EqualValues(t, 10, p.Total)
		require.Equal(t, "pages", p.Message)
		stop(t, x)
	})
}

// A job of a limited key that a person has paused lets the others go on at once.
func TestPausedUnderALimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		l, err := executor.NewLimit(x, "one", executor.LimitConfig{Concurrent: 1})
		require.NoError(t, err)
		var began []string
		since := time.Now()
		q, err := executor.Handle(x, "q", func(_ context.Context, j executor.Job[int]) error {
			began = append(began, j.ID+" "+time.Since(since).String())
			time.Sleep(time.Second)
			return nil
		}, executor.QueueConfig[int]{Conditions: executor.Conditions[int]{Limits: []executor.LimitOf[int]{{Limit: l}}}})
		require.NoError(t, err)
		start(t, x)
		for _, id := range []string{"a", "b", "c"} {
			enqueue(t, q, id, 1)
			synctest.Wait()
		}
		_, err = x.Inspect().Pause(t.Context(), inspect.SelectIDs(q.Name(), "b"))
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"a 0s", "c 1s"}, began)
		_, err = x.Inspect().Resume(t.Context(), inspect.SelectIDs(q.Name(), "b"))
		require.NoError(t, err)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, "b 10s", began[2])
		stop(t, x)
	})
}

// The lane of an id that a person has paused in one of its queues waits; it goes on
// when the job has been resumed, or deleted.
func TestPausedInSharedLanes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		k := openKinds(t, x, func(string, executor.Job[int]) error { return nil }, "created", "paid")
		start(t, x)
		for _, id := range []string{"resumed", "deleted"} {
			_, err := x.Inspect().Pause(t.Context(), inspect.SelectIDs(k.queues[0].Name(), id))
			require.NoError(t, err)
			enqueue(t, k.queues[0], id, 1)
			enqueue(t, k.queues[1], id, 2)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, k.ended())
		_, err := x.Inspect().Delete(t.Context(), inspect.SelectIDs("created", "deleted"))
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, []string{"paid 2"}, k.ended())
		_, err = x.Inspect().Resume(t.Context(), inspect.SelectIDs(k.queues[0].Name(), "resumed"))
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, []string{"paid 2", "created 1", "paid 2"}, k.ended())
		stop(t, x)
	})
}

// A payload that was put off, throttled or debounced, and one of another process, may
// be staged as they may be enqueued, with the same errors.
func TestFollowUpsAreCheckedAsAnEnqueueIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Splitter: executor.Splitter{Nodes: 2, Self: 0, Owner: func(id string) int {
			if id == "theirs" {
				return 1
			}
			return 0
		}}})
		q, err := executor.Handle(x, "q", func(context.Context, executor.Job[int]) error { return nil }, executor.QueueConfig[int]{})
		require.NoError(t, err)
		var refused error
		parents, err := executor.Handle(x, "parents", func(_ context.Context, j executor.Job[int]) error {
			refused = q.FollowUp(j, "theirs", 1)
			return nil
		}, executor.QueueConfig[int]{})
		require.NoError(t, err)
		start(t, x)
		enqueue(t, parents, "ours", 1)
		synctest.Wait()
		require.ErrorIs(t, refused, executor.ErrNotOwned)
		stop(t, x)
	})
}

// What a person selects by a filter is what the same filter lists: a job that was given
// its retries back has not failed, though it remembers why it did.
func TestASelectionIsWhatIsListed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		q, err := executor.Handle(x, "q", func(context.Context, executor.Job[int]) error { return errBoom },
			executor.QueueConfig[int]{RetryIn: always(time.Hour)})
		require.NoError(t, err)
		start(t, x)
		enqueue(t, q, "failed", 1)
		enqueue(t, q, "given back", 1)
		synctest.Wait()
		require.NoError(t, pauseQueue(t.Context(), q))
		_, err = x.Inspect().RunNow(t.Context(), inspect.SelectIDs(q.Name(), "given back"))
		require.NoError(t, err)
		failed := inspect.JobFilter{Failed: true}
		listed, err := x.Inspect().Jobs(t.Context(), inspect.JobQuery{Queue: "q", Filter: failed})
		require.NoError(t, err)
		require.Len(t, listed.Jobs, 1)
		n, err := x.Inspect().Delete(t.Context(), inspect.SelectJobs("q", failed))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		left, err := q.Pending(t.Context(), "given back")
		require.NoError(t, err)
		require.True(t, left)
		stop(t, x)
	})
}
