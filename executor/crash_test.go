//go:build unix

package executor_test

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"testing"

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
	q, err := executor.Handle(x, "jobs", func(_ context.Context, job executor.Job[int]) error {
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
