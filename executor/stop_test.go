package executor_test

import (
	"context"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

func TestStopShardOffersItselfMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		release := make(chan struct{})
		var q *executor.Queue[string]
		q = handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
			<-release
			_, err := q.Enqueue(ctx, "c", "x")
			return err
		}, executor.QueueConfig[string]{Share: executor.Share{Shards: 2, Concurrency: 2}})
		start(t, x)
		for _, id := range []string{"a", "b", "d", "e", "f", "g"} {
			enqueue(t, q, id, "1")
		}
		synctest.Wait()
		go func() { time.Sleep(time.Second); close(release) }()
		require.NoError(t, x.Stop(context.Background()))
	})
}

// compacting is a disk whose file is compacted until that is given up.
type compacting struct {
	*journal.Memory
	began chan struct{}
}

func (c compacting) Compact(over <-chan struct{}) (replaced bool, err error) {
	close(c.began)
	<-over
	return false, errBoom
}

// A stop waits for handlers that enqueue, and for queues that are being registered: a compacting that these wait for
// is given up.
func TestStopEndsCompacting(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := compacting{new(journal.Memory), make(chan struct{})}
		x, err := executor.OpenLog("slow", func(c journal.Config) (*journal.Log, error) { return journal.OpenStore(disk, c) },
			executor.Config{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		var q *executor.Queue[string]
		q = handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
			if job.ID == "a" {
				<-disk.began
				_, err := q.Enqueue(ctx, "b", "x")
				assert.NoError(t, err)
			}
			return nil
		}, executor.QueueConfig[string]{})
		start(t, x)
		enqueue(t, q, "a", "x")
		compacted, registered := make(chan error, 1), make(chan error, 1)
		go func() { compacted <- x.Compact(context.Background()) }()
		<-disk.began
		go func() {
			_, err := executor.Handle(x, "new", func(context.Context, executor.Job[string]) error { return nil }, executor.QueueConfig[string]{})
			registered <- err
		}()
		synctest.Wait()
		began := time.Now()
		stop(t, x)
		require.Zero(t, time.Since(began))
		require.ErrorIs(t, <-compacted, errBoom)
		require.NoError(t, <-registered)
	})
}

func TestStopSecondContextCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		release := make(chan struct{})
		q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { <-release; return nil }, executor.QueueConfig[string]{})
		start(t, x)
		enqueue(t, q, "a", "1")
		synctest.Wait()
		go x.Stop(context.Background())
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		err := x.Stop(ctx)
		require.ErrorIs(t, err, executor.ErrStuck)
		require.LessOrEqual(t, time.Since(begin), 1100*time.Millisecond)
		close(release)
	})
}

// A log that blocks, or ends the goroutine, keeps no queue from being registered, no job from running, and no stop from its
// end.
func TestALogHoldsUpNoStartAndNoStop(t *testing.T) {
	for _, message := range []string{"jobs are due in more than 50 years; was the clock wrong? RunNow runs them", "executor starts", "executor stopped"} {
		free := make(chan struct{})
		for does, f := range map[string]func(){"blocks": func() { <-free }, "exits": runtime.Goexit} {
			t.Run(message+" "+does, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					free = make(chan struct{})
					defer func() { close(free) }()
					disk := new(journal.Memory)
					x := openOn(t, disk, executor.Config{})
					enqueue(t, handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{}), "much later", "x", executor.In(100*365*24*time.Hour))
					stop(t, x)
					var asked atomic.Int32
					x = openOn(t, disk, executor.Config{Logger: slog.New(lastWords{slog.DiscardHandler, message, func() { asked.Add(1); f() }})})
					ran := make(chan string, 1)
					q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error { ran <- job.ID; return nil }, executor.QueueConfig[string]{})
					start(t, x)
					enqueue(t, q, "a", "x")
					require.Equal(t, "a", await(t, ran))
					require.NoError(t, within(time.Minute, x.Stop))
					require.EqualValues(t, 1, asked.Load())
				})
			})
		}
	}
}
