//go:build unix

package executor_test

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// A handler that has its thread for itself and waits in the kernel, as one in C
// does, is reported; its id waits, and spare workers do the rest.
func TestHandlersThatBlockTheirThread(t *testing.T) {
	var log logs
	x := open(t, "", executor.Config{
		Workers: 2, Stuck: executor.Stuck{SpareWorkers: 2, After: time.Millisecond}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	var pipe [2]int
	require.NoError(t, syscall.Pipe(pipe[:]))
	defer syscall.Close(pipe[0])
	p := &probe{decide: func(_ context.Context, s seen) error {
		if strings.HasPrefix(s.id, "deaf") && s.values[0] == "a" {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			_, err := syscall.Read(pipe[0], make([]byte, 1)) // until the other end is closed
			return err
		}
		return nil
	}}
	q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 1, Concurrency: 2}, Timeout: time.Millisecond})
	start(t, x)
	enqueue(t, q, "deaf 1", "a")
	enqueue(t, q, "deaf 2", "a")
	for deadline := time.Now().Add(time.Minute); strings.Count(log.String(), "syscall.Read(") < 2; runtime.Gosched() {
		require.True(t, time.Now().Before(deadline), log.String())
	}
	enqueue(t, q, "deaf 1", "b")
	enqueue(t, q, "deaf 1", "c")
	for _, id := range []string{"x", "y", "z"} {
		enqueue(t, q, id, "a")
	}
	for deadline := time.Now().Add(time.Minute); stats(t, q).Done < 3; {
		require.True(t, time.Now().Before(deadline), "the others wait, too")
	}
	require.Empty(t, p.of("deaf 1")[1:])
	require.NoError(t, syscall.Close(pipe[1]))
	drained(t, q)
	require.Equal(t, []string{"a", "b", "c"}, p.of("deaf 1"))
	p.assertNoOverlap(t)
	require.NoError(t, x.Err())
	stop(t, x)
}

// A handler that leaves its goroutine tied to a thread, or ends both, costs one
// thread and no worker.
func TestHandlersThatKeepTheirThread(t *testing.T) {
	x := open(t, "", executor.Config{Workers: 2})
	p := &probe{decide: func(_ context.Context, s seen) error {
		runtime.LockOSThread() // for ever
		if s.retry < 0 {
			runtime.Goexit()
		}
		return nil
	}}
	q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Merge: executor.MergeMinScore, RetryIn: always(0)})
	start(t, x)
	for i := range 100 {
		enqueue(t, q, string(rune('a'+i%20)), "x")
	}
	s := drained(t, q)
	require.Equal(t, uint64(len(p.log())), s.Done+s.Failed)
	require.NotZero(t, s.Failed)
	stop(t, x)
}
