package executor_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// lasting is a handler that takes a while.
func lasting(d func() time.Duration) func(context.Context, executor.Merged[string]) error {
	return func(ctx context.Context, _ executor.Merged[string]) error {
		select {
		case <-time.After(d()):
		case <-ctx.Done():
		}
		return nil
	}
}

// By default a queue with little to do does not wait for the backlog of another
// one: under OldestFirst its job waits until that is over.
func TestFloodOfOneQueueDoesNotHoldUpAnother(t *testing.T) {
	const handler = 100 * time.Millisecond
	wait := func(t *testing.T, s executor.Scheduler) (longest time.Duration) {
		x := open(t, "", executor.Config{Workers: 4, Scheduler: s})
		flood := handle(t, x, "flood", lasting(func() time.Duration { return handler }), executor.QueueConfig[string]{})
		ran := make(chan time.Time, 1)
		urgent := handle(t, x, "urgent", func(context.Context, executor.Merged[string]) error { ran <- time.Now(); return nil }, executor.QueueConfig[string]{})
		for i := range 10_000 {
			enqueue(t, flood, fmt.Sprint(i), "")
		}
		start(t, x)
		for range 20 {
			time.Sleep(time.Second + handler/3)
			begin := time.Now()
			enqueue(t, urgent, "u", "")
			longest = max(longest, (<-ran).Sub(begin))
		}
		return longest
	}
	bubble(t, func(t *testing.T) { require.LessOrEqual(t, wait(t, nil), 2*handler) })
	bubble(t, func(t *testing.T) {
		require.Greater(t, wait(t, executor.OldestFirst()), time.Minute, "the old default")
	})
}

// Queues that all have a backlog share the workers' time by their weights, however
// long their jobs take, and what one leaves the others get. In the long tier that is
// asked of 10^5 runs and more.
func TestWeights(t *testing.T) {
	t.Parallel()
	times := 1
	if long() {
		times = 6
	}
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 9})
		var used [3]atomic.Int64
		backlog := func(i, jobs, weight int, job time.Duration) {
			q := handle(t, x, fmt.Sprint("q", i), lasting(func() time.Duration {
				d := job/2 + rand.N(job)
				used[i].Add(int64(d))
				return d
			}), executor.QueueConfig[string]{Share: executor.Share{Weight: weight}})
			for id := range jobs {
				enqueue(t, q, fmt.Sprint(id), "")
			}
		}
		backlog(0, times*12_500, 5, 10*time.Millisecond)
		backlog(1, times*5_000, 3, 20*time.Millisecond)
		backlog(2, times*5_000, 1, 5*time.Millisecond)
		start(t, x)
		span := time.Duration(times) * 20 * time.Second
		time.Sleep(span)
		total := used[0].Load() + used[1].Load() + used[2].Load()
		assert.InDelta(t, 9*span, total, float64(time.Second), "no worker was idle")
		for i, want := range []float64{5, 3, 1} {
			assert.InEpsilon(t, want/9, float64(used[i].Load())/float64(total), 0.05, "queue %d", i)
		}
		time.Sleep(time.Hour)
		s, err := x.Stats(t.Context())
		require.NoError(t, err)
		assert.Zero(t, s.Busy)
		assert.EqualValues(t, times*22_500, s.Queues[0].Done+s.Queues[1].Done+s.Queues[2].Done)
	})
}

// A queue that had nothing to do has no claim on the time from before.
func TestNoCreditForIdleQueues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 2})
		var busy, late atomic.Int64
		count := func(n *atomic.Int64) func() time.Duration {
			return func() time.Duration { n.Add(1); return 10 * time.Millisecond }
		}
		a := handle(t, x, "busy", lasting(count(&busy)), executor.QueueConfig[string]{})
		b := handle(t, x, "late", lasting(count(&late)), executor.QueueConfig[string]{})
		for i := range 4000 {
			enqueue(t, a, fmt.Sprint(i), "")
		}
		start(t, x)
		time.Sleep(10 * time.Second)
		for i := range 2000 {
			enqueue(t, b, fmt.Sprint(i), "")
		}
		before := busy.Load()
		time.Sleep(time.Second)
		assert.InDelta(t, 100, late.Load(), 5)
		assert.InDelta(t, 100, busy.Load()-before, 5)
	})
}

// MaxConcurrent bounds a queue, and nothing else: no worker is idle while another
// queue has something to do, and no job is forgotten.
func TestMaxConcurrent(t *testing.T) {
	for _, scheduler := range []executor.Scheduler{nil, executor.OldestFirst(), executor.RoundRobin(), executor.RegistrationOrder(), custom{}} {
		t.Run(fmt.Sprintf("%T", scheduler), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{Workers: 8, Scheduler: scheduler})
				var running, most, all, mostOfAll atomic.Int64
				run := func(n, most *atomic.Int64, d time.Duration) {
					if now := n.Add(1); now > most.Load() {
						most.Store(now)
					}
					time.Sleep(d)
					n.Add(-1)
				}
				limited := handle(t, x, "limited", func(context.Context, executor.Merged[string]) error {
					run(&all, &mostOfAll, 0)
					run(&running, &most, 10*time.Millisecond)
					return nil
				}, executor.QueueConfig[string]{MaxConcurrent: 3, Share: executor.Share{Shards: 7}})
				free := handle(t, x, "free", func(context.Context, executor.Merged[string]) error {
					run(&all, &mostOfAll, 10*time.Millisecond)
					return nil
				}, executor.QueueConfig[string]{})
				start(t, x)
				for i := range 300 {
					enqueue(t, limited, fmt.Sprint(i), "")
				}
				for i := range 500 {
					enqueue(t, free, fmt.Sprint(i), "")
				}
				time.Sleep(3 * time.Second)
				assert.Zero(t, stats(t, limited).Jobs)
				assert.Zero(t, stats(t, free).Jobs)
				assert.EqualValues(t, 3, most.Load())
				for i := range 100 {
					enqueue(t, limited, fmt.Sprint(i), "")
					time.Sleep(time.Millisecond)
				}
				time.Sleep(time.Second)
				assert.Zero(t, stats(t, limited).Jobs)
				assert.EqualValues(t, 3, most.Load())
			})
		})
	}
}

type custom struct{}

func (custom) Pick(ready []executor.Candidate) int { return rand.IntN(len(ready)) }

// A handler that is stuck and has a substitute is not counted.
func TestMaxConcurrentWithoutTheStuck(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 2, Stuck: executor.Stuck{SpareWorkers: 1, After: time.Second}})
		block := make(chan struct{})
		var done atomic.Int64
		q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
			if job.ID == "stuck" {
				<-block
			}
			done.Add(1)
			return nil
		}, executor.QueueConfig[string]{MaxConcurrent: 1, Timeout: time.Second})
		start(t, x)
		for _, id := range []string{"stuck", "a", "b"} {
			enqueue(t, q, id, "")
		}
		time.Sleep(time.Second)
		require.Zero(t, done.Load())
		time.Sleep(10 * time.Second)
		require.EqualValues(t, 2, done.Load())
		close(block)
		synctest.Wait()
		require.EqualValues(t, 3, done.Load())
		enqueue(t, q, "c", "")
		synctest.Wait()
		require.EqualValues(t, 4, done.Load())
	})
}

// Without a Logger warnings go where the process has its own.
func TestDefaultLogger(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	x, err := executor.Open("", executor.Config{})
	require.NoError(t, err)
	q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { return executor.Cancel(errBoom) }, executor.QueueConfig[string]{})
	start(t, x)
	enqueue(t, q, "a", "")
	drained(t, q)
	stop(t, x)
	require.Contains(t, log.String(), "level=WARN msg=\"job went to the morgue\"")
}
