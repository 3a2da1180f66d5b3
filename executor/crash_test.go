//go:build unix

package executor_test

import (
	"bufio"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

const (
	crashDir  = "STRAND_TEST_CRASH_DIR"
	crashJobs = 200
)

// crasher opens the journal and registers a queue in which the job "poison"
// kills the process. It counts the other jobs in files, which survive.
func crasher(t *testing.T, dir string) (*executor.Executor, *executor.Queue[int]) {
	x, err := executor.Open(dir+"/journal", executor.Config{Workers: 4})
	require.NoError(t, err)
	q, err := executor.HandleMerged(x, "jobs", func(_ context.Context, job executor.Merged[int]) error {
		if job.ID == "poison" {
			os.Exit(3)
		}
		return os.WriteFile(dir+"/done-"+job.ID, nil, 0o600)
	}, executor.QueueConfig[int]{Shards: 8})
	require.NoError(t, err)
	return x, q
}

// TestCrashChild is the process that dies; it only works for
// TestJobThatKillsTheProcess.
func TestCrashChild(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		t.Skip("only as a child of TestJobThatKillsTheProcess")
	}
	x, q := crasher(t, dir)
	require.NoError(t, x.Start(t.Context()))
	for {
		s, err := q.Stats(t.Context())
		require.NoError(t, err)
		if s.Jobs == 0 {
			break
		}
	}
	require.NoError(t, x.Stop(t.Context()))
}

// FAULTS A8: the process dies three times, not more; then the job that killed
// it is in the morgue, and every other one has run.
func TestJobThatKillsTheProcess(t *testing.T) {
	dir := t.TempDir()
	x, q := crasher(t, dir)
	for i := range crashJobs {
		id := "job-" + strconv.Itoa(i)
		if i == crashJobs/2 {
			id = "poison"
		}
		_, err := q.Enqueue(t.Context(), id, i)
		require.NoError(t, err)
	}
	require.NoError(t, x.Stop(t.Context()))

	deaths := 0
	for {
		child := exec.Command(os.Args[0], "-test.run=^TestCrashChild$")
		child.Env = append(os.Environ(), crashDir+"="+dir)
		out, err := child.CombinedOutput()
		if err == nil {
			break
		}
		require.Equal(t, 3, child.ProcessState.ExitCode(), "%s", out)
		deaths++
		require.LessOrEqual(t, deaths, 3)
	}
	require.Equal(t, 3, deaths)

	x, q = crasher(t, dir)
	defer x.Stop(t.Context())
	var dead []string
	for d, err := range q.Morgue() {
		require.NoError(t, err)
		dead = append(dead, d.ID)
		require.Contains(t, d.Error, "crashed the process")
	}
	require.Equal(t, []string{"poison"}, dead)
	done, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, done, crashJobs-1+1, "every other job, and the journal")
}

const suspectDir = "STRAND_TEST_SUSPECT_DIR"

// TestSuspectChild runs jobs that do not end, until it is killed.
func TestSuspectChild(t *testing.T) {
	dir := os.Getenv(suspectDir)
	if dir == "" {
		t.Skip("only as a child of TestSuspectsRunOneAtATime")
	}
	x, err := executor.Open(dir, executor.Config{Workers: 6})
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Add(4)
	q := handle(t, x, "jobs", func(_ context.Context, job executor.Merged[int]) error {
		if job.ID == "failed" {
			return errBoom
		}
		running.Done()
		select {}
	}, executor.QueueConfig[int]{Shards: 4, Concurrency: 4, RetryIn: always(time.Hour)})
	for i := range 4 {
		enqueue(t, q, "suspect-"+strconv.Itoa(i), i)
	}
	start(t, x)
	running.Wait()
	enqueue(t, q, "failed", 0)
	for stats(t, q).Retrying == 0 {
	}
	_, _ = os.Stdout.WriteString("all run\n")
	select {}
}

// FAULTS A8: the jobs that were running when the process died run one at a
// time, so that only one of them can be suspected again, and no other job waits
// for them.
func TestSuspectsRunOneAtATime(t *testing.T) {
	dir := t.TempDir() + "/journal"
	child := exec.Command(os.Args[0], "-test.run=^TestSuspectChild$")
	child.Env = append(os.Environ(), suspectDir+"="+dir)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	in := bufio.NewScanner(out)
	for in.Scan() && in.Text() != "all run" {
	}
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()

	var log logs
	x := open(t, dir, executor.Config{Workers: 4, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	var suspects, most atomic.Int32
	others := make(chan struct{}, 8)
	q := handle(t, x, "jobs", func(ctx context.Context, job executor.Merged[int]) error {
		if job.ID == "failed" {
			return nil
		}
		if job.ID[:5] == "other" {
			others <- struct{}{}
			return nil
		}
		most.Store(max(most.Load(), suspects.Add(1)))
		defer suspects.Add(-1)
		for range 2 { // others run beside each suspect
			select {
			case <-others:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	}, executor.QueueConfig[int]{Shards: 4, Concurrency: 4})
	for i := range 8 {
		enqueue(t, q, "other-"+strconv.Itoa(i), i)
	}
	require.Equal(t, 4, strings.Count(log.String(), "was running when the process died"), "%s", log.String())
	n, err := q.RunNow(t.Context(), "failed") // which is none of them: it had ended
	require.NoError(t, err)
	require.Equal(t, 1, n)
	start(t, x)
	s := drained(t, q)
	require.EqualValues(t, 13, s.Done)
	require.EqualValues(t, 1, most.Load(), "suspects at a time")
	stop(t, x)
}
