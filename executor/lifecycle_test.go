package executor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
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

func expired(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// runQueue opens the journal again and runs what is there for a queue.
func runQueue(t testing.TB, disk *journal.Memory, name string, p *probe) *executor.Executor {
	x := openOn(t, disk, executor.Config{})
	handle(t, x, name, p.handle, executor.QueueConfig[string]{})
	start(t, x)
	synctest.Wait()
	return x
}

// Whatever Enqueue accepted while Stop was called runs once, in this opening of the
// journal or in a later one; what it refused never does.
func TestEnqueueRacesStop(t *testing.T) {
	dir := t.TempDir() + "/journal"
	p := &probe{}
	var results sync.Map
	for round := range 50 {
		x := open(t, dir, executor.Config{})
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{})
		if round%3 > 0 { // the journal of the others fills up
			start(t, x)
		}
		accepted := make(chan struct{}, 100_000)
		var enqueuers sync.WaitGroup
		for e := range 4 {
			enqueuers.Go(func() {
				for i, err := 0, error(nil); err == nil; i++ {
					id := fmt.Sprintf("%d-%d-%d", round, e, i)
					_, err = q.Enqueue(context.Background(), id, "x")
					results.Store(id, err)
					accepted <- struct{}{}
				}
			})
		}
		for range round % 20 {
			<-accepted
		}
		stop(t, x)
		enqueuers.Wait()
	}
	x := open(t, dir, executor.Config{})
	q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{})
	start(t, x)
	drained(t, q)
	runs := make(map[string]int)
	for _, s := range p.seen() {
		runs[s.id]++
	}
	for key, result := range results.Range {
		err, _ := result.(error)
		n := runs[key.(string)]
		require.True(t, err == nil && n == 1 || errors.Is(err, executor.ErrClosed) && n == 0 || errors.Is(err, executor.ErrUnknown) && n <= 1,
			"%s ran %d times after %v", key, n, err)
	}
}

func TestStopTogetherAndAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		release := make(chan struct{})
		q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { <-release; return nil }, executor.QueueConfig[string]{})
		start(t, x)
		enqueue(t, q, "a", "x")
		synctest.Wait()
		errs := make(chan error, 8)
		for range cap(errs) {
			go func() { errs <- x.Stop(context.Background()) }()
		}
		synctest.Wait()
		assert.Empty(t, errs, "a handler runs")
		close(release)
		for range cap(errs) {
			require.NoError(t, <-errs)
		}
		require.NoError(t, x.Stop(expired(t)), "it is over")
		_, err := q.Enqueue(t.Context(), "b", "x")
		require.ErrorIs(t, err, executor.ErrClosed)
	})
}

func TestStopFromAHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
			assert.NoError(t, errors.Join(x.Stop(ctx), x.Stop(ctx)))
			_, err := enqueueRaw(ctx, x, "q", "next", []byte(`"x"`))
			return err
		}, executor.QueueConfig[string]{})
		enqueue(t, q, "a", "x")
		require.NoError(t, x.Run(t.Context()))
		p := &probe{}
		runQueue(t, disk, "q", p)
		assert.Equal(t, []string{"next[x]"}, p.log())
	})
}

// It is one that calls Stop also when its own context has ended: no other handler is hurried.
func TestStopFromAHandlerThatWasCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 2})
		goOn := make(chan struct{})
		q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
			if job.ID == "a" {
				<-ctx.Done()
				assert.NoError(t, x.Stop(ctx))
				return nil
			}
			<-goOn
			assert.NoError(t, ctx.Err())
			return nil
		}, executor.QueueConfig[string]{Share: executor.Share{Shards: 1, Concurrency: 2}})
		start(t, x)
		for _, id := range []string{"a", "b"} {
			enqueue(t, q, id, "x")
			synctest.Wait()
		}
		_, err := x.Inspect().Cancel(t.Context(), inspect.SelectIDs("q", "a"), "enough")
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.ErrorIs(t, x.Err(), executor.ErrClosed)
		close(goOn)
		stop(t, x)
	})
}

func TestStopLeavesAStuckHandlerBehind(t *testing.T) {
	dir := t.TempDir() + "/journal"
	running, release, late := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	logged := make(chan struct{})
	defer close(logged) // who waits for the log does not keep the journal locked either
	x := open(t, dir, executor.Config{Logger: slog.New(lastWords{slog.DiscardHandler, "executor stopped", func() { <-logged }})})
	q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
		close(running)
		<-release
		_, err := enqueueRaw(context.WithoutCancel(ctx), x, "q", "b", []byte(`"x"`))
		late <- err
		return err
	}, executor.QueueConfig[string]{})
	start(t, x)
	enqueue(t, q, "stubborn", "x")
	await(t, running)
	err := x.Stop(expired(t)) // which returns although the handler does not
	require.ErrorIs(t, err, executor.ErrStuck)
	require.ErrorContains(t, err, "q/stubborn")
	_, err = executor.Open(dir, executor.Config{})
	locked, ok := errors.AsType[*journal.LockedError](err)
	require.True(t, ok, "it would run beside itself: %v", err)
	require.Equal(t, os.Getpid(), locked.PID)
	close(release)
	require.ErrorIs(t, await(t, late), executor.ErrClosed)
	ran := make(chan int, 1)
	again := openAtLast(t, dir)
	h := func(_ context.Context, job executor.Merged[string]) error { ran <- (job.Attempt - 2); return nil }
	handle(t, again, "q", h, executor.QueueConfig[string]{})
	start(t, again)
	require.Equal(t, -1, await(t, ran), "no retry is spent")
	stop(t, again)
}

// A hook for a job that was refused, which Stop has left behind, returns to a crash recorder that is there yet.
func TestStopLeavesAHookBehind(t *testing.T) {
	dir := t.TempDir() + "/journal"
	called, release := make(chan struct{}), make(chan struct{})
	var log records
	x := open(t, dir, executor.Config{Logger: log.logger(slog.LevelError)})
	require.NoError(t, x.KeyLocks().Lock(t.Context(), "k"))
	q := handle(t, x, "q", new(probe).handle, executor.QueueConfig[string]{
		MaxRetries:  -1,
		DeadLetters: executor.DeadLetters[string]{RetriesExhausted: func(context.Context, []executor.Merged[string]) { close(called); <-release }},
		Conditions:  executor.Conditions[string]{Locks: executor.Locks[string]{BlockedBy: keys("k"), WhenBlocked: lock.Decision{Fail: lock.ErrLocked}}},
	})
	start(t, x)
	enqueue(t, q, "a", "x")
	await(t, called)
	require.ErrorIs(t, x.Stop(expired(t)), executor.ErrStuck)
	close(release)
	stop(t, openAtLast(t, dir))
	time.Sleep(10 * time.Millisecond) // it is told by another goroutine
	require.Empty(t, log.take())
}

// openAtLast opens a journal once the handlers that a Stop left behind have
// returned.
func openAtLast(t testing.TB, dir string) *executor.Executor {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	x, err := executor.OpenContext(ctx, dir, executor.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	stopAtEnd(t, x)
	return x
}

func TestStopSpendsNoRetry(t *testing.T) {
	ends := map[string]func(context.Context) error{
		"its error": context.Context.Err,
		"the cause": context.Cause,
		"another":   func(context.Context) error { return errors.New("interrupted") },
		"RetryIn":   func(context.Context) error { return executor.RetryAfter(time.Hour, errBoom) },
		"Snooze":    func(context.Context) error { return executor.Snooze(0) },
		"panic":     func(context.Context) error { panic("interrupted") },
		"exit":      func(context.Context) error { runtime.Goexit(); return nil },
	}
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		cfg := executor.QueueConfig[string]{Share: executor.Share{Shards: 1, Concurrency: len(ends)}, RetryIn: always(0)}
		x := openOn(t, disk, executor.Config{Workers: len(ends)})
		q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
			if job.Attempt == 1 {
				return errBoom
			}
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), executor.ErrStopping)
			return ends[job.ID](ctx)
		}, cfg)
		start(t, x)
		for id := range ends {
			enqueue(t, q, id, "x")
		}
		synctest.Wait()
		require.NoError(t, x.Stop(expired(t)))
		p := &probe{}
		runQueue(t, disk, "q", p)
		require.Len(t, p.seen(), len(ends))
		for _, s := range p.seen() {
			assert.True(t, s.retry == 0 && s.last == "boom", "%+v", s)
		}
	})
}

// An error of OnStart is one, whatever it wraps: Run stops what it does not start.
func TestRunStopsWhenOnStartFails(t *testing.T) {
	dir := t.TempDir() + "/journal"
	x := open(t, dir, executor.Config{OnStart: func(context.Context) error { return fmt.Errorf("too early: %w", executor.ErrState) }})
	require.ErrorIs(t, x.Run(t.Context()), executor.ErrState)
	stop(t, open(t, dir, executor.Config{}))
}

// What is kept of a queue that is not registered is counted in payloads, whatever the
// journal has about their jobs.
func TestUnclaimedAreCountedInPayloads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		q := handle(t, x, "a", func(context.Context, executor.Merged[string]) error { return errors.New("boom") },
			executor.QueueConfig[string]{RetryIn: func(int) time.Duration { return time.Hour }})
		start(t, x)
		for i := range 10 {
			enqueue(t, q, fmt.Sprint(i%7), "x")
		}
		synctest.Wait()
		stop(t, x)
		x = openOn(t, disk, executor.Config{})
		s, err := x.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, []inspect.QueueStats{{Name: "a", Unclaimed: 10}}, s.Queues)
		stop(t, x)
	})
}

func TestUnregisteredQueueIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		p := &probe{}
		x := openOn(t, disk, executor.Config{})
		for _, name := range []string{"a", "b"} {
			q := handle(t, x, name, p.handle, executor.QueueConfig[string]{})
			for i := range 10 {
				enqueue(t, q, fmt.Sprint(name, i), "x")
			}
		}
		stop(t, x)
		for range 3 {
			x = runQueue(t, disk, "b", p)
			require.Len(t, p.seen(), 10, "those of b")
			s, err := x.Stats(t.Context())
			require.NoError(t, err)
			assert.Equal(t, inspect.QueueStats{Name: "a", Unclaimed: 10}, s.Queues[0])
			stop(t, x)
		}
		runQueue(t, disk, "a", p)
		assert.Len(t, p.seen(), 20)
	})
}

// Once Err says that the executor stops no job begins, also while a queue is being registered, which
// Stop waits for.
func TestNothingBeginsWhileItStops(t *testing.T) {
	disk := new(journal.Memory)
	picks := new(counting)
	x := openOn(t, disk, executor.Config{Workers: 1, Scheduler: picks})
	began, goOn := make(chan string, 2), make(chan struct{})
	q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
		began <- job.ID
		<-goOn
		return nil
	}, executor.QueueConfig[string]{})
	enqueue(t, q, "first", "x")
	enqueue(t, q, "second", "x")
	start(t, x)
	<-began
	committing, written, late := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	disk.BeforeCommit(sync.OnceFunc(func() {
		close(committing)
		<-written
	}))
	go func() {
		_, err := executor.Handle(x, "late", func(context.Context, executor.Job[string]) error { return nil }, executor.QueueConfig[string]{})
		late <- err
	}()
	<-committing
	stopped := make(chan error, 1)
	go func() { stopped <- x.Stop(context.Background()) }()
	require.Eventually(t, func() bool { return errors.Is(x.Err(), executor.ErrClosed) }, time.Minute, time.Millisecond)
	close(goOn)
	require.Eventually(t, func() bool {
		list, err := x.Inspect().Running(t.Context(), inspect.RunningQuery{})
		return err == nil && len(list.Running) == 0
	}, time.Minute, time.Millisecond)
	asked := picks.n.Load() // each look at a shard may be an offer
	time.Sleep(20 * time.Millisecond)
	require.Less(t, picks.n.Load()-asked, int64(10), "the worker is idle")
	close(written)
	require.NoError(t, <-late)
	require.NoError(t, <-stopped)
	require.Empty(t, began)
}

// counting is a scheduler that counts how often it is asked.
type counting struct{ n atomic.Int64 }

func (c *counting) Pick([]executor.Candidate) int { c.n.Add(1); return 0 }

// The contexts of handlers end when Stop has no time left, also while a queue is being registered.
func TestStopHurriesWhileAQueueIsRegistered(t *testing.T) {
	disk := new(journal.Memory)
	x := openOn(t, disk, executor.Config{})
	began, ended := make(chan struct{}), make(chan error, 1)
	q := handle(t, x, "q", func(ctx context.Context, _ executor.Merged[string]) error {
		close(began)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return ctx.Err()
	}, executor.QueueConfig[string]{})
	start(t, x)
	enqueue(t, q, "a", "x")
	await(t, began)
	committing, written := make(chan struct{}), make(chan struct{})
	disk.BeforeCommit(sync.OnceFunc(func() {
		close(committing)
		<-written
	}))
	defer close(written)
	go executor.Handle(x, "late", func(context.Context, executor.Job[string]) error { return nil }, executor.QueueConfig[string]{})
	await(t, committing)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	go x.Stop(ctx)
	select {
	case err := <-ended:
		require.ErrorIs(t, err, executor.ErrStopping)
	case <-time.After(5 * time.Second):
		require.Fail(t, "the handler runs on")
	}
}

// 10,000 calls that meet a Stop. What was accepted is in the journal or has run,
// what was refused never does.
func TestEnqueueMeetsStop(t *testing.T) {
	const callers = 40
	rounds := sampled(250)
	disk := new(journal.Memory)
	p := &probe{}
	accepted := make([]atomic.Bool, rounds*callers)
	met := 0
	for round := range rounds {
		x, err := executor.OpenOn(disk, executor.Config{Workers: 1})
		require.NoError(t, err)
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}})
		if round%2 > 0 {
			start(t, x)
		}
		var all sync.WaitGroup
		one := make(chan struct{})
		back := sync.OnceFunc(func() { close(one) })
		for c := range callers {
			all.Go(func() {
				defer back()
				for range (round + c) % 7 { // each meets it at another moment
					runtime.Gosched()
				}
				n := round*callers + c
				_, err := q.Enqueue(context.Background(), fmt.Sprint(n), "x")
				accepted[n].Store(err == nil)
				if err != nil {
					assert.ErrorIs(t, err, executor.ErrClosed)
				}
			})
		}
		all.Go(func() {
			if round%3 == 0 {
				<-one // it begins among the calls, however the machine runs goroutines
			}
			assert.NoError(t, x.Stop(context.Background()))
		})
		all.Wait()
	}
	x := openOn(t, disk, executor.Config{})
	q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{})
	start(t, x)
	drained(t, q)
	ran := make(map[string]int)
	for _, s := range p.seen() {
		ran[s.id]++
	}
	for n := range accepted {
		want := 0
		if accepted[n].Load() {
			want, met = 1, met+1
		}
		require.Equal(t, want, ran[fmt.Sprint(n)], "call %d", n)
	}
	t.Logf("%d of %d accepted", met, len(accepted))
	require.NotZero(t, met)
	stop(t, x)
}

// resources counts what a process holds; files and maps on Linux only.
func resources() (goroutines, files, maps int) {
	fds, _ := os.ReadDir("/proc/self/fd")
	mapped, _ := os.ReadFile("/proc/self/maps")
	return runtime.NumGoroutine(), len(fds), bytes.Count(mapped, []byte(".strand"))
}

// leavesNothing fails unless the process holds what it held before, at last.
func leavesNothing(t *testing.T, f func()) {
	t.Helper()
	goroutines, files, maps := resources()
	f()
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		g, fd, m := resources()
		if g <= goroutines+5 && fd <= files && m <= maps {
			return
		}
		require.True(t, time.Now().Before(deadline), "%d goroutines, %d files, %d maps; before %d, %d, %d", g, fd, m, goroutines, files, maps)
	}
}

func useOnce(t *testing.T, dir string) {
	x, err := executor.Open(dir, executor.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{Timeout: time.Hour})
	start(t, x)
	enqueue(t, q, "a", "x")
	stop(t, x)
}

func TestNothingIsLeftAfterManyTimes(t *testing.T) {
	dir, times := t.TempDir()+"/journal.strand", sampled(200)
	if long() {
		times = 1000
	}
	leavesNothing(t, func() {
		for range times {
			useOnce(t, dir)
		}
	})
}

// TestAHundredExecutorsAtOnce: a third of them under the race detector.
func TestAHundredExecutorsAtOnce(t *testing.T) {
	dir := t.TempDir()
	leavesNothing(t, func() {
		var all sync.WaitGroup
		for i := range sampled(100) {
			all.Go(func() { useOnce(t, fmt.Sprintf("%s/%d.strand", dir, i)) })
		}
		all.Wait()
	})
}

func TestSecondOpenIsRefused(t *testing.T) {
	const lockedDir = "STRAND_TEST_LOCKED_DIR"
	refused := func(dir string, pid int) {
		_, err := executor.Open(dir, executor.Config{})
		locked, ok := errors.AsType[*journal.LockedError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, [2]any{dir, pid}, [2]any{locked.Dir, locked.PID})
	}
	if dir := os.Getenv(lockedDir); dir != "" {
		refused(dir, os.Getppid())
		return
	}
	dir := t.TempDir() + "/journal"
	x := open(t, dir, executor.Config{})
	refused(dir, os.Getpid())
	t.Setenv(lockedDir, dir)
	out, err := exec.Command(os.Args[0], "-test.run=^TestSecondOpenIsRefused$").CombinedOutput()
	require.NoError(t, err, "%s", out)
	stop(t, x)
	stop(t, open(t, dir, executor.Config{}))
}

// A journal that fails while the executor opens fails it like any other.
func TestTheJournalFailsAsItOpens(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fatal := make(chan error, 1)
		cfg := executor.Config{Logger: slog.New(slog.DiscardHandler), OnFatal: func(err error) { fatal <- err }}
		x, err := executor.OpenLog("failing", func(c journal.Config) (*journal.Log, error) {
			disk := new(journal.Memory)
			log, err := journal.OpenMemory(disk, c)
			require.NoError(t, err)
			disk.FailNext(errBoom)
			log.Record(&journal.Change{Sets: []journal.Set{{Key: "test/first", Value: []byte("x")}}})
			require.ErrorIs(t, log.Flush(t.Context()), errBoom)
			synctest.Wait() // what it tells of that is told
			return log, nil
		}, cfg)
		require.NoError(t, err)
		require.ErrorIs(t, <-fatal, errBoom)
		require.ErrorIs(t, x.Err(), executor.ErrFailed)
		require.ErrorIs(t, x.Stop(t.Context()), executor.ErrFailed)
	})
}
