package executortest_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/executortest"
)

// A crash loses what was not on disk, runs again what was in hand, and nothing that the
// old process still does counts.
func TestCrash(t *testing.T) {
	var orders *executor.Queue[string]
	began, returned := 0, 0
	slow := executortest.Config{Executor: executor.Config{Durability: executor.DurabilityAsync}}
	executortest.Run(t, slow, queue(&orders, func(ctx context.Context, job executor.Job[string]) error {
		if began++; began == 1 {
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), executor.ErrStopping)
			_, _ = orders.Enqueue(context.WithoutCancel(ctx), "ghost", "a")
		}
		returned++
		return nil
	}, executor.QueueConfig[string]{}), func(t *testing.T, x *executortest.Executor) {
		put := func(id string) {
			t.Helper()
			_, err := orders.Enqueue(t.Context(), id, "a")
			require.NoError(t, err)
		}
		put("kept")
		x.Advance(time.Second)
		require.Equal(t, 1, began)
		x.Disk.Slow(time.Minute)
		put("lost")
		time.Sleep(time.Second)
		x.Disk.Slow(0)
		x.Crash()
		require.Equal(t, 1, returned)
		x.UntilEmpty()
		require.Equal(t, 2, returned)
		executortest.RequireDone(x, orders, "kept")
		executortest.RequireOutcomes(x, orders, "kept", "", events.Done)
		executortest.RequireNotEnqueued(x, orders, "lost", "ghost")
		require.False(t, x.Killed())
	})
}

// What a handler has done before it kills the process is undone, and what was accepted
// is there: a call has no success that is not on the disk.
func TestKillInAHandler(t *testing.T) {
	var orders *executor.Queue[string]
	var x *executortest.Executor
	lives, told := 0, 0
	cfg := executortest.Config{Executor: executor.Config{OnFatal: func(error) { told++ }}}
	setup := queue(&orders, func(ctx context.Context, job executor.Job[string]) error {
		if lives++; lives > 1 {
			return nil
		}
		require.NoError(t, orders.FollowUp(job, "after", "b"))
		x.Kill()
		return nil
	}, executor.QueueConfig[string]{})
	executortest.Run(t, cfg, setup, func(t *testing.T, running *executortest.Executor) {
		x = running
		_, err := orders.Enqueue(t.Context(), "1", "a")
		require.NoError(t, err)
		x.UntilIdle()
		require.True(t, x.Killed())
		_, err = orders.Enqueue(t.Context(), "2", "a")
		require.Error(t, err)
		x.UntilEmpty() // it has nothing to wait for
		x.Restart()
		require.Equal(t, 1, lives)
		executortest.RequireDue(x, orders, "1", 0)
		x.UntilEmpty()
		executortest.RequireDone(x, orders, "1")
		executortest.RequireNotEnqueued(x, orders, "after", "2")
		require.Equal(t, 2, lives)
		require.Zero(t, told, "a kill is no failure")
	})
}

// A handler that ignores its context is told of, and holds up the next life until it
// has returned.
func TestCrashWaitsForHandlers(t *testing.T) {
	var orders *executor.Queue[string]
	setup := queue(&orders, func(context.Context, executor.Job[string]) error {
		time.Sleep(3 * time.Minute)
		return nil
	}, executor.QueueConfig[string]{})
	failing(t, executortest.Config{Patience: time.Minute}, setup, func(t *testing.T, f *fake, x *executortest.Executor) {
		_, err := orders.Enqueue(t.Context(), "1", "a")
		require.NoError(t, err)
		x.Advance(time.Second)
		told := f.of(x.Crash)
		require.NotEmpty(t, told)
		require.Contains(t, told[0], "although their context has ended")
		require.Contains(t, told[0], "orders/1")
		time.Sleep(3 * time.Minute) // until it has returned
	})
	executortest.Run(t, executortest.Config{}, setup, func(t *testing.T, x *executortest.Executor) {
		_, err := orders.Enqueue(t.Context(), "1", "a")
		require.NoError(t, err)
		x.Advance(time.Second)
		began := time.Now()
		x.Crash()
		require.GreaterOrEqual(t, time.Since(began), 3*time.Minute-time.Second)
		executortest.RequireDue(x, orders, "1", 0)
		x.UntilEmpty()
		executortest.RequireOutcomes(x, orders, "1", "", events.Done)
	})
}

func TestFullDisk(t *testing.T) {
	var orders *executor.Queue[string]
	executortest.Run(t, executortest.Config{}, queue(&orders, done, executor.QueueConfig[string]{}), func(t *testing.T, x *executortest.Executor) {
		x.Disk.Full(1000)
		var err error
		accepted := 0
		for ; err == nil && accepted < 100; accepted++ {
			_, err = orders.Enqueue(t.Context(), "1", "a payload of some fifty bytes, or rather forty-eight")
		}
		require.ErrorIs(t, err, executor.ErrFull)
		require.InDelta(t, 10, accepted, 8)
		x.UntilIdle() // handlers go on, and their results are written
		executortest.RequireDone(x, orders, "1")
		x.Disk.HasRoom()
		x.Advance(time.Second)
		_, err = orders.Enqueue(t.Context(), "2", "a")
		require.NoError(t, err)
		x.Crash()
		x.UntilEmpty()
		executortest.RequireDone(x, orders, "2")
	})
}

// With NoRoom no result is written, not even one that would give room back: all runs again.
func TestNoRoom(t *testing.T) {
	var orders *executor.Queue[string]
	var ran atomic.Int32
	executortest.Run(t, executortest.Config{}, queue(&orders, func(context.Context, executor.Job[string]) error {
		ran.Add(1)
		return nil
	}, executor.QueueConfig[string]{}), func(t *testing.T, x *executortest.Executor) {
		for i := range 40 {
			_, err := orders.Enqueue(t.Context(), fmt.Sprint(i), "a")
			require.NoError(t, err)
		}
		x.Disk.NoRoom()
		x.Advance(10 * time.Second)
		require.EqualValues(t, 40, ran.Load())
		x.Kill()
		x.Disk.HasRoom()
		x.Crash()
		x.UntilEmpty()
		require.EqualValues(t, 80, ran.Load())
	})
}

func TestSlowDisk(t *testing.T) {
	var orders, mails *executor.Queue[string]
	executortest.Run(t, executortest.Config{}, func(x *executor.Executor) (err error) {
		if mails, err = executor.Handle(x, "mails", done, executor.QueueConfig[string]{}); err != nil {
			return err
		}
		orders, err = executor.Handle(x, "orders", func(_ context.Context, job executor.Job[string]) error {
			return mails.FollowUp(job, job.ID, job.Payload)
		}, executor.QueueConfig[string]{})
		return err
	}, func(t *testing.T, x *executortest.Executor) {
		x.Disk.Slow(7 * time.Second)
		began := time.Now()
		_, err := orders.Enqueue(t.Context(), "1", "a")
		require.NoError(t, err)
		require.Equal(t, 7*time.Second, time.Since(began))
		x.UntilIdle()                                                                       // the result with its follow-up, and that one's
		require.InDelta(t, 21*time.Second, time.Since(began), float64(10*time.Millisecond)) // the journal waits for callers
		executortest.RequireDone(x, mails, "1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = orders.Enqueue(ctx, "2", "a")
		require.ErrorIs(t, err, executor.ErrUnknown)
		time.Sleep(5 * time.Second)
		require.ErrorIs(t, x.Err(), executor.ErrSlowDisk)
		x.Disk.Slow(0)
	})
}

func TestFailedCommit(t *testing.T) {
	var orders *executor.Queue[string]
	var fatal []error
	cfg := executortest.Config{Executor: executor.Config{OnFatal: func(err error) { fatal = append(fatal, err) }}}
	executortest.Run(t, cfg, queue(&orders, done, executor.QueueConfig[string]{}), func(t *testing.T, x *executortest.Executor) {
		_, err := orders.Enqueue(t.Context(), "1", "a")
		require.NoError(t, err)
		broken := errors.New("EIO")
		x.Disk.FailCommit(broken)
		x.UntilIdle() // the result is not written
		require.ErrorIs(t, x.Err(), executor.ErrFailed)
		require.ErrorIs(t, x.Err(), broken)
		require.Len(t, fatal, 1)
		_, err = orders.Enqueue(t.Context(), "2", "a")
		require.ErrorIs(t, err, executor.ErrFailed)
		x.Restart()
		require.NoError(t, x.Err())
		x.UntilEmpty()
		executortest.RequireOutcomes(x, orders, "1", events.Done, events.Done)
	})
}

// A fault may come between two commits, the disk may have no room for results, and the
// next process may be another one.
func TestFaultsOfOnesOwn(t *testing.T) {
	var q *executor.Queue[string]
	executortest.Run(t, executortest.Config{}, queue(&q, done, executor.QueueConfig[string]{}), func(t *testing.T, x *executortest.Executor) {
		commits := 0
		x.Disk.OnCommit(func() {
			if commits++; commits == 3 {
				x.Kill()
			}
		})
		_, err := q.Enqueue(t.Context(), "later", "z", executor.In(time.Hour)) // the oldest, which stays: no end makes room
		require.NoError(t, err)
		_, err = q.Enqueue(t.Context(), "1", "a")
		require.NoError(t, err)
		_, _ = q.Enqueue(t.Context(), "2", "b")
		require.True(t, x.Killed())
		x.Disk.OnCommit(nil)
		x.Reconfigure(executor.Config{Workers: 7})
		x.Crash()
		stats, err := x.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, 7, stats.Workers)
		x.Disk.NoRoom()
		x.UntilIdle()
		executortest.RequireOutcomes(x, q, "2", events.Done)
		x.Crash() // what has ended was not written down
		x.UntilIdle()
		executortest.RequireOutcomes(x, q, "2", events.Done, events.Done)
		executortest.RequireDone(x, q, "1", "2")
	})
}
