package executor_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// While a payload waits, another one with IfAbsent is refused and told which it is:
// whatever it waits for, and after a restart, too. One that runs is no obstacle.
func TestIfAbsent(t *testing.T) {
	for _, durability := range []executor.Durability{executor.DurabilitySync, executor.DurabilityAsync} {
		bubble(t, func(t *testing.T) {
			disk := new(journal.Memory)
			life := func(decide func(int) error) (*executor.Executor, *executor.Queue[int]) {
				x := openOn(t, disk, executor.Config{Workers: 1, Durability: durability})
				q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[int]) error {
					time.Sleep(time.Minute)
					return decide(job.Payload)
				}, executor.QueueConfig[int]{RetryIn: always(time.Hour)})
				require.NoError(t, err)
				return x, q
			}
			x, q := life(func(int) error { return errBoom })
			refused := func(by executor.Receipt, due time.Time) {
				t.Helper()
				synctest.Wait() // under DurabilityAsync a shard may not have heard of what was accepted
				before := stats(t, q).Payloads
				_, err := q.Enqueue(t.Context(), "a", 99, executor.IfAbsent())
				require.ErrorAs(t, err, new(*executor.WaitingError))
				waiting, _ := errors.AsType[*executor.WaitingError](err)
				require.WithinDuration(t, due, waiting.Due, time.Minute)
				waiting.Due = time.Time{}
				require.Equal(t, executor.WaitingError{Queue: "q", ID: "a", Position: by.Position}, *waiting)
				require.Equal(t, before, stats(t, q).Payloads)
				enqueue(t, q, fmt.Sprint("other than a: ", before), 1, executor.IfAbsent(), executor.In(9999*time.Hour))
			}
			first := enqueue(t, q, "a", 1, executor.In(time.Hour))
			refused(first, time.Now().Add(time.Hour))
			stop(t, x)

			x, q = life(func(int) error { return errBoom })
			refused(first, time.Now().Add(time.Hour))
			start(t, x)
			time.Sleep(time.Hour)
			synctest.Wait()
			second := enqueue(t, q, "a", 2, executor.IfAbsent()) // the first one runs
			refused(second, time.Now())
			time.Sleep(2 * time.Minute)
			refused(first, time.Now().Add(time.Hour)) // it failed, and is to run before the other
			_, err := q.EnqueueMany(t.Context(), []executor.Item[int]{{ID: "x"}, {ID: "y"}}, executor.IfAbsent())
			require.ErrorIs(t, err, executor.ErrState)
			stop(t, x)
		})
	}
}

// Of many calls at once with IfAbsent for an id one is accepted, and the others are
// refused because of that one.
func TestIfAbsentAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
		disk.BeforeCommit(func() { time.Sleep(time.Millisecond) }) // so that all of them are there
		for round := range 5 {
			id := fmt.Sprint(round)
			var accepted, named atomic.Uint64
			done := make(chan struct{})
			for range 16 {
				go func() {
					defer func() { done <- struct{}{} }()
					r, err := q.Enqueue(t.Context(), id, "x", executor.IfAbsent())
					if waiting, refused := errors.AsType[*executor.WaitingError](err); refused {
						named.Store(waiting.Position)
					} else if err == nil && !accepted.CompareAndSwap(0, r.Position) {
						t.Error("two were accepted")
					}
				}()
			}
			for range 16 {
				<-done
			}
			require.NotZero(t, accepted.Load())
			require.Equal(t, accepted.Load(), named.Load())
		}
		require.Equal(t, 5, stats(t, q).Payloads)
	})
}

// A call that ends while it looks at what waits has handed in nothing, and says so.
func TestIfAbsentThatEndsBefore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{Durability: executor.DurabilityAsync})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
		brake := hang(disk)
		defer brake.release()
		enqueue(t, q, "b", "x")
		err := within(time.Second, func(ctx context.Context) error {
			_, err := q.Enqueue(ctx, "a", "x", executor.IfAbsent())
			return err
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, executor.ErrUnknown)
		brake.release()
		synctest.Wait()
		require.Equal(t, 1, stats(t, q).Payloads)
	})
}
