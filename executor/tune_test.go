package executor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// A flood of one queue does not raise what the jobs of another wait, at the 99th
// percentile, by more than twice the longest handler.
func TestFloodAndP99(t *testing.T) {
	const longest = 50 * time.Millisecond
	times := 1
	if long() {
		times = 50
	}
	p99 := func(t *testing.T, flood bool) time.Duration {
		x := open(t, "", executor.Config{Workers: 4})
		h := lasting(func() time.Duration { return 1 + rand.N(longest) })
		big := handle(t, x, "flood", h, executor.QueueConfig[string]{})
		waits := make(chan time.Duration, times*200)
		q, err := executor.Handle(x, "calm", func(_ context.Context, job executor.Job[string]) error {
			waits <- time.Since(job.EnqueuedAt)
			time.Sleep(1 + rand.N(longest))
			return nil
		}, executor.QueueConfig[string]{})
		require.NoError(t, err)
		if flood {
			items := make([]executor.Item[string], times*2_000)
			for i := range items {
				items[i].ID = fmt.Sprint(i)
			}
			_, err := big.EnqueueMany(t.Context(), items)
			require.NoError(t, err)
		}
		start(t, x)
		for i := range cap(waits) {
			time.Sleep(rand.N(100 * time.Millisecond)) // a load of two of the four workers at most
			enqueue(t, q, fmt.Sprint(i), "")
		}
		time.Sleep(10 * time.Second)
		var all []time.Duration
		for range cap(waits) {
			all = append(all, <-waits)
		}
		slices.Sort(all)
		return all[len(all)*99/100]
	}
	var calm, flooded time.Duration
	bubble(t, func(t *testing.T) { calm = p99(t, false) })
	bubble(t, func(t *testing.T) { flooded = p99(t, true) })
	assert.LessOrEqual(t, flooded-calm, 2*longest)
}

// A queue of a higher priority goes first as long as it has something to do; those
// of one priority share by weight; and a priority can be changed.
func TestPriority(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 2})
		var ran [4]atomic.Int64
		var queues [4]*executor.Queue[string]
		for i, cfg := range []executor.QueueConfig[string]{
			{Share: executor.Share{Priority: -1}}, {Share: executor.Share{Weight: 3}}, {}, {Share: executor.Share{Priority: 7}},
		} {
			queues[i] = handle(t, x, fmt.Sprint(i), lasting(func() time.Duration {
				ran[i].Add(1)
				return 10 * time.Millisecond
			}), cfg)
			for id := range 1000 {
				enqueue(t, queues[i], fmt.Sprint(id), "")
			}
		}
		require.Equal(t, executor.QueueTuning{Weight: 1, Priority: 7}, queues[3].Tuning())
		since := func(d time.Duration) (n [4]int64) {
			for i := range ran {
				n[i] = -ran[i].Load()
			}
			time.Sleep(d)
			synctest.Wait()
			for i := range ran {
				n[i] += ran[i].Load()
			}
			return n
		}
		start(t, x)
		n := since(time.Second)
		assert.InDelta(t, 200, n[3], 3)
		assert.Zero(t, n[0]+n[1]+n[2])
		require.NoError(t, queues[3].Tune(executor.QueueTuning{Priority: -2}))
		n = since(2 * time.Second)
		assert.InDelta(t, 300, n[1], 10)
		assert.InDelta(t, 100, n[2], 10)
		assert.LessOrEqual(t, n[0]+n[3], int64(2))
		require.NoError(t, queues[2].Tune(executor.QueueTuning{Weight: 3}))
		n = since(time.Second)
		assert.InDelta(t, 100, n[1], 10)
		assert.InDelta(t, 100, n[2], 10)
		require.NoError(t, queues[0].Tune(executor.QueueTuning{MaxConcurrent: 1}))
		n = since(700 * time.Millisecond)
		assert.InDelta(t, 20, n[0], 3, "a seventh, and no credit for what it waited")
		time.Sleep(time.Hour)
		for i := range queues {
			assert.EqualValues(t, 1000, ran[i].Load())
		}
	})
}

// MaxConcurrent goes up and down while the queue runs: what waited is woken, no
// worker is idle, and nothing is forgotten.
func TestTuneMaxConcurrent(t *testing.T) {
	for _, scheduler := range []executor.Scheduler{nil, executor.OldestFirst(), executor.RegistrationOrder(), custom{}} {
		bubble(t, func(t *testing.T) {
			x := open(t, "", executor.Config{Workers: 8, Scheduler: scheduler})
			var running atomic.Int64
			q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error {
				running.Add(1)
				defer running.Add(-1)
				time.Sleep(time.Second)
				return nil
			}, executor.QueueConfig[string]{MaxConcurrent: 1})
			other := handle(t, x, "other", (&probe{}).handle, executor.QueueConfig[string]{})
			start(t, x)
			for i := range 100 {
				enqueue(t, q, fmt.Sprint(i), "")
			}
			for _, n := range []int{1, 5, 2, 8, 3, -1, 1} {
				require.NoError(t, q.Tune(executor.QueueTuning{MaxConcurrent: n}))
				synctest.Wait()
				if n > 0 {
					require.GreaterOrEqual(t, running.Load(), int64(n), "at once")
				}
				time.Sleep(1500 * time.Millisecond)
				synctest.Wait()
				if n < 0 {
					n = 8
				}
				require.EqualValues(t, n, running.Load())
				enqueue(t, other, fmt.Sprint(n), "")
				synctest.Wait() // its worker looks for more
			}
			time.Sleep(time.Hour)
			require.Zero(t, stats(t, q).Jobs+stats(t, other).Jobs)
			stop(t, x)
			require.NoError(t, q.Tune(executor.QueueTuning{MaxConcurrent: 3}))
		})
	}
}

// What makes no sense is refused and changes nothing.
func TestTuningsThatMakeNoSense(t *testing.T) {
	x := open(t, "", executor.Config{})
	q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{Share: executor.Share{Weight: 2}})
	for _, tuning := range []executor.QueueTuning{
		{Weight: -1}, {Weight: 1 << 17}, {MaxConcurrent: 1 << 18}, {Priority: 1 << 17}, {Priority: -1 << 17},
	} {
		require.ErrorIs(t, q.Tune(tuning), executor.ErrConfig, "%+v", tuning)
		_, err := executor.HandleMerged(x, "bad", (&probe{}).handle, executor.QueueConfig[string]{
			Share: executor.Share{Weight: tuning.Weight, Priority: tuning.Priority}, MaxConcurrent: tuning.MaxConcurrent})
		require.ErrorIs(t, err, executor.ErrConfig, "%+v", tuning)
	}
	tuning := q.Tuning()
	require.Equal(t, executor.QueueTuning{Weight: 2}, tuning)
	var none *executor.Queue[string]
	require.ErrorIs(t, none.Tune(tuning), executor.ErrState)
	require.Zero(t, none.Tuning())
}
