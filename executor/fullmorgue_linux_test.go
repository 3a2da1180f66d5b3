package executor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

const fullMorgue = "STRAND_TEST_FULL_MORGUE"

// A file has free pages here and there, and bbolt writes a whole leaf of the morgue in one piece when a dead
// letter comes or goes: what dies, and what a person cancels, must not take the pages that results need, on a
// disk that only the journal fills.
func TestTheMorgueOnAFullDisk(t *testing.T) {
	if dir := os.Getenv(fullMorgue); dir != "" {
		for _, size := range []int{300, 600, 4000, 20_000, 60_000} {
			outageAndCancel(t, filepath.Join(dir, fmt.Sprint(size)), size)
		}
		return
	}
	t.Parallel()
	mounting(t, func() *exec.Cmd {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTheMorgueOnAFullDisk$")
		child.Env = append(os.Environ(), fullMorgue+"="+t.TempDir())
		return child
	})
}

func outageAndCancel(t *testing.T, dir string, size int) {
	require.NoError(t, os.Mkdir(dir, 0o700))
	if !smallDisk(dir, "4m") {
		return
	}
	var down atomic.Bool
	again := func() (*executor.Executor, *executor.Queue[string]) {
		x := open(t, filepath.Join(dir, "journal"), executor.Config{Workers: 4})
		q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
			switch {
			case !down.Load():
				return nil
			case job.Position%2 == 0:
				return executor.Cancel(errBoom)
			}
			return errBoom
		}, executor.QueueConfig[string]{MaxRetries: 2, RetryIn: always(100 * time.Millisecond)})
		require.NoError(t, err)
		start(t, x)
		return x, q
	}
	fill := func(q *executor.Queue[string], ids int, options ...executor.Option) {
		for n, refused := 0, 0; refused < 100; n++ {
			if _, err := q.Enqueue(t.Context(), fmt.Sprint(n%ids), strings.Repeat("x", 1+n*7919%size), options...); err != nil {
				require.ErrorIs(t, err, executor.ErrFull)
				refused++
				time.Sleep(time.Millisecond)
			}
		}
	}
	down.Store(true)
	x, q := again()
	fill(q, 50)
	down.Store(false)
	require.Eventually(t, func() bool { return stats(t, q).Payloads == 0 }, time.Minute, 10*time.Millisecond, "%d", size)
	stop(t, x)

	x, q = again()
	require.Zero(t, stats(t, q).Payloads)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	in, all := x.Inspect(), inspect.SelectQueue("q")
	_, err := in.DeleteDead(ctx, all)
	require.NoError(t, err)
	fill(q, 1<<20, executor.In(time.Hour))
	_, err = in.Cancel(ctx, all, "")
	require.True(t, err == nil || errors.Is(err, executor.ErrFull), "%v", err)
	dead := stats(t, q).Dead
	_, err = in.Delete(ctx, all)
	require.NoError(t, err, "%d", size)
	n, err := in.DeleteDead(ctx, all)
	require.NoError(t, err, "%d", size)
	require.Equal(t, dead, n)
	stop(t, x)

	others, err := os.Create(filepath.Join(dir, "others"))
	require.NoError(t, err)
	for err == nil {
		_, err = others.Write(make([]byte, 512))
	}
	require.Error(t, journal.Clone(filepath.Join(dir, "journal"), filepath.Join(dir, "copy")))
	drafts, err := filepath.Glob(filepath.Join(dir, "copy*"))
	require.NoError(t, err)
	require.Empty(t, drafts)
	require.NoError(t, others.Close())
}
