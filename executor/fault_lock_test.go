package executor_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

func idempotencyRecord(keys ...string) func(string, string) []string {
	return func(string, string) []string { return keys }
}

// Locks and leases for as long as there are numbers last, and end with their jobs
// all the same.
func TestLocksWithExtremeTimes(t *testing.T) {
	for _, ttl := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, 290 * 365 * 24 * time.Hour} {
		bubble(t, func(t *testing.T) {
			disk := new(journal.Memory)
			var x *executor.Executor
			var q *executor.Queue[string]
			done := false
			reopen := func() {
				x = openOn(t, disk, executor.Config{})
				slots, err := executor.NewSlots(x, "slots", executor.SlotsConfig[int]{
					Next: func(v int) int { return v + 1 }, TTL: ttl,
				})
				require.NoError(t, err)
				q = handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
					value, ok := slots.Of(job)
					require.True(t, ok)
					require.Equal(t, 1, value)
					time.Sleep(24 * time.Hour)
					require.NoError(t, ctx.Err())
					require.True(t, job.Lease().Held())
					done = true
					return nil
				}, executor.QueueConfig[string]{
					Conditions: executor.Conditions[string]{
						Locks:  executor.Locks[string]{OnEnqueue: idempotencyRecord("key"), Unlock: idempotencyRecord("key"), TTL: ttl},
						Unique: executor.Unique[string]{While: executor.UniqueWhileRunning, TTL: ttl},
						Slots:  []executor.SlotSource{slots},
					},
				})
			}
			reopen()
			enqueue(t, q, "a", "x", executor.In(time.Hour))
			time.Sleep(time.Minute)
			stop(t, x)
			reopen()
			time.Sleep(time.Minute)
			list := lockedKeys(x)
			require.Len(t, list, 1)
			require.True(t, list[0].Locks[0].Until.After(time.Now().AddDate(200, 0, 0)), "until %v", list[0].Locks[0].Until)
			start(t, x)
			time.Sleep(48 * time.Hour)
			synctest.Wait()
			require.True(t, done)
			require.Empty(t, lockedKeys(x))
			stop(t, x)
		})
	}
}

// A job that is put off for ever waits, and does not spin.
func TestRequeueAfterExtremes(t *testing.T) {
	for after, least := range map[time.Duration]time.Duration{1: 0, time.Hour: time.Hour, math.MaxInt64: 24 * time.Hour} {
		bubble(t, func(t *testing.T) {
			x := open(t, "", executor.Config{})
			q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{
				Conditions: executor.Conditions[string]{
					Locks: executor.Locks[string]{BlockedBy: idempotencyRecord("key"), WhenBlocked: lock.Decision{After: after}},
				},
			})
			require.NoError(t, x.KeyLocks().Lock(t.Context(), "key"))
			enqueue(t, q, "a", "x")
			if least == 0 { // it asks all the time, as it was told to: time would stand still
				require.NoError(t, x.KeyLocks().Unlock(t.Context(), "key"))
				start(t, x)
				synctest.Wait()
				require.Zero(t, stats(t, q).Jobs)
				stop(t, x)
				return
			}
			start(t, x)
			synctest.Wait()
			e, err := x.Inspect().Explain(t.Context(), "q", "a")
			require.NoError(t, err)
			require.Equal(t, inspect.JobScheduled, e.State)
			require.False(t, e.Due.Before(time.Now().Add(least)), "due %v", e.Due)
			require.EqualValues(t, 1, stats(t, q).Snoozed)
			stop(t, x)
		})
	}
}

// A stop that races the unlock of what jobs wait for neither loses them nor leaves
// a key that no job will unlock.
func TestStopRacesUnlock(t *testing.T) {
	const jobs = 8
	var want []string
	for i := range jobs {
		want = append(want, fmt.Sprint("j", i))
	}
	for range sampled(50) {
		disk := new(journal.Memory)
		p := &probe{}
		reopen := func() (*executor.Executor, *executor.Queue[string]) {
			x := openOn(t, disk, executor.Config{Workers: 2})
			return x, handle(t, x, "q", p.handle, executor.QueueConfig[string]{
				Conditions: executor.Conditions[string]{
					Locks: executor.Locks[string]{BlockedBy: idempotencyRecord("key"), OnRun: idempotencyRecord("key"), Unlock: idempotencyRecord("key")},
				},
			})
		}
		x, q := reopen()
		require.NoError(t, x.KeyLocks().Lock(t.Context(), "key"))
		for _, id := range want {
			enqueue(t, q, id, "x")
		}
		start(t, x)
		for stats(t, q).Parked < jobs {
			time.Sleep(50 * time.Microsecond)
		}
		var both sync.WaitGroup
		both.Go(func() {
			if err := x.KeyLocks().Unlock(context.Background(), "key"); err != nil {
				require.ErrorIs(t, err, executor.ErrClosed)
			}
		})
		both.Go(func() { stop(t, x) })
		both.Wait()

		x, q = reopen()
		if list := lockedKeys(x); len(list) > 0 && list[0].Locks[0].By == "a person" { // the stop was first
			require.NoError(t, x.KeyLocks().Unlock(t.Context(), "key"))
		} // or it is a job's, which will run
		start(t, x)
		drained(t, q)
		require.Empty(t, lockedKeys(x))
		stop(t, x)
		var ids []string
		for _, s := range p.seen() {
			ids = append(ids, s.id)
		}
		require.ElementsMatch(t, want, ids)
	}
}

// A journal has one executor, so its locks have one table. The next one has larger
// tokens.
func TestOneTableOfLocks(t *testing.T) {
	dir := t.TempDir() + "/journal"
	tokens := make(chan uint64, 1)
	first := open(t, dir, executor.Config{Unique: executor.Unique[any]{While: executor.UniqueWhileRunning}})
	_, err := executor.Open(dir, executor.Config{})
	locked, ok := errors.AsType[*journal.LockedError](err)
	require.True(t, ok, "%v", err)
	require.NotZero(t, locked.PID)
	last := uint64(0)
	for x := first; ; x = open(t, dir, executor.Config{Unique: executor.Unique[any]{While: executor.UniqueWhileRunning}}) {
		q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
			tokens <- job.Lease().Token()
			return nil
		}, executor.QueueConfig[string]{})
		start(t, x)
		for range 3 {
			enqueue(t, q, "a", "x")
			token := await(t, tokens)
			require.Greater(t, token, last)
			last = token
		}
		stop(t, x)
		if x != first {
			break
		}
	}
}

// A job that asks for what it holds itself is not blocked by itself, and a handler
// may do with keys whatever a person may.
func TestHandlerAndItsOwnKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		keys, woken := x.KeyLocks(), false
		q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
			if job.ID != "a" || job.Attempt == 1 {
				return errBoom // it keeps the key, and its retry wants it again
			}
			require.NoError(t, keys.Lock(ctx, "key"))
			locked, err := keys.Locked(ctx, "key")
			require.NoError(t, err)
			require.True(t, locked)
			require.Len(t, lockedKeys(x)[0].Locks, 2)
			_, watched := keys.Watch("key", func() { // on whatever goroutine frees the key
				woken = true
				require.NoError(t, keys.Lock(context.Background(), "other"))
				require.NoError(t, keys.Unlock(context.Background(), "other"))
			})
			require.True(t, watched)
			e, err := x.Inspect().Explain(ctx, "q", "a")
			require.NoError(t, err)
			require.Equal(t, inspect.JobRunning, e.State)
			return nil
		}, executor.QueueConfig[string]{
			RetryIn: always(time.Second),
			Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{BlockedBy: idempotencyRecord("key"), OnRun: idempotencyRecord("key"), Unlock: idempotencyRecord("key")},
			},
		})
		enqueue(t, q, "a", "x")
		start(t, x)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.True(t, woken)
		require.Zero(t, stats(t, q).Jobs)
		require.Empty(t, lockedKeys(x))
		stop(t, x)
	})
}

// A handler that waits for itself is ended by its timeout.
func TestHandlerWaitsForItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
			free := make(chan struct{})
			cancel, locked := x.KeyLocks().Watch("key", func() { close(free) })
			require.True(t, locked)
			defer cancel()
			select {
			case <-free:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}, executor.QueueConfig[string]{
			Timeout: time.Second, RetryIn: always(time.Hour),
			Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{OnRun: idempotencyRecord("key"), Unlock: idempotencyRecord("key")},
			},
		})
		enqueue(t, q, "a", "x")
		start(t, x)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 1, stats(t, q).Failed)
		stop(t, x)
	})
}
