package executor_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// fates is a queue whose handler ends a payload as its id says.
func fates(t *testing.T, disk *journal.Memory, cfg executor.QueueConfig[string]) (*executor.Executor, *executor.Queue[string]) {
	x := openOn(t, disk, executor.Config{})
	q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
		return map[string]error{"buried": executor.Cancel(errBoom), "discarded": executor.Discard()}[job.ID]
	}, cfg)
	return x, q
}

// A Wait that began before the end, and one that began after it, say how a payload ended
// when that is on disk: not while a full disk keeps it off, and then what it was. What they
// have said stays so after a crash.
func TestWaitOnAFullDisk(t *testing.T) {
	for id, want := range map[string]string{"done": "", "buried": "buried", "discarded": "discarded", "deleted": "deleted"} {
		t.Run(id, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk := new(journal.Memory)
				x, q := fates(t, disk, executor.QueueConfig[string]{})
				start(t, x)
				r := enqueue(t, q, id, "x", executor.In(time.Minute))
				before, after := make(chan error, 1), make(chan error, 1)
				go func() { before <- q.Wait(t.Context(), r) }()
				synctest.Wait()
				disk.Limit(1) // no room for any result
				if id == "deleted" {
					deleted := make(chan int, 1)
					go func() {
						n, err := x.Inspect().Delete(t.Context(), inspect.SelectIDs("q", id))
						require.NoError(t, err)
						deleted <- n
					}()
					synctest.Wait()
					require.Empty(t, deleted, "it is not on disk")
				}
				time.Sleep(2 * time.Minute)
				require.Zero(t, stats(t, q).Payloads)
				go func() { after <- q.Wait(t.Context(), r) }()
				cut := within(time.Second, func(ctx context.Context) error { return q.Wait(ctx, r) })
				require.ErrorAs(t, cut, new(*executor.PendingError))
				require.ErrorIs(t, cut, context.DeadlineExceeded)
				require.Empty(t, before)
				require.Empty(t, after)
				require.Equal(t, 1, livesOn(t, disk, executor.QueueConfig[string]{}), "a crash now has it run again")

				disk.Limit(0)
				said := <-before
				require.Equal(t, want == "", said == nil)
				require.Contains(t, fmt.Sprint(said), want)
				err := <-after
				require.Zero(t, livesOn(t, disk, executor.QueueConfig[string]{}))
				if id == "buried" {
					require.ErrorAs(t, err, new(*executor.BuriedError))
				} else {
					require.NoError(t, err, "no record is kept of it")
				}
				stop(t, x)
			})
		})
	}
}

// Do, too, says what is on disk: its result comes when the full disk has had room for the end.
func TestDoOnAFullDisk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		c, err := executor.HandleResult(x, "q", func(context.Context, executor.Job[string]) (int, error) {
			disk.Limit(1)
			return 7, nil
		}, executor.QueueConfig[string]{})
		require.NoError(t, err)
		start(t, x)
		said := make(chan int, 1)
		go func() {
			n, err := c.Do(t.Context(), "a", "x")
			assert.NoError(t, err)
			said <- n
		}()
		time.Sleep(time.Minute)
		require.Empty(t, said)
		require.Equal(t, 1, livesOn(t, disk, executor.QueueConfig[string]{}), "a crash now has it run again")
		disk.Limit(0)
		require.Equal(t, 7, <-said)
		require.Zero(t, livesOn(t, disk, executor.QueueConfig[string]{}))
		stop(t, x)
	})
}

// livesOn returns how many payloads are found after a crash now.
func livesOn(t *testing.T, disk *journal.Memory, cfg executor.QueueConfig[string]) int {
	x, q := fates(t, disk.Crash(), cfg)
	defer stop(t, x)
	return stats(t, q).Payloads
}

// A payload that was posted and waits for room has not ended.
func TestWaitForWhatWaitsForRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x, q := fates(t, disk, executor.QueueConfig[string]{Defaults: executor.Defaults[string]{Durability: executor.DurabilityAsync}})
		start(t, x)
		enqueue(t, q, "first", "x")
		synctest.Wait()
		disk.Fill(0, 1<<16)
		r := enqueue(t, q, "buried", "x")
		synctest.Wait()
		require.ErrorIs(t, x.Err(), executor.ErrFull)
		end := make(chan error, 1)
		go func() { end <- q.Wait(t.Context(), r) }()
		time.Sleep(time.Minute)
		require.Empty(t, end)
		require.ErrorAs(t, within(time.Second, func(ctx context.Context) error { return q.Wait(ctx, r) }), new(*executor.PendingError))
		disk.Limit(0)
		require.ErrorAs(t, <-end, new(*executor.BuriedError))
		stop(t, x)
	})
}

// A payload that an equal one replaces while Wait begins has the end of that one.
func TestWaitBeginsWhileThePayloadIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x, q := fates(t, new(journal.Memory), executor.QueueConfig[string]{Merge: executor.MergeKeepLast, Share: executor.Share{Shards: 1}})
		start(t, x)
		r := enqueue(t, q, "buried", "x", executor.In(time.Hour))
		release := x.HoldShards("q")
		synctest.Wait()
		go func() { enqueue(t, q, "buried", "x", executor.In(time.Hour)) }()
		synctest.Wait()
		end := make(chan error, 1)
		go func() { end <- q.Wait(t.Context(), r) }()
		synctest.Wait()
		release()
		time.Sleep(time.Minute)
		require.Empty(t, end)
		require.ErrorAs(t, <-end, new(*executor.BuriedError))
		stop(t, x)
	})
}

// What waits for room when the executor is stopped will never be written: the call says ErrFailed, as
// Stop does, and not that it may be repeated.
func TestStopOnAFullDiskFailsWhatWaits(t *testing.T) {
	for name, call := range map[string]func(x *executor.Executor) error{
		"Pause": func(x *executor.Executor) error { return pauseAll(context.Background(), x) },
		"Cancel": func(x *executor.Executor) error {
			_, err := x.Inspect().Cancel(context.Background(), inspect.SelectIDs("q", "done"), "x")
			return err
		},
		"RunNow": func(x *executor.Executor) error {
			_, err := x.Inspect().RunNow(context.Background(), inspect.SelectIDs("q", "done"))
			return err
		},
		"DeleteDead": func(x *executor.Executor) error {
			_, err := x.Inspect().DeleteDead(context.Background(), inspect.SelectQueue("q"))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk := new(journal.Memory)
				x, q := fates(t, disk, executor.QueueConfig[string]{})
				start(t, x)
				enqueue(t, q, "buried", "x")
				enqueue(t, q, "done", "x", executor.In(time.Hour))
				synctest.Wait()
				disk.Limit(1)
				waits := make(chan error, 1)
				go func() { waits <- call(x) }()
				synctest.Wait()
				require.Empty(t, waits)
				err := within(time.Second, x.Stop)
				require.ErrorIs(t, err, executor.ErrFailed)
				err = <-waits
				require.ErrorIs(t, err, executor.ErrFailed)
				require.NotErrorIs(t, err, executor.ErrFull)
			})
		})
	}
}
