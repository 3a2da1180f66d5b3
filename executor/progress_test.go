package executor_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
)

// What a handler says of its progress is seen as long as it runs: the last thing that
// any of its goroutines said, and nothing of the run before.
func TestProgress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		step := make(chan struct{})
		var left context.Context
		q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
			<-step
			if job.Latest() == "silent" {
				executor.Progress(left, 9, 9, "from the run before")
				<-step
				return nil
			}
			executor.Progress(ctx, 1, 3, "first")
			<-step
			child, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			var g sync.WaitGroup
			g.Go(func() { executor.Progress(child, 2, 3, strings.Repeat("ü", 1000)+"\xff") })
			g.Wait()
			left = child
			<-step
			executor.Heartbeat(ctx)
			<-step
			return nil
		}, executor.QueueConfig[string]{})
		start(t, x)
		next := func() []inspect.ProgressReport {
			step <- struct{}{}
			time.Sleep(time.Second)
			synctest.Wait()
			return x.ProgressOfWorkers()
		}
		enqueue(t, q, "id", "says")
		synctest.Wait()
		require.Empty(t, x.ProgressOfWorkers())
		began := time.Now()
		require.Equal(t, []inspect.ProgressReport{{Done: 1, Total: 3, Message: "first", At: began}}, next())
		r := next()
		require.Equal(t, int64(2), r[0].Done)
		require.True(t, utf8.ValidString(r[0].Message))
		require.Equal(t, strings.Repeat("ü", 128), r[0].Message, "256 bytes")
		again := next()
		require.Equal(t, began.Add(2*time.Second), again[0].At, "a heartbeat")
		again[0].At = r[0].At
		require.Equal(t, r, again)
		require.Empty(t, next(), "it has returned")
		enqueue(t, q, "id", "silent")
		require.Empty(t, next())
		step <- struct{}{}
		stop(t, x)
	})
	executor.Progress(t.Context(), 1, 2, "a handler in a test of its own")
	var none context.Context
	executor.Heartbeat(none)
	executor.Progress(hostileContext{Context: t.Context(), value: func() { panic("boom") }}, 1, 2, "")
}

// Progress is an event once a second at most, with the job that it is about.
func TestProgressAsEvents(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
			for i := range int64(25) {
				executor.Progress(ctx, i, 25, "at it")
				time.Sleep(100 * time.Millisecond)
			}
			return nil
		}, executor.QueueConfig[string]{})
		start(t, x)
		l := follow(t, x, events.Filter{Kinds: []events.Kind{events.Progress, events.Done}})
		p := enqueue(t, q, "id", "x").Position
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{
			fmt.Sprintf("q/id progress %d attempt 1: at it 0 of 25", p), fmt.Sprintf("q/id progress %d attempt 1: at it 10 of 25", p),
			fmt.Sprintf("q/id progress %d attempt 1: at it 20 of 25", p), fmt.Sprintf("q/id done %d attempt 1 took 2.5s", p),
		}, l.take())
		stop(t, x)
	})
}

// A handler under HeartbeatTimeout may take as long as it likes, if it gives signs of
// life. One that gives none has its context ended, and has failed.
func TestHeartbeat(t *testing.T) {
	for name, c := range map[string]struct {
		every time.Duration // between signs of life; 0: none
		ends  bool
	}{"beats": {9 * time.Second, false}, "beats too seldom": {12 * time.Second, true}, "does not beat": {0, true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
					began := time.Now()
					for range 100 {
						pause := time.Minute
						if c.every > 0 {
							pause = c.every
						}
						select {
						case <-ctx.Done():
							assert.ErrorIs(t, context.Cause(ctx), executor.ErrNoHeartbeat)
							assert.GreaterOrEqual(t, time.Since(began), 10*time.Second)
							assert.LessOrEqual(t, time.Since(began), 12*time.Second)
							executor.Heartbeat(ctx) // too late
							return errBoom
						case <-time.After(pause):
							if c.every > 0 {
								executor.Heartbeat(ctx)
							}
						}
					}
					return nil
				}, executor.QueueConfig[string]{HeartbeatTimeout: 10 * time.Second, MaxRetries: -1})
				start(t, x)
				enqueue(t, q, "id", "x")
				time.Sleep(3 * time.Hour)
				synctest.Wait()
				dead := morgue(t, q)
				if !c.ends {
					require.Empty(t, dead)
					require.Equal(t, uint64(1), stats(t, q).Done)
				} else {
					require.Len(t, dead, 1)
					require.Equal(t, "executor: no sign of life from the handler for 10s: boom", dead[0].Error)
				}
				stop(t, x)
			})
		})
	}
}

// A handler that goes on without a sign of life, and without a Timeout, is stuck
// Stuck.After later.
func TestHeartbeatOfAStuckHandler(t *testing.T) {
	bubble(t, func(t *testing.T) {
		free := make(chan struct{})
		x := open(t, "", executor.Config{Workers: 1, Stuck: executor.Stuck{SpareWorkers: 1, After: time.Minute}})
		q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error {
			<-free
			return nil
		}, executor.QueueConfig[string]{HeartbeatTimeout: time.Hour})
		stuck := func() int {
			s, err := x.Stats(t.Context())
			require.NoError(t, err)
			return s.Stuck
		}
		start(t, x)
		enqueue(t, q, "id", "x")
		time.Sleep(time.Hour + 30*time.Second)
		require.Zero(t, stuck())
		time.Sleep(time.Minute)
		require.Equal(t, 1, stuck())
		close(free)
		synctest.Wait()
		require.Zero(t, stuck())
		require.Equal(t, uint64(1), stats(t, q).Done, "it did its work after all")
		stop(t, x)
	})
}

// Signs of life from everywhere, at the end of the run and after it, race with
// nothing.
func TestProgressRaces(t *testing.T) {
	x := open(t, "", executor.Config{Workers: 4})
	feed := x.Events(t.Context(), events.Filter{})
	go func() {
		for range feed {
		}
	}()
	var g sync.WaitGroup
	q, err := executor.HandleBatch(x, "q", func(ctx context.Context, jobs []executor.Merged[int]) error {
		for i := range int64(3) {
			g.Go(func() { executor.Progress(ctx, i, 3, jobs[0].ID) })
		}
		g.Go(func() { x.ProgressOfWorkers() })
		return nil
	}, executor.QueueConfig[int]{BatchSize: 3, HeartbeatTimeout: time.Minute})
	require.NoError(t, err)
	start(t, x)
	for i := range 300 {
		enqueue(t, q, fmt.Sprint(i%10), i)
	}
	drained(t, q)
	g.Wait()
	stop(t, x)
}
