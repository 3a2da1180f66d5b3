package executor_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// lifeEnd is what is left of a process that dies while jobs run: a copy, as a kill
// would leave it.
type lifeEnd struct {
	dir       string
	epoch     uint64
	goroutine string // of the first job
}

// dies runs as many of the jobs in dir as there are workers, and dies; it returns
// what is left, and what the start said.
func dies(t *testing.T, dir string, workers int) (after lifeEnd, said record) {
	var log records
	x := open(t, dir, executor.Config{Workers: workers, Logger: log.logger(0)})
	release, running := make(chan struct{}), make(chan string, workers)
	q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error {
		head := make([]byte, 64)
		running <- strings.Fields(string(head[:runtime.Stack(head, false)]))[1]
		<-release
		return nil
	}, executor.QueueConfig[string]{})
	if s := stats(t, q); s.Jobs == 0 {
		for i := range 4 {
			enqueue(t, q, fmt.Sprint("job ", i), "x")
		}
	}
	start(t, x)
	said = log.take()[0]
	for range min(workers, stats(t, q).Jobs-stats(t, q).Parked) {
		after.goroutine = <-running
	}
	s, err := x.Stats(t.Context())
	require.NoError(t, err)
	after.dir, after.epoch = filepath.Join(t.TempDir(), "journal"), s.Journal.Epoch
	require.NoError(t, os.CopyFS(after.dir, os.DirFS(dir)))
	close(release)
	go func() {
		for range running { // of those that were behind them
		}
	}()
	stop(t, x)
	close(running)
	return after, said
}

// Of those that ran at the death it is said how many run again at once: not of
// those that ran at one before, and also when only one of them is suspected.
func TestRecoveryTellsHowManyRunAgain(t *testing.T) {
	figures := func(said record) string {
		return fmt.Sprint(said.attrs["running_then"], said.attrs["run_again_at_once"], len(said.attrs["suspects"].([]string)))
	}
	first, said := dies(t, filepath.Join(t.TempDir(), "journal"), 4)
	require.Equal(t, false, said.attrs["recovered"])
	named := filepath.Join(t.TempDir(), "named")
	require.NoError(t, os.CopyFS(named, os.DirFS(first.dir)))

	second, said := dies(t, first.dir, 2)
	require.Equal(t, "4 4 0", figures(said))
	require.Equal(t, "it was killed, or a job called os.Exit, or, without Crash.Reports, a goroutine panicked", said.attrs["cause"])
	_, said = dies(t, second.dir, 2)
	require.Equal(t, "2 0 2", figures(said), "both ran twice, and are held")

	report := fmt.Sprintf("strand: epoch %d\npanic: x\n\ngoroutine %s [running]:\nmain.f()\n", first.epoch, first.goroutine)
	require.NoError(t, os.WriteFile(filepath.Join(named, "CRASH"), []byte(report), 0o600))
	_, said = dies(t, named, 1)
	require.Equal(t, "4 4 1", figures(said), "one is named, and all four are free to run")
}
