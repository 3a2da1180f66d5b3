package executor_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
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

func newLimit(t testing.TB, x *executor.Executor, name string, cfg executor.LimitConfig) *executor.Limit {
	t.Helper()
	l, err := executor.NewLimit(x, name, cfg)
	require.NoError(t, err)
	return l
}

// shown is a limit as people see it.
func shown(x *executor.Executor, l *executor.Limit, keys ...string) inspect.LimitStats {
	all := x.Inspect().Limits(keys...)
	return all[slices.IndexFunc(all, func(s inspect.LimitStats) bool { return s.Limit == l.Name() })]
}

// byPayload are limits whose key is the payload.
func byPayload(limits ...*executor.Limit) (all []executor.LimitOf[string]) {
	for _, l := range limits {
		all = append(all, executor.LimitOf[string]{Limit: l, Key: func(_, payload string) string { return payload }})
	}
	return all
}

// atOnce counts what runs at a time for each key.
type atOnce struct {
	mu        sync.Mutex
	now, most map[string]int
}

func (c *atOnce) run(key string, d time.Duration) {
	c.mu.Lock()
	if c.now == nil {
		c.now, c.most = map[string]int{}, map[string]int{}
	}
	c.now[key]++
	c.most[key] = max(c.most[key], c.now[key])
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.now[key]--
		c.mu.Unlock()
	}()
	time.Sleep(d)
}

// So many of a key run at a time, over two queues; other keys and other queues have
// the workers, and what waits spends no retry and takes no worker.
func TestLimitConcurrentPerKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 8})
		l := newLimit(t, x, "customer", executor.LimitConfig{Concurrent: 2})
		c := new(atOnce)
		attempts := new(atomic.Int64)
		h := func(_ context.Context, job executor.Job[string]) error {
			attempts.Add(int64(job.Attempt))
			c.run(job.Payload, time.Second)
			return nil
		}
		cfg := executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Limits: byPayload(l)}}
		a, err := executor.Handle(x, "a", h, cfg)
		require.NoError(t, err)
		b, err := executor.Handle(x, "b", h, cfg)
		require.NoError(t, err)
		var free atomic.Int64
		other := handle(t, x, "free", func(context.Context, executor.Merged[string]) error { free.Add(1); return nil }, executor.QueueConfig[string]{})
		start(t, x)
		for i := range 20 {
			enqueue(t, a, fmt.Sprint(i), "acme")
			enqueue(t, b, fmt.Sprint(i), "acme")
		}
		enqueue(t, a, "x", "small")
		enqueue(t, other, "free", "")
		time.Sleep(5 * time.Millisecond) // a run with several jobs is taken apart after one
		synctest.Wait()
		c.mu.Lock()
		assert.Equal(t, map[string]int{"acme": 2, "small": 1}, c.most)
		c.mu.Unlock()
		assert.EqualValues(t, 1, free.Load())
		s, err := x.Stats(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 3, s.Busy)
		figures := shown(x, l)
		assert.Equal(t, []string{"acme", "small"}, []string{figures.Keys[0].Key, figures.Keys[1].Key})
		figures.Keys = nil
		assert.Equal(t, inspect.LimitStats{Limit: "customer", Config: inspect.LimitSetting{Concurrent: 2}, InUse: 2, Running: 3, Waiting: 38}, figures)
		told := make(map[string]int)
		for i := range 20 {
			for _, queue := range []string{"a", "b"} {
				_, state, _ := strings.Cut(explain(t, x, queue, fmt.Sprint(i)).String(), " is ")
				told[state]++
			}
		}
		assert.Equal(t, map[string]int{"running": 2, "limited; limit customer, key acme, 2 of 2 running, 38 waiting": 38}, told)
		time.Sleep(20*time.Second - 1)
		synctest.Wait()
		assert.EqualValues(t, 41, attempts.Load())
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, 2, c.most["acme"])
		assert.Zero(t, stats(t, a).Jobs+stats(t, b).Jobs, "no second is lost between two jobs")
		assert.Zero(t, shown(x, l).InUse, "idle keys are forgotten")
	})
}

// So many of a key start in a second, through all of the executor: in no window are
// there more, and no more than 1 % less while work waits.
func TestLimitRatePerKey(t *testing.T) {
	keys, span := 5, 3
	if long() {
		keys, span = 1000, 60
	}
	const rate = 100
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 8})
		l := newLimit(t, x, "host", executor.LimitConfig{Rate: rate})
		var mu sync.Mutex
		starts := map[string][]time.Time{}
		q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
			mu.Lock()
			defer mu.Unlock()
			starts[job.Payload] = append(starts[job.Payload], time.Now())
			return nil
		}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Limits: byPayload(l)}})
		require.NoError(t, err)
		for i := range rate * span {
			items := make([]executor.Item[string], keys)
			for k := range keys {
				items[k] = executor.Item[string]{ID: fmt.Sprint(k, "/", i), Payload: fmt.Sprint("key ", k)}
			}
			_, err := q.EnqueueMany(t.Context(), items)
			require.NoError(t, err)
		}
		start(t, x)
		time.Sleep(time.Duration(span) * time.Second)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, starts, keys)
		for key, at := range starts {
			assert.GreaterOrEqual(t, len(at), rate*span*99/100, key)
			for i := rate; i < len(at); i++ {
				require.GreaterOrEqual(t, at[i].Sub(at[i-rate]), time.Second, key)
			}
		}
	})
}

// A handler that was told 429 stops its key and no other. What runs into the pause
// parks, says until when, and spends nothing.
func TestThrottled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 4})
		l := newLimit(t, x, "stripe", executor.LimitConfig{})
		other := newLimit(t, x, "other", executor.LimitConfig{})
		var mu sync.Mutex
		var log []string
		told := map[string]int{}
		began := time.Now()
		q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
			mu.Lock()
			defer mu.Unlock()
			log = append(log, fmt.Sprintf("%s %v #%d", job.ID, time.Since(began), job.Attempt))
			if told[job.ID]++; told[job.ID] == 1 && strings.HasPrefix(job.ID, "bad") {
				return fmt.Errorf("wrapped: %w", executor.Throttled(30*time.Second, errBoom, l))
			}
			return nil
		}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Limits: byPayload(l, other)}, MaxRetries: -1})
		require.NoError(t, err)
		start(t, x)
		enqueue(t, q, "bad", "acme")
		synctest.Wait()
		enqueue(t, q, "behind", "acme")
		enqueue(t, q, "free", "small")
		synctest.Wait()
		e := explain(t, x, "q", "behind")
		require.NotNil(t, e.Limit)
		assert.Equal(t, inspect.JobLimited, e.State)
		assert.True(t, e.Limit.Until.Equal(began.Add(30*time.Second)), e)
		assert.True(t, e.Limit.Paused.Equal(e.Limit.Until))
		assert.Contains(t, e.String(), "limit stripe, key acme, until "+e.Limit.Until.Format(time.RFC3339))
		assert.Equal(t, 1, shown(x, l, "acme").Keys[0].Waiting)
		assert.True(t, shown(x, other, "acme").Keys[0].Paused.IsZero(), "the other limit was not named")
		time.Sleep(30*time.Second + time.Millisecond)
		synctest.Wait()
		assert.ElementsMatch(t, []string{"bad 0s #1", "free 0s #1", "bad 30s #1", "behind 30s #1"}, log)
		assert.Zero(t, stats(t, q).Failed+stats(t, q).Buried)
		e = explain(t, x, "q", "behind")
		assert.Equal(t, inspect.JobUnknown, e.State)
	})
}

// Throttled is told apart as the other outcomes are, in all shapes of handlers.
func TestThrottledInAllShapes(t *testing.T) {
	err := executor.Throttled(-time.Hour, errBoom)
	throttled, ok := errors.AsType[*executor.WishError](fmt.Errorf("wrapped: %w", err))
	require.True(t, ok)
	require.Zero(t, throttled.After)
	require.ErrorIs(t, err, errBoom)
	require.Equal(t, "throttled for 0s: no reason given", executor.Throttled(0, nil).Error())
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 2})
		l := newLimit(t, x, "l", executor.LimitConfig{})
		var batches, single, without atomic.Int64
		merged := handle(t, x, "merged", func(_ context.Context, job executor.Merged[string]) error {
			if single.Add(1) > 1 {
				return nil
			}
			return executor.PayloadErrors{job.Payloads[1].Position: executor.Throttled(time.Minute, nil)}
		}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Limits: byPayload(l)}})
		batch, err := executor.HandleBatch(x, "batch", func(_ context.Context, jobs []executor.Merged[string]) error {
			if batches.Add(1) > 1 {
				return nil
			}
			return executor.Throttled(time.Minute, nil)
		}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Limits: byPayload(l)}, BatchSize: 10, Share: executor.Share{Shards: 1}})
		require.NoError(t, err)
		plain := handle(t, x, "plain", func(_ context.Context, job executor.Merged[string]) error {
			if without.Add(1) > 1 {
				return nil
			}
			return executor.Throttled(time.Minute, nil)
		}, executor.QueueConfig[string]{})
		enqueue(t, merged, "id", "m1")
		enqueue(t, merged, "id", "m2")
		for i := range 4 {
			enqueue(t, batch, fmt.Sprint(i), fmt.Sprint("b", i%2))
		}
		enqueue(t, plain, "id", "")
		start(t, x)
		synctest.Wait()
		assert.EqualValues(t, 1, batches.Load(), "a batch that is throttled is not halved")
		for _, key := range []string{"m1", "m2", "b0", "b1"} {
			assert.False(t, shown(x, l, key).Keys[0].Paused.IsZero(), key)
		}
		assert.EqualValues(t, 1, stats(t, merged).Done, "the other payload is done")
		time.Sleep(time.Minute + time.Second)
		for _, q := range []*executor.Queue[string]{merged, batch, plain} {
			assert.Zero(t, stats(t, q).Jobs, q.Name())
			assert.Zero(t, stats(t, q).Failed, q.Name())
		}
		assert.EqualValues(t, 2, without.Load())
	})
}

// A flood of one queue holds up no other at a limit that they share: they take turns.
func TestLimitSharedByQueues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 4})
		l := newLimit(t, x, "api", executor.LimitConfig{Rate: 10})
		var flooded, calm atomic.Int64
		cfg := executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Limits: []executor.LimitOf[string]{{Limit: l}}}}
		flood := handle(t, x, "flood", func(context.Context, executor.Merged[string]) error { flooded.Add(1); return nil }, cfg)
		q := handle(t, x, "calm", func(context.Context, executor.Merged[string]) error { calm.Add(1); return nil }, cfg)
		start(t, x)
		for i := range 1000 {
			enqueue(t, flood, fmt.Sprint(i), "")
		}
		time.Sleep(time.Second)
		for i := range 20 {
			enqueue(t, q, fmt.Sprint(i), "")
		}
		time.Sleep(2 * time.Second)
		assert.InDelta(t, 10, calm.Load(), 1)
		assert.InDelta(t, 20, flooded.Load(), 1)
	})
}

// A limit is changed while jobs run and wait: as a whole, for one key, and by a
// pause.
func TestLimitChangesWhileJobsWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 16})
		l := newLimit(t, x, "l", executor.LimitConfig{Concurrent: 1})
		c := new(atOnce)
		q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
			c.run(job.Latest(), time.Second)
			return nil
		}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Limits: byPayload(l)}})
		start(t, x)
		for i := range 100 {
			enqueue(t, q, fmt.Sprint("a", i), "a")
			enqueue(t, q, fmt.Sprint("b", i), "b")
		}
		running := func(a, b int) {
			t.Helper()
			time.Sleep(5 * time.Millisecond) // a run with several jobs is taken apart after one
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			require.Equal(t, []int{a, b}, []int{c.now["a"], c.now["b"]})
		}
		running(1, 1)
		require.NoError(t, l.Set(executor.LimitConfig{Concurrent: 3}))
		running(3, 3)
		require.NoError(t, l.Pause("a", time.Minute))
		time.Sleep(time.Second)
		running(0, 3)
		require.NoError(t, l.Pause("a", 0))
		running(3, 3)
		require.Equal(t, []string{"b", "a"}, []string{shown(x, l).Keys[1].Key, shown(x, l).Keys[0].Key})
		require.NoError(t, l.Set(executor.LimitConfig{Rate: 1, Per: time.Hour}))
		running(4, 4) // one more of each: that is the rate
		time.Sleep(24 * time.Hour)
		running(0, 0)
	})
}

// What makes no sense is refused, with the value, and changes nothing.
func TestLimitsThatMakeNoSense(t *testing.T) {
	x := open(t, "", executor.Config{})
	l := newLimit(t, x, "l", executor.LimitConfig{Concurrent: 1})
	for _, c := range []executor.LimitConfig{
		{Concurrent: -1}, {Concurrent: math.MaxInt}, {Rate: -1}, {Rate: math.MaxInt}, {Rate: 1, Burst: -2}, {Rate: 1, Per: -time.Second},
		{Per: time.Second}, {Burst: 2}, {Rate: 2_000_000}, {Rate: 1, Per: math.MaxInt64}, {Rate: 1, Burst: math.MaxInt},
	} {
		_, err := executor.NewLimit(x, "bad", c)
		require.ErrorIs(t, err, executor.ErrConfig, "%+v", c)
		require.ErrorIs(t, l.Set(c), executor.ErrConfig)
	}
	require.Equal(t, 1, shown(x, l).Config.Concurrent)
	require.ErrorIs(t, l.Pause("k", math.MaxInt64), executor.ErrConfig)
	require.ErrorIs(t, l.Pause(strings.Repeat("k", 513), 1), executor.ErrInvalidKey)
	_, err := executor.NewLimit(x, "l", executor.LimitConfig{})
	require.ErrorIs(t, err, executor.ErrConfig, "it exists")
	_, err = executor.NewLimit(x, "", executor.LimitConfig{})
	require.ErrorIs(t, err, executor.ErrInvalidKey)
	_, err = executor.NewLimit(nil, "x", executor.LimitConfig{})
	require.ErrorIs(t, err, executor.ErrConfig)
	require.Len(t, x.Inspect().Limits(), 1)
	none := new(executor.Limit)
	require.ErrorIs(t, none.Set(executor.LimitConfig{}), executor.ErrState)
	require.ErrorIs(t, none.Pause("k", 1), executor.ErrState)
	foreign := newLimit(t, open(t, "", executor.Config{}), "l", executor.LimitConfig{})
	for _, l := range []*executor.Limit{nil, none, foreign} {
		_, err = executor.Handle(x, "q", func(context.Context, executor.Job[string]) error { return nil },
			executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Limits: []executor.LimitOf[string]{{Limit: l}}}})
		require.ErrorIs(t, err, executor.ErrConfig)
	}
	stop(t, x)
	_, err = executor.NewLimit(x, "late", executor.LimitConfig{})
	require.ErrorIs(t, err, executor.ErrClosed)
	require.NoError(t, l.Set(executor.LimitConfig{}))
}

// A key function is the program's: what it does is heard by the caller of Enqueue.
func TestLimitKeysThatAreNone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		l := newLimit(t, x, "l", executor.LimitConfig{Concurrent: 1})
		runs := 0
		q, err := executor.Handle(x, "q", func(context.Context, executor.Job[string]) error { runs++; return nil }, executor.QueueConfig[string]{
			MaxRetries: 1, RetryIn: always(0),
			Conditions: executor.Conditions[string]{
				Limits: []executor.LimitOf[string]{{Limit: l, Key: func(_, payload string) string {
					switch payload {
					case "panic":
						panic(payload)
					case "long":
						return strings.Repeat("x", 513)
					case "":
						return ""
					}
					return "k"
				}}},
			},
		})
		require.NoError(t, err)
		for _, payload := range []string{"panic", "long", ""} {
			_, err := q.Enqueue(t.Context(), "id", payload)
			require.ErrorIs(t, err, executor.ErrInvalidKey, payload)
		}
		start(t, x)
		_, err = enqueueRaw(t.Context(), x, "q", "raw", []byte("no json"))
		require.NoError(t, err, "the morgue says so")
		enqueue(t, q, "id", "good")
		synctest.Wait()
		require.Equal(t, 1, runs)
		require.EqualValues(t, 1, stats(t, q).Buried)
		require.Zero(t, shown(x, l).InUse)
	})
}

// A limit without a key decodes nothing; a job of several payloads needs the keys of
// all; each id of a batch is a job.
func TestLimitsAndShapes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 8})
		decodes := 0
		h := &hooks{encode: says[error](nil, nil), decode: func(string) error { decodes++; return nil }}
		l := newLimit(t, x, "l", executor.LimitConfig{Concurrent: 2})
		q := handle(t, x, "plain", func(context.Context, executor.Merged[string]) error { return nil },
			executor.QueueConfig[string]{Codec: h, Conditions: executor.Conditions[string]{Limits: []executor.LimitOf[string]{{Limit: l}}}})
		enqueue(t, q, "id", "x")
		start(t, x)
		synctest.Wait()
		require.Equal(t, 1, decodes)

		release := make(chan struct{})
		merged := handle(t, x, "merged", func(context.Context, executor.Merged[string]) error { <-release; return nil },
			executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Limits: byPayload(l)}})
		_, err := merged.EnqueueMany(t.Context(), []executor.Item[string]{{ID: "id", Payload: "a"}, {ID: "id", Payload: "b"}, {ID: "id", Payload: "a"}})
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, 1, shown(x, l, "a").Keys[0].Running)
		assert.Equal(t, 1, shown(x, l, "b").Keys[0].Running)

		var sizes []int
		batch, err := executor.HandleBatch(x, "batch", func(_ context.Context, jobs []executor.Merged[string]) error {
			sizes = append(sizes, len(jobs))
			time.Sleep(time.Second)
			return nil
		}, executor.QueueConfig[string]{BatchSize: 10, Share: executor.Share{Shards: 1}, MaxConcurrent: 1, Conditions: executor.Conditions[string]{Limits: byPayload(l)}})
		require.NoError(t, err)
		items := make([]executor.Item[string], 5)
		for i := range items {
			items[i] = executor.Item[string]{ID: fmt.Sprint(i), Payload: "c"}
		}
		_, err = batch.EnqueueMany(t.Context(), items)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		synctest.Wait()
		all := 0
		for _, size := range sizes {
			assert.LessOrEqual(t, size, 2)
			all += size
		}
		assert.Equal(t, 5, all)
		close(release)
		synctest.Wait()
	})
}

// A job that waits for a lock holds nothing of a limit, and one that waits for a
// limit holds no lock.
func TestLimitsAndLocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 8})
		l := newLimit(t, x, "l", executor.LimitConfig{Concurrent: 1, Rate: 1, Per: time.Minute, Burst: 2})
		time.Sleep(time.Hour) // the burst is saved up
		c := new(atOnce)
		h := func(_ context.Context, job executor.Merged[string]) error { c.run(job.Queue, time.Second); return nil }
		limits := []executor.LimitOf[string]{{Limit: l}}
		blocked := handle(t, x, "blocked", h, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{
			Limits: limits,
			Locks:  executor.Locks[string]{BlockedBy: func(string, string) []string { return []string{"key"} }},
		}})
		unique := executor.Unique[string]{Key: func(string, string) string { return "one" }}
		limited := handle(t, x, "limited", h, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Limits: limits, Unique: unique}})
		free := handle(t, x, "free", h, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Unique: unique}})
		require.NoError(t, x.KeyLocks().Lock(t.Context(), "key"))
		start(t, x)
		enqueue(t, blocked, "1", "")
		synctest.Wait()
		require.Equal(t, inspect.JobBlocked, explain(t, x, "blocked", "1").State)
		require.Zero(t, shown(x, l).InUse, "neither a permit nor a token")
		enqueue(t, limited, "1", "")
		time.Sleep(2 * time.Second)
		enqueue(t, limited, "2", "")
		time.Sleep(2 * time.Second)
		enqueue(t, limited, "3", "")
		enqueue(t, free, "1", "")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, inspect.JobLimited, explain(t, x, "limited", "3").State)
		require.Equal(t, 1, c.most["free"], "the lease was free")
		require.NoError(t, x.KeyLocks().Unlock(t.Context(), "key"))
		synctest.Wait()
		require.Equal(t, inspect.JobLimited, explain(t, x, "blocked", "1").State)
		time.Sleep(time.Hour)
		require.Zero(t, stats(t, blocked).Jobs+stats(t, limited).Jobs+stats(t, free).Jobs)
	})
}

// Whatever handlers do, permits come back; what a stop interrupts runs after the next
// start.
func TestLimitsWithAbuse(t *testing.T) {
	bubbles(t, 1, 41, func(t *testing.T, r *rand.Rand) {
		disk := new(journal.Memory)
		handlers := []func() error{
			func() error { return nil }, func() error { return errBoom }, func() error { panic("boom") },
			func() error { runtime.Goexit(); return nil }, func() error { return executor.Snooze(time.Millisecond) },
			func() error { return executor.Throttled(20*time.Millisecond, rude{}) },
			func() error { return executor.Cancel(errBoom) }, func() error { return rude{} }, executor.Discard,
		}
		var last *executor.Executor
		for range 3 {
			x := openOn(t, disk, executor.Config{Workers: 4})
			l := newLimit(t, x, "l", executor.LimitConfig{Concurrent: 2})
			last = x
			c := new(atOnce)
			q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
				c.run(job.Payload, time.Millisecond)
				return handlers[rand.IntN(len(handlers))]()
			}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Limits: byPayload(l, newLimit(t, x, "r", executor.LimitConfig{Rate: 500}))}, MaxRetries: 3, RetryIn: always(time.Millisecond)})
			require.NoError(t, err)
			start(t, x)
			for i := range 60 {
				enqueue(t, q, fmt.Sprint(r.IntN(30)), fmt.Sprint("key ", i%3))
			}
			time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
			if r.IntN(2) == 0 {
				time.Sleep(time.Hour)
				require.Zero(t, stats(t, q).Jobs)
				require.Equal(t, inspect.LimitStats{Limit: "l", Config: inspect.LimitSetting{Concurrent: 2}}, shown(x, l))
			}
			stop(t, x)
			for _, most := range c.most {
				require.LessOrEqual(t, most, 2)
			}
		}
		require.Zero(t, last.Inspect().Limits()[0].Running)
	})
}
