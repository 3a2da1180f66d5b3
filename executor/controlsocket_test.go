//go:build unix

package executor_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/journal"
)

// listening opens an executor with a socket in a directory whose path is short.
func listening(t *testing.T) (x *executor.Executor, dir string) {
	t.Helper()
	dir = shortDir(t)
	return open(t, dir, executor.Config{ControlSocket: true}), dir
}

func shortDir(t *testing.T) string {
	t.Helper()
	parent, err := os.MkdirTemp("", "c")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(parent) })
	return filepath.Join(parent, "j")
}

// asked calls an executor over its socket.
func asked[A any](t *testing.T, dir, verb string, request any) (A, error) {
	t.Helper()
	c := control.Connect(dir, time.Minute)
	defer c.Close()
	return control.Call[A](t.Context(), c, verb, request)
}

// Without ControlSocket there is nothing; with it there is a socket for the owner alone,
// from Open until Stop.
func TestControlSocket(t *testing.T) {
	dir := shortDir(t)
	x := open(t, dir, executor.Config{})
	require.NoFileExists(t, filepath.Join(dir, "control.sock"))
	stop(t, x)

	x = open(t, dir, executor.Config{ControlSocket: true})
	info, err := os.Lstat(filepath.Join(dir, "control.sock"))
	require.NoError(t, err)
	require.Equal(t, fs.ModeSocket|0o600, info.Mode())
	hello, err := asked[control.Hello](t, dir, control.VerbHello, control.None{})
	require.NoError(t, err)
	require.Equal(t, control.Hello{PID: os.Getpid(), Dir: dir}, hello)
	stop(t, x)
	_, err = asked[control.Hello](t, dir, control.VerbHello, control.None{})
	require.ErrorIs(t, err, control.ErrNobody)
	require.NoFileExists(t, filepath.Join(dir, "control.sock"))
}

// Open says why there can't be a socket, and lets go of the journal.
func TestNoControlSocket(t *testing.T) {
	_, err := executor.Open("", executor.Config{ControlSocket: true})
	require.ErrorIs(t, err, executor.ErrConfig)
	require.ErrorContains(t, err, "ControlSocket is set, and an executor in memory, or over a log of OpenLog, has no directory for it")

	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 20))
	_, err = executor.Open(dir, executor.Config{ControlSocket: true})
	require.ErrorIs(t, err, executor.ErrConfig)
	require.ErrorContains(t, err, "the system takes 103")
	_, err = executor.OpenContext(t.Context(), dir, executor.Config{ControlSocket: true})
	require.ErrorIs(t, err, executor.ErrConfig)
	stop(t, open(t, dir, executor.Config{}))

	dir = shortDir(t)
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "control.sock"), nil, 0o600))
	_, err = executor.Open(dir, executor.Config{ControlSocket: true})
	require.ErrorIs(t, err, executor.ErrConfig)
	require.ErrorContains(t, err, "is no socket")

	dir = shortDir(t)
	letters := filepath.Join(dir, "control.new", "letters")
	require.NoError(t, os.MkdirAll(filepath.Dir(letters), 0o700))
	require.NoError(t, os.WriteFile(letters, nil, 0o600))
	_, err = executor.Open(dir, executor.Config{ControlSocket: true})
	require.ErrorIs(t, err, executor.ErrConfig)
	require.FileExists(t, letters)

	dir = shortDir(t)
	require.NoError(t, os.Mkdir(dir, 0o700))
	other, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "control.sock"), Net: "unixgram"})
	require.NoError(t, err)
	defer other.Close()
	_, err = executor.Open(dir, executor.Config{ControlSocket: true})
	require.NotErrorIs(t, err, executor.ErrConfig)
	require.ErrorIs(t, err, syscall.EPROTOTYPE, "what the system says")
	require.ErrorContains(t, err, "no control socket: it can't be made: whether somebody answers")
}

// An executor that can't be opened is gone: the end of a lock in its journal, in an hour, does not
// keep it in memory.
func TestNoControlSocketKeepsNothing(t *testing.T) {
	dir := shortDir(t)
	x := open(t, dir, executor.Config{})
	locks := executor.Locks[string]{OnEnqueue: words, TTL: time.Hour}
	q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: locks}})
	enqueue(t, q, "a", "key")
	stop(t, x)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "control.sock"), nil, 0o600))
	const n = 10
	gone := make(chan struct{}, n)
	for range n {
		handler := &struct{ slog.Handler }{slog.DiscardHandler}
		runtime.AddCleanup(handler, func(gone chan struct{}) { gone <- struct{}{} }, gone)
		_, err := executor.Open(dir, executor.Config{ControlSocket: true, Logger: slog.New(handler)})
		require.ErrorIs(t, err, executor.ErrConfig)
	}
	for deadline := time.Now().Add(10 * time.Second); len(gone) < n-1; runtime.GC() { // one may be in a pool, or on a stack
		require.True(t, time.Now().Before(deadline), "%d of %d are gone", len(gone), n)
	}
}

// Two executors of a process have a socket each, and an answer is of the one that is asked.
func TestTwoControlSockets(t *testing.T) {
	dirs := make(map[string]string)
	for _, name := range []string{"one", "two"} {
		x, dir := listening(t)
		dirs[name] = dir
		enqueue(t, handle(t, x, name, (&probe{}).handle, executor.QueueConfig[string]{}), name, "payload")
		t.Cleanup(func() { stop(t, x) })
	}
	for name, dir := range dirs {
		page, err := asked[inspect.JobPage](t, dir, control.VerbJobs, inspect.JobQuery{Queue: name, Limit: 10})
		require.NoError(t, err)
		require.Len(t, page.Jobs, 1)
		require.Equal(t, name, page.Jobs[0].ID)
		_, err = asked[inspect.JobPage](t, dir, control.VerbJobs, inspect.JobQuery{Queue: "other", Limit: 10})
		require.ErrorContains(t, err, "unknown queue")
	}
}

// A stop that waits for a handler can be looked at, and is held up by nobody who looks.
func TestStopAndTheControlSocket(t *testing.T) {
	x, dir := listening(t)
	began, release := make(chan struct{}), make(chan struct{})
	q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error {
		close(began)
		<-release
		return nil
	}, executor.QueueConfig[string]{})
	start(t, x)
	enqueue(t, q, "slow", "x")
	<-began
	stopped := make(chan error, 1)
	go func() { stopped <- x.Stop(context.Background()) }()
	require.Eventually(t, func() bool { return x.Err() != nil }, time.Minute, time.Millisecond)
	list, err := asked[inspect.RunningList](t, dir, control.VerbRunning, inspect.RunningQuery{Stacks: true, Limit: 10})
	require.NoError(t, err)
	require.Contains(t, list.Running[0].Stack, "TestStopAndTheControlSocket")
	for _, verb := range []string{control.VerbStatus, control.VerbEvents, ""} {
		conn, err := net.Dial("unix", filepath.Join(dir, "control.sock"))
		require.NoError(t, err)
		defer conn.Close()
		if verb != "" {
			_, err = io.WriteString(conn, "POST /v1/"+verb+" HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
			require.NoError(t, err)
		}
	}
	close(release)
	select {
	case err := <-stopped:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		require.FailNow(t, "clients that do not go hold up a stop")
	}
}

// health and deadRows are what the socket says of the executor and of its morgue.
type health struct {
	inspect.Stats
	Silent string
}

type deadRows struct {
	Dead []struct {
		ID string
		inspect.DeadPayload
	}
	Next uint64
}

// While a shard hears nothing, it is said how the rest is, and what runs.
func TestStatusWithoutShards(t *testing.T) {
	t.Parallel()
	slow(t)
	x, dir := listening(t)
	began, release := make(chan struct{}), make(chan struct{})
	q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error {
		close(began)
		<-release
		return nil
	}, executor.QueueConfig[string]{})
	start(t, x)
	enqueue(t, q, "slow", "x")
	<-began
	require.Eventually(t, func() bool { // workers that look for more have found nothing
		s, err := x.Stats(t.Context())
		return err == nil && s.Busy == 1
	}, time.Minute, time.Millisecond)
	letGo := x.HoldShards("q")
	s, err := asked[health](t, dir, control.VerbStatus, control.None{})
	require.NoError(t, err)
	require.Equal(t, "context deadline exceeded", s.Silent)
	require.Equal(t, []inspect.QueueStats{{Name: "q", Registered: true}}, s.Queues)
	require.Equal(t, [2]int{5, 1}, [2]int{s.Workers, s.Busy})
	list, err := asked[inspect.RunningList](t, dir, control.VerbRunning, inspect.RunningQuery{Queue: "q"})
	require.NoError(t, err)
	require.Equal(t, "slow", list.Running[0].Jobs[0].ID)
	letGo()
	close(release)
	s, err = asked[health](t, dir, control.VerbStatus, control.None{})
	require.NoError(t, err)
	require.Empty(t, s.Silent)
	stop(t, x)
}

// What makes no sense gets an error, and the executor goes on.
func TestHostileControlRequests(t *testing.T) {
	x, dir := listening(t)
	q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
	for i := range 3 {
		enqueue(t, q, fmt.Sprint(i), "x", executor.In(time.Hour))
	}
	start(t, x)
	name, id := "q", []string{"1"}
	for want, call := range map[string]struct {
		verb    string
		request any
	}{
		"the limit is 0":                   {control.VerbJobs, inspect.JobQuery{Queue: name}},
		"the limit is -1":                  {control.VerbJobs, inspect.JobQuery{Queue: name, Limit: -1}},
		"the limit is 10001":               {control.VerbJobs, inspect.JobQuery{Queue: name, Limit: control.MaxRows + 1}},
		"invalid cursor":                   {control.VerbJobs, inspect.JobQuery{Queue: name, Limit: 1, Cursor: strings.Repeat("x", 900_000)}},
		"unknown queue":                    {control.VerbJob, control.One{Queue: "\xff\x00", ID: id[0]}},
		"invalid id":                       {control.VerbJob, control.One{Queue: name, ID: strings.Repeat("x", 600)}},
		"the journal has none":             {control.VerbDead, control.DeadQuery{Queue: "no"}},
		"there is nothing called \"x\"":    {control.VerbAct, admin.Act{Do: "x", Queue: name, All: true}},
		"is missing: which of queue \"q\"": {control.VerbAct, admin.Act{Do: "delete", Queue: name}},
		"it has to be one of all, ids":     {control.VerbAct, admin.Act{Do: "delete", Queue: name, All: true, IDs: id}},
		"positions of queue \"q\"":         {control.VerbAct, admin.Act{Do: "requeue", Queue: name, IDs: id, Positions: []uint64{1}}},
		"positions are for dead payloads":  {control.VerbAct, admin.Act{Do: "delete", Queue: name, Positions: []uint64{1}}},
		"must be absolute":                 {control.VerbCopy, control.Copy{To: "here"}},
		"Limit is -1":                      {control.VerbRunning, inspect.RunningQuery{Limit: -1}},
		"there is no kind of events":       {control.VerbEvents, map[string][]string{"kinds": {"x"}}},
		"which is no Token":                {control.VerbEvents, events.Filter{After: "x"}},
	} {
		_, err := asked[control.None](t, dir, call.verb, call.request)
		require.ErrorContains(t, err, want)
		require.Less(t, len(err.Error()), 600)
	}
	dead, err := asked[deadRows](t, dir, control.VerbDead, control.DeadQuery{Queue: name, From: 1 << 63})
	require.NoError(t, err)
	require.Empty(t, dead.Dead)
	require.Equal(t, 3, stats(t, q).Jobs)
	stop(t, x)
}

// Many look and act at a time while jobs run, and what they are told holds together.
func TestControlWhileJobsRun(t *testing.T) {
	x, dir := listening(t)
	q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
		if strings.HasSuffix(job.ID, "7") {
			return executor.Cancel(errBoom)
		}
		return nil
	}, executor.QueueConfig[string]{})
	start(t, x)
	over := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			default:
				_, _ = q.Enqueue(t.Context(), fmt.Sprint(i%100), "x", executor.In(time.Duration(i%20)*time.Millisecond))
			}
		}
	})
	name := "q"
	for range 4 {
		all.Go(func() {
			c := control.Connect(dir, time.Minute)
			defer c.Close()
			for {
				select {
				case <-over:
					return
				default:
				}
				page, err := control.Call[inspect.JobPage](t.Context(), c, control.VerbJobs, inspect.JobQuery{Queue: name, Limit: 30})
				assert.NoError(t, err)
				for _, job := range page.Jobs {
					_, err := control.Call[inspect.JobInfo](t.Context(), c, control.VerbJob, control.One{Queue: name, ID: job.ID})
					assert.NoError(t, err)
				}
				_, err = control.Call[control.None](t.Context(), c, control.VerbInspect, control.None{})
				assert.NoError(t, err)
				dead, err := control.Call[deadRows](t.Context(), c, control.VerbDead, control.DeadQuery{Queue: name, From: 1})
				assert.NoError(t, err)
				for _, d := range dead.Dead {
					assert.True(t, strings.HasSuffix(d.ID, "7"))
				}
				_, err = control.Call[admin.Affected](t.Context(), c, control.VerbAct, admin.Act{Do: "requeue", Queue: name, All: true})
				assert.NoError(t, err)
			}
		})
	}
	time.Sleep(300 * time.Millisecond) // how long they are at it
	close(over)
	all.Wait()
	stop(t, x)
}

// Pages of the morgue end at a MiB, with nothing left out and nothing twice; a payload that
// is larger is on a page of its own.
func TestPagesOfTheMorgue(t *testing.T) {
	x, dir := listening(t)
	q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { return executor.Cancel(errBoom) }, executor.QueueConfig[string]{})
	start(t, x)
	sizes := []int{10, 700_000, 700_000, 900_000, 1, 1, 100_000}
	for i, size := range sizes {
		enqueue(t, q, fmt.Sprint(i), strings.Repeat("x", size))
	}
	require.Eventually(t, func() bool { return stats(t, q).Dead == len(sizes) }, time.Minute, time.Millisecond)
	require.NoError(t, pauseAll(t.Context(), x)) // when it returns, all that is before it is on disk
	var ids []string
	pages := 0
	for from := uint64(1); from > 0; pages++ {
		page, err := asked[deadRows](t, dir, control.VerbDead, control.DeadQuery{Queue: "q", From: from})
		require.NoError(t, err)
		for _, d := range page.Dead {
			require.Equal(t, sizes[len(ids)]+2, len(d.Raw), "with its quotes")
			ids = append(ids, d.ID)
		}
		from = page.Next
	}
	require.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6"}, ids)
	require.Equal(t, 3, pages)
	stop(t, x)
	require.NoError(t, journal.InUse(dir))
}

// A process that has not begun to run jobs says so: figures of 0 are not all there is.
func TestAProcessThatStartsSaysSo(t *testing.T) {
	x, dir := listening(t)
	health := func() string {
		h, err := asked[control.Health](t, dir, control.VerbStatus, control.None{})
		require.NoError(t, err)
		return h.Trouble
	}
	require.Contains(t, health(), "it is starting")
	handle(t, x, "q", func(context.Context, executor.Merged[int]) error { return nil }, executor.QueueConfig[int]{})
	require.Contains(t, health(), "it is starting")
	start(t, x)
	require.Empty(t, health())
}
