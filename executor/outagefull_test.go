package executor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// An outage that fills the disk, and goes on, is no end: however often what waits has failed, a person can
// act meanwhile, and when the outage is over all of it is done, also where each job hands on what it had, and
// also after a crash. Where jobs die of it the disk stays full of dead letters, until a person deletes some.
func TestAnOutageThatFillsTheDisk(t *testing.T) {
	t.Parallel()
	slow(t)
	for _, size := range []int{1000, 8000}[:sampled(2)] {
		for name, o := range map[string]outage{"done": {retries: 1 << 20}, "hands on": {retries: 1 << 20, handsOn: true}, "dies": {retries: 2}} {
			t.Run(fmt.Sprint(size, " ", name), func(t *testing.T) {
				bubble(t, func(t *testing.T) { o.play(t, size) })
			})
		}
	}
}

type outage struct {
	retries int
	handsOn bool
}

func (o outage) play(t *testing.T, size int) {
	const limit = 1 << 20
	disk := new(journal.Memory)
	disk.Limit(limit)
	var down atomic.Bool
	down.Store(true)
	open := func() (*executor.Executor, *executor.Queue[string], *tail) {
		x := openOn(t, disk, executor.Config{Workers: 8})
		cfg := executor.QueueConfig[string]{RetryIn: always(500 * time.Millisecond), MaxRetries: o.retries}
		next := newTail(t, x, "next", cfg)
		q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
			if o.handsOn {
				assert.NoError(t, next.FollowUp(job, job.ID, job.Payload))
			}
			if down.Load() {
				return errors.New("503 from downstream")
			}
			return nil
		}, cfg)
		require.NoError(t, err)
		start(t, x)
		return x, q, next
	}
	x, q, _ := open()
	n := 0
	for refused := 0; refused < 100; {
		if _, err := q.Enqueue(t.Context(), fmt.Sprint(n%23), strings.Repeat("x", size)); err != nil {
			require.ErrorIs(t, err, executor.ErrFull)
			refused++
			time.Sleep(10 * time.Millisecond)
			continue
		}
		n++
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	acts := func(x *executor.Executor) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := x.Inspect().Pause(ctx, inspect.SelectPrefix("q", "nothing"))
		require.NoError(t, err)
		_, err = x.Inspect().Resume(ctx, inspect.SelectPrefix("q", "nothing"))
		require.NoError(t, err)
	}
	acts(x)
	disk = disk.Crash()
	disk.Limit(limit)
	var next *tail
	x, q, next = open()
	time.Sleep(time.Minute)
	synctest.Wait()
	acts(x)
	down.Store(false)
	time.Sleep(time.Minute)
	synctest.Wait()
	s := stats(t, q)
	require.Zero(t, s.Payloads, "%+v", s)
	switch {
	case o.handsOn:
		require.EqualValues(t, n, stats(t, next.Queue).Done)
	case o.retries == 2:
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		dead, err := x.Inspect().DeleteDead(ctx, inspect.SelectQueue("q"))
		require.NoError(t, err)
		require.NotZero(t, dead)
		time.Sleep(time.Second)
	}
	require.NoError(t, x.Err())
	_, err := q.Enqueue(t.Context(), "new", strings.Repeat("x", size))
	require.NoError(t, err)
	stop(t, x)
}

// Who pauses id after id on a full disk is refused before the room of results is used up.
func TestPausesOfIDsOnAFullDisk(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		q := newTail(t, x, "q", executor.QueueConfig[string]{}).Queue
		for i := range 1000 {
			enqueue(t, q, fmt.Sprint(i), "")
		}
		disk.Limit(1 << 20)
		for err := error(nil); err == nil; {
			_, err = q.Enqueue(t.Context(), "later", strings.Repeat("x", 1000), executor.In(time.Hour))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		var ids []string
		var err error
		for n := 0; err == nil; n++ {
			ids = ids[:0]
			for i := range 20 {
				ids = append(ids, fmt.Sprintf("paused-%d-%d", n, i))
			}
			_, err = x.Inspect().Pause(ctx, inspect.SelectIDs("q", ids...))
		}
		require.ErrorIs(t, err, executor.ErrFull)
		for id, err := range x.Inspect().PausedIDs("q") {
			require.NoError(t, err)
			require.NotContains(t, ids, id)
		}
		start(t, x)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.EqualValues(t, 1000, stats(t, q).Done)
		n, err := x.Inspect().Resume(ctx, inspect.SelectIDs("q", "paused-0-0")) // which waits for the results before it
		require.NoError(t, err)
		require.Equal(t, 1, n)
		stop(t, x)
	})
}

// What came in one call, in a block of more than half the room that is kept for results, is not in their
// way, although each of them takes more than the job did.
func TestManyAtOnceOnAFullDisk(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		const n = 3200
		disk := new(journal.Memory)
		disk.Limit(1 << 20)
		x := openOn(t, disk, executor.Config{Workers: 1})
		q, err := executor.Handle(x, "q", func(context.Context, executor.Job[string]) error {
			time.Sleep(time.Millisecond) // so that each result is a block
			return nil
		}, executor.QueueConfig[string]{})
		require.NoError(t, err)
		items := make([]executor.Item[string], n)
		for i := range items {
			items[i].ID = fmt.Sprint(i)
		}
		_, err = q.EnqueueMany(t.Context(), items)
		for err == nil {
			_, err = q.Enqueue(t.Context(), "later", strings.Repeat("x", 1000), executor.In(time.Hour))
		}
		require.ErrorIs(t, err, executor.ErrFull)
		start(t, x)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.EqualValues(t, n, stats(t, q).Done)
		stop(t, x)
	})
}

// A call that brought far more than is kept for results is in the way of all that comes after it, while some of
// that fails and is written down again: the disk comes back all the same when jobs end.
func TestALargeCallOnAFullDisk(t *testing.T) {
	t.Parallel()
	slow(t)
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		disk.Limit(2 << 20)
		x := openOn(t, disk, executor.Config{Workers: 8})
		q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
			time.Sleep(30 * time.Millisecond)
			if job.ID != "large" && job.Attempt == 1 && job.EnqueuedAt.UnixMilli()%2 == 0 {
				return errBoom
			}
			return nil
		}, executor.QueueConfig[string]{RetryIn: always(50 * time.Millisecond)})
		require.NoError(t, err)
		start(t, x)
		_, err = q.EnqueueMany(t.Context(), slices.Repeat([]executor.Item[string]{{ID: "large", Payload: strings.Repeat("x", 4000)}}, 150))
		require.NoError(t, err)
		refused := 0
		for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(time.Millisecond) {
			if _, err = q.Enqueue(t.Context(), fmt.Sprint(rand.IntN(100)), strings.Repeat("y", rand.IntN(1000))); err != nil {
				require.ErrorIs(t, err, executor.ErrFull)
				refused++
			}
		}
		require.NotZero(t, refused)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, stats(t, q).Payloads)
		require.NoError(t, x.Err())
		stop(t, x)
	})
}

// A job that ends each process is dead-lettered at last, also while the disk has hardly any room for its failures.
func TestAFatalErrorOnAFullDisk(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		for lives := 0; ; lives++ {
			require.Less(t, lives, 10, "it ends each process")
			x := openOn(t, disk, executor.Config{})
			q, err := executor.Handle(x, "q", func(context.Context, executor.Job[string]) error {
				return executor.Fatal(errBoom)
			}, executor.QueueConfig[string]{MaxRetries: 3, RetryIn: always(time.Second)})
			require.NoError(t, err)
			if dead := morgue(t, q); len(dead) > 0 {
				require.Equal(t, 4, lives)
				require.Equal(t, 4, dead[0].Attempt)
				stop(t, x)
				return
			}
			if lives == 0 {
				enqueue(t, q, "fatal", "")
				disk.Limit(1 << 20)
			}
			for err == nil {
				_, err = q.Enqueue(t.Context(), "later", strings.Repeat("x", 1000), executor.In(1000*time.Hour))
			}
			require.ErrorIs(t, err, executor.ErrFull)
			require.ErrorIs(t, x.Run(t.Context()), errBoom)
		}
	})
}
