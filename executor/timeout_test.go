package executor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
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
	"github.com/strandjobs/strand/lock"
)

// What a handler returns once its time is over is a failure that spends a retry,
// unless it is done or a wish.
func TestTimeoutOutcomes(t *testing.T) {
	const timeout = time.Minute
	for name, row := range map[string]struct {
		end   func(context.Context) error
		retry int // of the second run; -2: there is none
		last  string
	}{
		"its error":  {context.Context.Err, 0, "executor: handler timed out after 1m0s: context deadline exceeded"},
		"its cause":  {context.Cause, 0, "executor: handler timed out after 1m0s"},
		"another":    {func(context.Context) error { return errBoom }, 0, "executor: handler timed out after 1m0s: boom"},
		"RetryAfter": {func(context.Context) error { return executor.RetryAfter(time.Hour, errBoom) }, 0, "executor: handler timed out after 1m0s: boom"},
		"panic":      {func(context.Context) error { panic("late") }, 0, "panic: late"},
		"exit":       {func(context.Context) error { runtime.Goexit(); return nil }, 0, "executor: handler timed out after 1m0s: " + executor.ErrHandlerExited.Error()},
		"snooze":     {func(context.Context) error { return executor.Snooze(0) }, -1, ""},
		"done":       {func(context.Context) error { return nil }, -2, ""},
		"cancel":     {func(context.Context) error { return executor.Cancel(errBoom) }, -2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{Workers: 1})
				p := &probe{}
				p.decide = func(ctx context.Context, s seen) error {
					if len(p.seen()) > 1 {
						return ctx.Err() // the next run has all its time again
					}
					<-ctx.Done()
					took := time.Since(s.at)
					assert.True(t, timeout <= took && took <= timeout*9/8, "%v", took)
					assert.ErrorIs(t, context.Cause(ctx), executor.ErrTimeout)
					return row.end(ctx)
				}
				q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Timeout: timeout, RetryIn: always(0)})
				start(t, x)
				enqueue(t, q, "a", "x")
				time.Sleep(3 * time.Hour)
				runs := p.seen()
				require.Len(t, runs, map[bool]int{true: 1, false: 2}[row.retry == -2])
				if row.retry > -2 {
					assert.Equal(t, row.retry, runs[1].retry)
					assert.Equal(t, row.last, runs[1].last)
				}
				stop(t, x)
			})
		})
	}
}

// A failure for which the time was over is one, also when Stop came between.
func TestTimeoutBeforeStopSpendsARetry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		failed, release := make(chan error, 1), make(chan struct{})
		q := handle(t, x, "q", func(ctx context.Context, _ executor.Merged[string]) error {
			<-release
			return context.Cause(ctx)
		}, executor.QueueConfig[string]{Timeout: time.Second, DeadLetters: executor.DeadLetters[string]{FormatError: func(err error) string { failed <- err; return err.Error() }}})
		start(t, x)
		enqueue(t, q, "a", "x")
		time.Sleep(2 * time.Second)
		go x.Stop(expired(t))
		synctest.Wait() // its context has ended for the second time
		close(release)
		require.ErrorIs(t, <-failed, executor.ErrTimeout)
		stop(t, x)
	})
}

// What ends the context of a handler before its time is over spends no retry, of none of its batch, though the
// handler returns after it.
func TestTimeoutAfterAnotherEnd(t *testing.T) {
	const timeout, before = 5 * time.Second, 20 * time.Millisecond
	for name, row := range map[string]struct {
		end  func(ctx context.Context, x *executor.Executor) error // nil: a lease is lost
		runs []string
	}{
		"canceled": {func(ctx context.Context, x *executor.Executor) error {
			_, err := x.Inspect().Cancel(ctx, inspect.SelectIDs("q", "a"), "")
			return err
		}, []string{"b 1"}},
		"deleted": {func(ctx context.Context, x *executor.Executor) error {
			_, err := x.Inspect().Delete(ctx, inspect.SelectIDs("q", "a"))
			return err
		}, []string{"b 1"}},
		"a stop":       {func(ctx context.Context, x *executor.Executor) error { return x.Stop(ctx) }, []string{"a 1", "b 1"}},
		"a lost lease": {nil, []string{"a 1", "b 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk := new(journal.Memory)
				calls, runs := 0, []string(nil)
				life := func() (*executor.Executor, *executor.Queue[string]) {
					x := openOn(t, disk, executor.Config{Workers: 1})
					q, err := executor.HandleBatch(x, "q", func(ctx context.Context, jobs []executor.Merged[string]) error {
						if calls++; calls == 1 {
							if row.end == nil {
								executor.StopHeart(jobs[0])
							}
							<-ctx.Done()
							time.Sleep(2 * before)
							return ctx.Err()
						}
						for _, job := range jobs {
							runs = append(runs, fmt.Sprint(job.ID, " ", job.Attempt))
						}
						return nil
					}, executor.QueueConfig[string]{Timeout: timeout, BatchSize: 2, Share: executor.Share{Shards: 1}, RetryIn: always(time.Second), Conditions: executor.Conditions[string]{
						Unique: executor.Unique[string]{Key: func(id, _ string) string { return id }, TTL: timeout - before},
					}})
					require.NoError(t, err)
					return x, q
				}
				x, q := life()
				enqueue(t, q, "a", "x")
				enqueue(t, q, "b", "x")
				start(t, x)
				time.Sleep(timeout - before)
				if row.end != nil {
					ctx := t.Context()
					if name == "a stop" {
						ctx = expired(t)
					}
					require.NoError(t, row.end(ctx, x))
				}
				if name == "a stop" {
					disk = disk.Crash()
					x, _ = life()
					start(t, x)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				require.ElementsMatch(t, row.runs, runs)
				stop(t, x)
			})
		})
	}
}

// Only what a handler did too late has timed out: no job that it did not get, and none whose service took longer.
func TestTimeoutIsOfTheHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		cfg := executor.QueueConfig[string]{Timeout: time.Second, MaxRetries: -1, BatchSize: 2, Share: executor.Share{Shards: 1}}
		cfg.Conditions.Locks = executor.Locks[string]{
			BlockedBy: func(id, _ string) []string { return []string{id} }, WhenBlocked: lock.Decision{Fail: errBoom},
		}
		q, err := executor.HandleBatch(x, "q", func(ctx context.Context, jobs []executor.Merged[string]) error {
			<-ctx.Done()
			return ctx.Err()
		}, cfg)
		require.NoError(t, err)
		slow := handle(t, x, "slow", (&probe{}).handle, executor.QueueConfig[string]{
			Timeout: time.Second, MaxRetries: -1,
			Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{Unlock: words, Service: &brittle{after: time.Minute}}},
		})
		require.NoError(t, x.KeyLocks().Lock(t.Context(), "blocked"))
		enqueue(t, q, "blocked", "x")
		enqueue(t, q, "late", "x")
		enqueue(t, slow, "a", "x")
		start(t, x)
		time.Sleep(time.Hour)
		why := map[string]string{}
		for _, dead := range append(morgue(t, q), morgue(t, slow)...) {
			why[dead.ID] = dead.Error
		}
		require.Equal(t, map[string]string{
			"blocked": "boom", "late": "executor: handler timed out after 1s: context deadline exceeded", "a": `lock service: unlock "x": boom`,
		}, why)
		stop(t, x)
	})
}

// Many short jobs on one worker take longer than the time of one, and none of them
// is taken for another.
func TestTimeoutCountsForEachJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		var ended atomic.Int64
		q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
			select {
			case <-time.After(900 * time.Millisecond):
			case <-ctx.Done():
				ended.Add(1)
			}
			return nil
		}, executor.QueueConfig[string]{Timeout: time.Second, Share: executor.Share{Shards: 1}})
		for i := range 100 {
			enqueue(t, q, fmt.Sprint(i), "x")
		}
		start(t, x)
		time.Sleep(time.Hour)
		assert.EqualValues(t, 100, stats(t, q).Done)
		assert.Zero(t, ended.Load())
		stop(t, x)
	})
}

// logs is where a test reads what was logged.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// deafHandler waits for release and hears nothing else.
func deafHandler(release <-chan struct{}) error {
	<-release
	return errBoom
}

// A handler that goes on is reported with its stack and counted, its id waits, its
// worker and shard too, and nothing else is lost when it ends.
func TestStuckHandlerIsReported(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log logs
		x := open(t, "", executor.Config{Workers: 1, Stuck: executor.Stuck{After: time.Minute}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		release := make(chan struct{})
		p := &probe{}
		p.decide = func(_ context.Context, s seen) error {
			if s.id == "deaf" && s.retry < 0 {
				return deafHandler(release)
			}
			return nil
		}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Timeout: time.Minute, RetryIn: always(0)})
		start(t, x)
		enqueue(t, q, "deaf", "1")
		time.Sleep(110 * time.Second)
		require.NotContains(t, log.String(), "stuck")
		require.NoError(t, x.Err())
		enqueue(t, q, "deaf", "2")
		enqueue(t, q, "b", "x")
		time.Sleep(time.Minute)
		assert.Contains(t, log.String(), "handler is stuck")
		assert.Contains(t, log.String(), "deafHandler(")
		assert.Contains(t, log.String(), "jobs=[q/deaf]")
		assert.NotContains(t, log.String(), "TestStuckHandlerIsReported(", "other goroutines are left out")
		require.ErrorIs(t, x.Err(), executor.ErrStuck)
		s, err := x.Stats(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []int{1, 1, 1}, []int{s.Workers, s.Busy, s.Stuck})
		time.Sleep(time.Hour)
		assert.Equal(t, 1, bytes.Count([]byte(log.String()), []byte("handler is stuck")), "once")
		require.Equal(t, []string{"deaf[1]"}, p.log())
		close(release)
		time.Sleep(time.Minute)
		assert.ElementsMatch(t, []string{"deaf[1]", "deaf[1 2]", "b[x]"}, p.log())
		p.assertNoOverlap(t)
		require.NoError(t, x.Err())
		s, err = x.Stats(t.Context())
		require.NoError(t, err)
		assert.Zero(t, s.Busy+s.Stuck)
		stop(t, x)
	})
}

// With a spare worker only the id of a stuck handler waits; when it has ended, the
// spare one is there for the next.
func TestSpareWorkers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1, Stuck: executor.Stuck{SpareWorkers: 2, After: time.Minute}})
		var release [3]chan struct{}
		for i := range release {
			release[i] = make(chan struct{})
		}
		var ended atomic.Bool
		p := &probe{}
		p.decide = func(_ context.Context, s seen) error {
			if i := len(s.id) - 1; s.id[0] == 'x' && !ended.Load() {
				return deafHandler(release[i])
			}
			return nil
		}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}, Timeout: time.Minute, RetryIn: always(0)})
		start(t, x)
		check := func(workers, stuck int) {
			t.Helper()
			s, err := x.Stats(t.Context())
			require.NoError(t, err)
			require.Equal(t, []int{workers, stuck}, []int{s.Workers, s.Stuck})
		}
		for i, id := range []string{"x", "xx", "xxx"} {
			enqueue(t, q, id, "1")
			time.Sleep(5 * time.Minute)
			enqueue(t, q, id, "2")
			check(min(1+i+1, 3), i+1)
			before := stats(t, q).Done
			enqueue(t, q, fmt.Sprint("other", i), "x")
			time.Sleep(time.Second)
			ran := stats(t, q).Done - before
			require.EqualValues(t, map[bool]uint64{true: 1, false: 0}[i < 2], ran, "%d stuck", i+1)
			if i == 2 {
				require.ErrorIs(t, x.Err(), executor.ErrStuck)
			}
		}
		ended.Store(true)
		for _, c := range release {
			close(c)
		}
		time.Sleep(time.Minute)
		check(1, 0)
		assert.Zero(t, stats(t, q).Jobs)
		for _, id := range []string{"x", "xx", "xxx"} {
			assert.Equal(t, []string{"1", "1", "2"}, p.of(id))
		}
		p.assertNoOverlap(t)
		stop(t, x)
	})
}

// A stuck handler does not hold Stop, which names it, also when a spare worker has
// its place.
func TestStopNamesAHandlerThatWasReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1, Stuck: executor.Stuck{SpareWorkers: 1, After: time.Second}})
		release := make(chan struct{})
		q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { return deafHandler(release) },
			executor.QueueConfig[string]{Timeout: time.Second})
		start(t, x)
		enqueue(t, q, "deaf", "x")
		time.Sleep(time.Minute)
		err := x.Stop(expired(t))
		require.ErrorIs(t, err, executor.ErrStuck)
		require.ErrorContains(t, err, "q/deaf")
		close(release)
	})
}

// Handlers that end just when their time does, on a real clock: no context ends before its
// time, none is that of a run before, each job ends once, and no worker is lost.
func TestTimeoutRacesReturn(t *testing.T) {
	const jobs, timeout = 300, 4 * time.Millisecond
	x := open(t, "", executor.Config{Workers: 8, Stuck: executor.Stuck{SpareWorkers: 4, After: time.Millisecond}})
	p := &probe{}
	var used sync.Map // deadlines of runs that are over
	p.decide = func(ctx context.Context, s seen) error {
		deadline, _ := ctx.Deadline()
		if err := ctx.Err(); err != nil && time.Now().Before(deadline) {
			return executor.Cancel(fmt.Errorf("too early: %w", err))
		}
		if _, again := used.Load(deadline); again {
			return executor.Cancel(errors.New("the context of another run"))
		}
		defer used.Store(deadline, true)
		time.Sleep(timeout + time.Duration(len(s.id)%4-1)*time.Millisecond)
		if s.retry < 0 {
			return ctx.Err()
		}
		return nil
	}
	q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Timeout: timeout, Share: executor.Share{Shards: 8}, RetryIn: always(0)})
	start(t, x)
	for i := range jobs {
		enqueue(t, q, fmt.Sprintf("%0*d", 4+i%4, i), "x")
	}
	s := drained(t, q)
	assert.EqualValues(t, jobs, s.Done, "%+v", s)
	p.assertNoOverlap(t)
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		all, err := x.Stats(t.Context())
		require.NoError(t, err)
		if all.Workers == 8 && all.Busy == 0 && all.Stuck == 0 {
			break
		}
		require.True(t, time.Now().Before(deadline), "%+v", all)
	}
	stop(t, x)
}

// Who waits for a payload hears that the time was over, beside what the handler has said.
func TestTimeoutIsTold(t *testing.T) {
	for _, want := range []error{executor.ErrTimeout, executor.ErrNoHeartbeat} {
		bubble(t, func(t *testing.T) {
			x := open(t, "", executor.Config{})
			cfg := executor.QueueConfig[string]{Timeout: time.Second, MaxRetries: 1}
			if want == executor.ErrNoHeartbeat {
				cfg.Timeout, cfg.HeartbeatTimeout = 0, time.Second
			}
			q := handle(t, x, "q", func(ctx context.Context, _ executor.Merged[string]) error {
				<-ctx.Done()
				return errBoom
			}, cfg)
			start(t, x)
			receipt := enqueue(t, q, "a", "x")
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			var pending *executor.PendingError
			require.ErrorAs(t, q.Wait(ctx, receipt), &pending)
			require.ErrorIs(t, pending.Failure, want)
			require.ErrorIs(t, pending.Failure, errBoom)
			var buried *executor.BuriedError
			require.ErrorAs(t, q.Wait(t.Context(), receipt), &buried)
			require.ErrorIs(t, buried.Err, want)
			require.ErrorIs(t, buried.Err, errBoom)
			stop(t, x)
		})
	}
}
