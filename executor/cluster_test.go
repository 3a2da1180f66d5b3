package executor_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cluster"
	"github.com/strandjobs/strand/journal"
)

// openCluster opens the executor of a cluster with one partition, and returns what opens that, empty.
func openCluster(t *testing.T) (front *executor.Executor, open func() *executor.Executor) {
	t.Helper()
	cfg := executor.Config{Workers: 1, Logger: slog.New(slog.DiscardHandler)}
	over := func(context.Context) error { return nil }
	front, partition, err := cluster.Open(cluster.Cluster{Partitions: 1, PartitionOf: func(string) (int, error) { return 0, nil },
		Start: over, Stop: over, Err: func() error { return nil }}, cfg)
	require.NoError(t, err)
	stopAtEnd(t, front)
	cfg.Splitter.Nodes = 1
	return front, func() *executor.Executor {
		x, err := partition("partition 0", func(c journal.Config) (*journal.Log, error) { return journal.OpenMemory(new(journal.Memory), c) }, cfg)
		require.NoError(t, err)
		stopAtEnd(t, x)
		return x
	}
}

// encoded enqueues a payload in a partition.
func encoded(t *testing.T, x *executor.Executor, id, payload string) {
	t.Helper()
	q, err := x.Lookup("q")
	require.NoError(t, err)
	_, err = q.Enqueue(t.Context(), id, []byte(payload))
	require.NoError(t, err)
}

// Jobs of a partition that is open again keep their turns at limits when its executor of before has stopped at last.
func TestAPartitionIsOpenAgainBeforeItHasStopped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		front, open := openCluster(t)
		limit, err := executor.NewLimit(front, "l", executor.LimitConfig{Concurrent: 1})
		require.NoError(t, err)
		ran := make(chan string, 1)
		_, err = executor.Handle(front, "q", func(_ context.Context, job executor.Job[int]) error { ran <- job.ID; return nil },
			executor.QueueConfig[int]{Conditions: executor.Conditions[int]{Limits: []executor.LimitOf[int]{{Limit: limit}}}})
		require.NoError(t, err)
		require.NoError(t, limit.Pause("", time.Hour))
		first := open()
		start(t, first)
		release := first.HoldShards("q")
		synctest.Wait()
		over, end := context.WithCancel(t.Context())
		end()
		require.ErrorIs(t, first.Stop(over), executor.ErrStuck)

		second := open()
		start(t, second)
		encoded(t, second, "a", "1")
		synctest.Wait()
		require.Equal(t, 1, shown(front, limit).Waiting)
		release()
		require.NoError(t, first.Stop(t.Context()))
		require.NoError(t, limit.Pause("", 0))
		synctest.Wait()
		require.Len(t, ran, 1)
		stop(t, second)
		stop(t, front)
	})
}

// A follow-up is due by the clock of all processes, whether its call says when, or its queue.
func TestAFollowUpIsDueByTheClockOfTheCluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		front, open := openCluster(t)
		due := time.Now().Add(time.Minute)
		done := make(chan error, 1)
		var later *executor.Queue[int]
		later, err := executor.Handle(front, "later", func(context.Context, executor.Job[int]) error { return nil },
			executor.QueueConfig[int]{Defaults: executor.Defaults[int]{Due: func(int) time.Time { return due }}})
		require.NoError(t, err)
		_, err = executor.Handle(front, "q", func(_ context.Context, job executor.Job[int]) error {
			done <- errors.Join(later.FollowUp(job, "called", 1, executor.At(due)), later.FollowUp(job, "computed", 1))
			return nil
		}, executor.QueueConfig[int]{})
		require.NoError(t, err)
		x := open()
		x.SetClock(func() time.Time { return time.Now().Add(time.Hour) })
		start(t, x)
		encoded(t, x, "a", "1")
		require.NoError(t, <-done)
		synctest.Wait()
		for _, id := range []string{"called", "computed"} {
			job, err := x.Inspect().Job(t.Context(), "later", id)
			require.NoError(t, err)
			require.WithinDuration(t, due.Add(time.Hour), job.Due, time.Second, id)
		}
		stop(t, x)
		stop(t, front)
	})
}

// What another process has accepted does not wait for room: others wait for it.
func TestWhatIsRelayedDoesNotWaitForRoom(t *testing.T) {
	x := open(t, "", executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 1}, WaitForRoom: true})
	q, err := executor.Handle(x, "q", func(context.Context, executor.Job[int]) error { return nil }, executor.QueueConfig[int]{})
	require.NoError(t, err)
	_, err = q.Enqueue(t.Context(), "a", 1, cluster.Relayed(false))
	require.NoError(t, err)
	for _, options := range [][]executor.Option{{cluster.Relayed(false)}, {executor.FromSource("s", 1), cluster.Relayed(false)}, {cluster.Relayed(true)}} {
		_, err = q.Enqueue(t.Context(), "a", 1, options...)
		require.ErrorIs(t, err, executor.ErrFull)
	}
}
