//go:build unix

package executor_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/lock"
)

// processChild says what the child is to do, and in which journal.
const processChild = "STRAND_TEST_PROCESS"

// TestProcessChild is the program that is treated badly from outside.
func TestProcessChild(t *testing.T) {
	what, dir, ok := strings.Cut(os.Getenv(processChild), " ")
	if !ok {
		t.Skip("only as a child")
	}
	map[string]func(*testing.T, string){"signals": serveUntilSignal, "timers": runTimers, "backlog": fillBacklog, "lease": holdLease, "orderly": endInOrder, "deploy": serveDeploy}[what](t, dir)
}

// process starts a child, by way of a shell command if one is given.
func process(t *testing.T, what, dir, shell string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestProcessChild$")
	if shell != "" {
		child = exec.Command("/bin/sh", "-c", shell+`; exec "$0" "$@"`, os.Args[0], "-test.run=^TestProcessChild$")
	}
	child.Env = append(os.Environ(), processChild+"="+what+" "+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() { _ = child.Process.Kill(); _, _ = io.Copy(io.Discard, out) })
	return child, bufio.NewScanner(out)
}

// hear waits for a line of a child.
func hear(t *testing.T, in *bufio.Scanner, line string) {
	t.Helper()
	for in.Scan() {
		if in.Text() == line {
			return
		}
	}
	require.FailNow(t, "the child did not say", line)
}

// serveUntilSignal is a main as the documentation of Run shows it, with a handler
// that does not end.
func serveUntilSignal(t *testing.T, dir string) {
	ctx, restore := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	x, err := executor.Open(dir, executor.Config{StopTimeout: time.Minute})
	require.NoError(t, err)
	handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
		fmt.Println("running", job.ID)
		if job.ID == "quick" {
			return nil
		}
		select {}
	}, executor.QueueConfig[string]{})
	context.AfterFunc(ctx, func() {
		restore() // from here on a signal does what it always does
		fmt.Println("told")
	})
	require.NoError(t, x.Run(ctx))
	fmt.Println("clean")
}

// The first SIGTERM ends in order, a second one at once, and then nothing is lost.
func TestSignals(t *testing.T) {
	dir := t.TempDir() + "/journal"
	put := func(id string) {
		x := open(t, dir, executor.Config{})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
		enqueue(t, q, id, "x")
		stop(t, x)
	}
	put("quick")
	child, in := process(t, "signals", dir, "")
	hear(t, in, "running quick")
	require.NoError(t, child.Process.Signal(syscall.SIGTERM))
	hear(t, in, "clean")
	require.NoError(t, child.Wait())

	put("job")
	child, in = process(t, "signals", dir, "")
	hear(t, in, "running job")
	require.NoError(t, child.Process.Signal(syscall.SIGTERM))
	hear(t, in, "told")
	require.NoError(t, child.Process.Signal(syscall.SIGTERM))
	exit, ok := errors.AsType[*exec.ExitError](child.Wait())
	require.True(t, ok)
	require.Equal(t, syscall.SIGTERM, exit.Sys().(syscall.WaitStatus).Signal())

	x := open(t, dir, executor.Config{})
	p := &probe{}
	q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{})
	start(t, x)
	drained(t, q)
	require.Equal(t, []string{"job[x]"}, p.log())
	stop(t, x)
}

// endInOrder is the main that the documentation of Run shows. A signal of another kind
// lets its first job end.
func endInOrder(t *testing.T, dir string) {
	finish := make(chan os.Signal, 1)
	signal.Notify(finish, syscall.SIGUSR1)
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	cfg := executor.Config{Workers: 1, StopTimeout: time.Minute}
	x, err := executor.Open(dir, cfg)
	require.NoError(t, err)
	q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
		fmt.Println("begins", job.ID)
		<-finish
		fmt.Println("ends", job.ID)
		return nil
	}, executor.QueueConfig[string]{})
	for i, id := range []string{"first", "second"} {
		enqueue(t, q, id, "", executor.At(time.Unix(int64(i), 0)))
	}
	context.AfterFunc(ctx, func() {
		restore()
		for x.Err() == nil { // Run has heard of it, too
			time.Sleep(time.Millisecond)
		}
		fmt.Println("told")
	})
	require.NoError(t, x.Run(ctx))
	x, err = executor.Open(dir, cfg)
	require.NoError(t, err)
	q = handle(t, x, "q", new(probe).handle, executor.QueueConfig[string]{})
	for _, id := range []string{"first", "second"} {
		waits, err := q.Pending(t.Context(), id)
		require.NoError(t, err)
		fmt.Println("left", id, waits)
	}
	require.NoError(t, x.Stop(t.Context()))
	fmt.Println("clean")
}

// TERM and INT: nothing new begins, and what runs is waited for. The second one ends the
// process at once, whatever runs.
func TestLowkiq_L23_TermAndInt(t *testing.T) {
	for name, sent := range map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			lines := func(in *bufio.Scanner, until string) (all []string) {
				for in.Scan() {
					if all = append(all, in.Text()); in.Text() == until {
						return all
					}
				}
				require.FailNow(t, "the child ended too early", "it has said %q", all)
				return nil
			}
			// What a shell starts with & ignores INT, and so would the child: a signal that is
			// caught is as usual in a child.
			caught := make(chan os.Signal, 1)
			signal.Notify(caught, sent)
			defer signal.Stop(caught)
			child, in := process(t, "orderly", t.TempDir()+"/journal", "")
			lines(in, "begins first")
			require.NoError(t, child.Process.Signal(sent))
			lines(in, "told")
			require.NoError(t, child.Process.Signal(syscall.SIGUSR1))
			require.Equal(t, []string{"ends first", "left first false", "left second true", "clean"}, lines(in, "clean"))
			require.NoError(t, child.Wait())

			child, in = process(t, "orderly", t.TempDir()+"/journal", "")
			lines(in, "begins first")
			require.NoError(t, child.Process.Signal(sent))
			lines(in, "told")
			require.NoError(t, child.Process.Signal(sent))
			exit, ok := errors.AsType[*exec.ExitError](child.Wait())
			require.True(t, ok)
			require.Equal(t, sent, exit.Sys().(syscall.WaitStatus).Signal())
		})
	}
}

const timers = 200

// runTimers runs jobs that are due one after the other.
func runTimers(t *testing.T, dir string) {
	x := open(t, dir, executor.Config{})
	var mu sync.Mutex
	runs := map[string]int{}
	q := handle(t, x, "q", func(_ context.Context, job executor.Merged[int]) error {
		mu.Lock()
		defer mu.Unlock()
		if runs[job.ID]++; job.Payloads[0].Value%2 == 0 && job.Attempt == 1 {
			return executor.RetryAfter(100*time.Millisecond, errBoom)
		}
		return nil
	}, executor.QueueConfig[int]{})
	for i := range timers {
		enqueue(t, q, fmt.Sprint(i), i, executor.In(time.Duration(i)*2*time.Millisecond))
	}
	start(t, x)
	fmt.Println("started")
	s := drained(t, q)
	assert.EqualValues(t, timers, s.Done)
	assert.EqualValues(t, timers/2, s.Failed)
	for id, n := range runs {
		i := 0
		_, _ = fmt.Sscan(id, &i)
		assert.Equal(t, 2-i%2, n, "runs of %s", id)
	}
	stop(t, x)
	fmt.Println("done")
}

// The process is stopped while many timers run out, and goes on. Each job runs as
// often as it should.
func TestProcessIsSuspended(t *testing.T) {
	t.Parallel()
	slow(t)
	child, in := process(t, "timers", t.TempDir()+"/journal", "")
	hear(t, in, "started")
	require.NoError(t, child.Process.Signal(syscall.SIGSTOP))
	time.Sleep(700 * time.Millisecond) // the point: time goes by for all others
	require.NoError(t, child.Process.Signal(syscall.SIGCONT))
	hear(t, in, "done")
	require.NoError(t, child.Wait())
}

const leaseTTL, leaseBeat = 600 * time.Millisecond, 60 * time.Millisecond

// holdLease has a job that holds a lease until it is lost, and one that waits for
// it.
func holdLease(t *testing.T, dir string) {
	x := open(t, dir, executor.Config{})
	var store shared[uint64] // the largest token it saw
	q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
		token := job.Lease().Token()
		if job.ID == "second" {
			assert.Greater(t, token, store.get())
			store.set(token)
			return nil
		}
		if store.get() != 0 {
			assert.Equal(t, 1, job.Attempt, "a lost lease spends no retry")
			return nil
		}
		store.set(token)
		fmt.Println("holds")
		var still time.Duration // the longest that nothing happened
		for last := time.Now(); ctx.Err() == nil; last = time.Now() {
			select {
			case <-ctx.Done():
			case <-time.After(leaseBeat / 6):
			}
			still = max(still, time.Since(last))
		}
		assert.GreaterOrEqual(t, still, leaseTTL-2*leaseBeat, "the heartbeat keeps it while the process runs")
		assert.ErrorIs(t, context.Cause(ctx), lock.ErrLockLost)
		assert.ErrorIs(t, job.Lease().Extend(time.Minute), lock.ErrLockLost)
		assert.ErrorIs(t, job.Lease().Unlock(), lock.ErrLockLost)
		return context.Cause(ctx)
	}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{
		Unique: executor.Unique[string]{
			While: executor.UniqueWhileRunning, TTL: leaseTTL, Heartbeat: leaseBeat,
		},
	}})
	enqueue(t, q, "first", "same")
	start(t, x)
	for store.get() == 0 {
		time.Sleep(time.Millisecond)
	}
	enqueue(t, q, "second", "same")
	assert.EqualValues(t, 2, drained(t, q).Done)
	stop(t, x)
	if !t.Failed() {
		fmt.Println("done")
	}
}

// The process is stopped for longer than its lease lasts. The holder hears that it
// has lost it, and the next one has a larger token.
func TestLeaseOfASuspendedProcess(t *testing.T) {
	t.Parallel()
	slow(t)
	child, in := process(t, "lease", t.TempDir()+"/journal", "")
	hear(t, in, "holds")
	time.Sleep(leaseTTL + leaseBeat) // it would be over
	require.NoError(t, child.Process.Signal(syscall.SIGSTOP))
	time.Sleep(2 * leaseTTL) // the point: the lease runs out
	require.NoError(t, child.Process.Signal(syscall.SIGCONT))
	hear(t, in, "done")
	require.NoError(t, child.Wait())
}

// fillBacklog enqueues until the backlog is full.
func fillBacklog(t *testing.T, dir string) {
	x := open(t, dir, executor.Config{MaxBacklog: executor.BacklogLimit{Bytes: 32 << 20}})
	q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
	items := make([]executor.Item[string], 100)
	payload := strings.Repeat("x", 1000)
	n := 0
	for ; ; n += len(items) {
		for i := range items {
			items[i] = executor.Item[string]{ID: fmt.Sprint(n + i), Payload: payload}
		}
		if _, err := q.EnqueueMany(t.Context(), items); err != nil {
			require.ErrorIs(t, err, executor.ErrFull)
			break
		}
	}
	require.Greater(t, n, 25_000)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	require.Less(t, m.Sys, uint64(192<<20), "memory of a backlog of 32 MiB")
	start(t, x)
	require.EqualValues(t, n, drained(t, q).Done)
	stop(t, x)
	fmt.Println("done")
}

// Little memory and an endless producer. ErrFull comes first.
func TestBacklogInLittleMemory(t *testing.T) {
	slow(t)
	if raceEnabled {
		t.Skip("the race detector needs more address space than there is here")
	}
	t.Setenv("GOMEMLIMIT", "96MiB")
	child, in := process(t, "backlog", t.TempDir()+"/journal", "ulimit -v 2000000")
	hear(t, in, "done")
	require.NoError(t, child.Wait())
}
