package executor_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// copyOf returns a directory with what the journal in dir would leave, if the
// process died now.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	image := filepath.Join(t.TempDir(), "journal")
	require.NoError(t, os.Mkdir(image, 0o700))
	for _, name := range []string{"journal.db", "RUNNING"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(image, name), data, 0o600))
	}
	return image
}

// A suspect is acquitted by the end of its own run, and by nothing else: not by
// another job of its queue, nor by one of the same id in another queue. Until then
// the next one does not run, and a crash counts for the one that ran alone.
func TestSuspectIsAcquittedByItsOwnRun(t *testing.T) {
	first := t.TempDir() + "/journal"
	bubble(t, func(t *testing.T) {
		hang := func(ctx context.Context, s seen) error { <-ctx.Done(); return context.Cause(ctx) }
		live := func(dir string, log *logs, decide func(context.Context, seen) error) (*executor.Executor, *executor.Queue[string], *executor.Queue[string], *probe) {
			x := open(t, dir, executor.Config{Workers: 8, Logger: slog.New(slog.NewTextHandler(log, nil))})
			p := &probe{decide: decide}
			cfg := executor.QueueConfig[string]{Shards: 3, Concurrency: 4, RetryIn: always(time.Hour)}
			jobs, others := handle(t, x, "jobs", p.handle, cfg), handle(t, x, "others", (&probe{}).handle, cfg)
			start(t, x)
			return x, jobs, others, p
		}
		x, jobs, _, p := live(first, new(logs), hang)
		for _, id := range []string{"a", "b", "c"} {
			enqueue(t, jobs, id, "")
		}
		synctest.Wait()
		require.Len(t, p.seen(), 3)
		second := copyOf(t, first)
		stopNow(t, x)

		var log logs
		goOn := make(chan error)
		x, jobs, others, p := live(second, &log, func(_ context.Context, s seen) error {
			if len(s.id) > 1 {
				return nil
			}
			return <-goOn
		})
		synctest.Wait()
		require.Len(t, p.seen(), 1, "one at a time")
		active := ids(p)[0]
		for _, id := range []string{"a", "b", "c"} {
			enqueue(t, others, id, "")
			enqueue(t, jobs, "free "+id, "")
		}
		synctest.Wait()
		require.EqualValues(t, 3, stats(t, others).Done)
		require.EqualValues(t, 3, stats(t, jobs).Done)
		require.Len(t, p.seen(), 4, "the other suspects still wait")
		third := copyOf(t, second)
		goOn <- errBoom // which is an end of its run, too
		synctest.Wait()
		require.Len(t, p.seen(), 5, "now the next one")
		goOn <- nil
		goOn <- nil
		synctest.Wait()
		require.EqualValues(t, 5, stats(t, jobs).Done)
		stop(t, x)

		var again logs
		x, _, _, _ = live(third, &again, nil)
		for _, id := range []string{"a", "b", "c"} {
			crashes := "1"
			if id == active {
				crashes = "2"
			}
			require.Contains(t, again.String(), "queue=jobs id="+id+" crashes="+crashes)
		}
		stop(t, x)
	})
}

// stopNow stops x without waiting for its handlers.
func stopNow(t *testing.T, x *executor.Executor) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = x.Stop(ctx)
	synctest.Wait()
}
