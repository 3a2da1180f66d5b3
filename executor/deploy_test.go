//go:build unix

package executor_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// serveDeploy is a service that is started while its predecessor still runs, and
// has work all the time.
func serveDeploy(t *testing.T, dir string) {
	ctx, stopped := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stopped()
	x, err := executor.OpenContext(ctx, dir, executor.Config{Logger: slog.New(slog.NewTextHandler(os.Stdout, nil))})
	fmt.Println("open", time.Now().UnixNano(), err)
	require.NoError(t, err)
	q, err := executor.Handle(x, "q", func(context.Context, executor.Job[int]) error { return nil }, executor.QueueConfig[int]{})
	require.NoError(t, err)
	require.NoError(t, x.Start(ctx))
	for i := 0; ctx.Err() == nil; i++ {
		if _, err := q.Enqueue(context.Background(), strconv.Itoa(i%100), i); err != nil {
			t.Error(err)
		}
		if i == 0 {
			fmt.Println("busy")
		}
	}
	require.NoError(t, x.Stop(context.Background()))
	fmt.Println("stopped", time.Now().UnixNano())
}

// hearFrom waits for a line that begins with, or contains, some words, and returns
// what follows them.
func hearFrom(t *testing.T, in *bufio.Scanner, words string) string {
	t.Helper()
	for in.Scan() {
		if _, rest, ok := strings.Cut(in.Text(), words); ok {
			return rest
		}
	}
	require.FailNow(t, "the child did not say", words)
	return ""
}

func moment(t *testing.T, text string) time.Time {
	t.Helper()
	var ns int64
	_, err := fmt.Sscan(text, &ns)
	require.NoError(t, err)
	return time.Unix(0, ns)
}

// A new version waits for the old one and goes on with its journal, whether that
// one stops in order or is killed.
func TestRollingDeploy(t *testing.T) {
	slow(t)
	dir := t.TempDir() + "/journal"
	old, oldSays := process(t, "deploy", dir, "")
	hear(t, oldSays, "busy")
	var took []time.Duration
	for version := range 8 {
		next, nextSays := process(t, "deploy", dir, "")
		line := hearFrom(t, nextSays, "waiting for the process that has the journal")
		require.Contains(t, line, fmt.Sprintf(" pid=%d ", old.Process.Pid))
		require.Contains(t, line, " dir="+dir+" ")
		ended := time.Now()
		if version%4 == 3 {
			require.NoError(t, old.Process.Kill())
		} else {
			require.NoError(t, old.Process.Signal(syscall.SIGTERM))
			ended = moment(t, hearFrom(t, oldSays, "stopped "))
		}
		open := hearFrom(t, nextSays, "open ")
		require.True(t, strings.HasSuffix(open, "<nil>"), "%s", open)
		took = append(took, moment(t, open).Sub(ended))
		hear(t, nextSays, "busy")
		_ = old.Wait() // as a signal that kills it says, too
		old, oldSays = next, nextSays
	}
	slices.Sort(took)
	t.Logf("open %v after the other's end, %v at most", took[4], took[7]) // see journal.OpenContext
}

// The journal stays locked until the last handler that Stop has left behind is
// back. A process that waits for it learns whose it is when it gives up.
func TestOpenContextWaitsForStuckHandlers(t *testing.T) {
	dir := t.TempDir() + "/journal"
	running, release := make(chan struct{}), make(chan struct{})
	x := open(t, dir, executor.Config{})
	q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error {
		close(running)
		<-release
		return nil
	}, executor.QueueConfig[string]{})
	start(t, x)
	enqueue(t, q, "stubborn", "x")
	await(t, running)
	require.ErrorIs(t, x.Stop(expired(t)), executor.ErrStuck)

	waits, opened := make(lines, 10), make(chan error, 1)
	var next *executor.Executor
	ctx, cancel := context.WithCancel(t.Context())
	open := func(ctx context.Context) {
		var err error
		next, err = executor.OpenContext(ctx, dir, executor.Config{Logger: slog.New(slog.NewTextHandler(waits, nil))})
		opened <- err
	}
	go open(ctx)
	require.Contains(t, await(t, waits), fmt.Sprintf("pid=%d", os.Getpid()))
	cancel()
	err := await(t, opened)
	require.ErrorIs(t, err, context.Canceled)
	locked, ok := errors.AsType[*journal.LockedError](err)
	require.True(t, ok, "%v", err)
	host, _ := os.Hostname()
	require.Equal(t, [3]any{dir, os.Getpid(), host}, [3]any{locked.Dir, locked.PID, locked.Host})
	require.False(t, locked.Since.IsZero())

	go open(t.Context())
	await(t, waits)
	require.Empty(t, opened)
	close(release)
	require.NoError(t, await(t, opened))
	stop(t, next)
}

// lines collects the lines of a log.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// In memory there is no other process to wait for, and a nil context is refused.
func TestOpenContextInMemory(t *testing.T) {
	var none context.Context
	_, err := executor.OpenContext(none, t.TempDir()+"/journal", executor.Config{})
	require.ErrorIs(t, err, executor.ErrContext)
	x, err := executor.OpenContext(expired(t), "", executor.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	stop(t, x)
}
