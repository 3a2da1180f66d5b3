package executor_test

import (
	"context"
	"errors"
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

func TestStopFromOnFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		var x *executor.Executor
		var called atomic.Bool
		x, err := executor.OpenOn(disk, executor.Config{OnFatal: func(error) {
			called.Store(true)
			_ = x.Stop(context.Background())
		}})
		require.NoError(t, err)
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
		disk.FailNext(errBoom)
		go func() {
			synctest.Wait() // Run must not find that it has stopped
			_, _ = q.Enqueue(t.Context(), "a", "x")
		}()
		err = x.Run(t.Context())
		require.ErrorIs(t, err, executor.ErrFailed)
		require.True(t, called.Load())
	})
}

// lastWords is a log that does something else with one line.
type lastWords struct {
	slog.Handler
	message string
	f       func()
}

func (l lastWords) Enabled(context.Context, slog.Level) bool { return true }

func (l lastWords) Handle(_ context.Context, r slog.Record) error {
	if r.Message == l.message {
		l.f()
	}
	return nil
}

// A logger that does not return, when it is told why the executor ends, takes neither StopTimeout nor OnFatal away. One
// that does is heard first: OnFatal may end the process.
func TestLoggersOfTheEnd(t *testing.T) {
	for name, end := range map[string]struct {
		message string
		of      func(*journal.Memory) error
	}{
		"failure": {"executor failed", func(disk *journal.Memory) error { disk.FailNext(errBoom); return nil }},
		"fatal":   {"a handler ends the executor", func(*journal.Memory) error { return executor.Fatal(errBoom) }},
	} {
		free := make(chan struct{})
		for does, f := range map[string]func(){"blocks": func() { <-free }, "exits": runtime.Goexit, "returns": func() { time.Sleep(time.Millisecond) }} {
			t.Run(name+" "+does, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					free = make(chan struct{})
					defer func() { close(free) }()
					var logged atomic.Bool
					told := make(chan time.Time, 1)
					disk := new(journal.Memory)
					l := lastWords{slog.DiscardHandler, end.message, func() { f(); logged.Store(true) }}
					x := openOn(t, disk, executor.Config{Workers: 2, StopTimeout: time.Minute, Logger: slog.New(l), OnFatal: func(err error) {
						assert.Equal(t, does == "returns", logged.Load())
						assert.ErrorIs(t, err, errBoom)
						told <- time.Now()
					}})
					q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
						if job.ID == "last" {
							return end.of(disk)
						}
						<-ctx.Done()
						return nil
					}, executor.QueueConfig[string]{})
					start(t, x)
					enqueue(t, q, "runs", "x")
					synctest.Wait()
					begin := time.Now()
					enqueue(t, q, "last", "x")
					time.Sleep(time.Hour)
					require.Len(t, told, 1)
					require.Less(t, (<-told).Sub(begin), time.Minute+time.Second)
					require.Error(t, within(time.Second, x.Stop))
				})
			})
		}
	}
}

// A handler's Fatal during a stop is told when the time of that is over, whatever holds it up.
func TestFatalDuringAStopThatHangs(t *testing.T) {
	for name, hold := range map[string]func(disk *journal.Memory, l *lastWords) (release func()){
		"disk": func(disk *journal.Memory, _ *lastWords) func() { return hang(disk).release },
		"logger": func(_ *journal.Memory, l *lastWords) func() {
			free := make(chan struct{})
			l.message, l.f = "executor stopped", func() { <-free }
			return func() { close(free) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk, l, last, told := new(journal.Memory), &lastWords{Handler: slog.DiscardHandler}, make(chan struct{}), make(chan time.Time, 1)
				x := openOn(t, disk, executor.Config{Logger: slog.New(l), OnFatal: func(err error) {
					assert.ErrorIs(t, err, errBoom)
					told <- time.Now()
				}})
				q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { <-last; return executor.Fatal(errBoom) }, executor.QueueConfig[string]{})
				start(t, x)
				enqueue(t, q, "a", "x")
				synctest.Wait()
				defer hold(disk, l)()
				begin := time.Now()
				go within(time.Second, x.Stop)
				synctest.Wait()
				close(last)
				time.Sleep(time.Hour)
				require.Len(t, told, 1)
				require.Less(t, (<-told).Sub(begin), 3*time.Second)
			})
		})
	}
}

func TestStartAfterFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
		disk.FailNext(errBoom)
		_, err := q.Enqueue(t.Context(), "a", "x")
		require.ErrorIs(t, err, executor.ErrUnknown)
		synctest.Wait()
		require.ErrorIs(t, x.Start(t.Context()), executor.ErrFailed)
	})
}

// A shard that has failed takes nothing in any more. No call waits for it.
func TestEnqueueDoesNotWaitForABrokenShard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := openOn(t, new(journal.Memory), executor.Config{})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{})
		x.BreakShards()
		_, err := q.Enqueue(context.Background(), "a", "x")
		if err != nil {
			require.True(t, errors.Is(err, executor.ErrUnknown) || errors.Is(err, executor.ErrFailed), "%v", err)
		}
		synctest.Wait()
		require.ErrorIs(t, x.Err(), executor.ErrFailed)
		require.Error(t, x.Stop(t.Context()))
	})
}
