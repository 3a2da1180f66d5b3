package executor_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/lock"
)

// unless returns the conditions of jobs that wait for no key, but are told at once that their payload is one.
func unless(blocked lock.Decision) executor.Conditions[string] {
	return executor.Conditions[string]{Locks: executor.Locks[string]{
		BlockedBy: func(_, payload string) []string { return []string{payload} }, WhenBlocked: blocked,
	}}
}

// Throttle is between runs: an id does not rest after what no handler was called for, and rests on after the run before.
func TestThrottleIsBetweenRuns(t *testing.T) {
	refuses := &hooks{encode: says[error](nil, nil), decode: func(payload string) error {
		if payload == "bad" {
			return errBoom
		}
		return nil
	}}
	for name, cfg := range map[string]executor.QueueConfig[string]{
		"does not decode": {Codec: refuses},
		"is skipped":      {Conditions: unless(lock.Decision{Skip: true})},
		"fails":           {Conditions: unless(lock.Decision{Fail: lock.ErrLocked}), MaxRetries: -1},
	} {
		for shape, handle := range map[string]func(*executor.Executor, func(), executor.QueueConfig[string]) (*executor.Queue[string], error){
			"events": func(x *executor.Executor, ran func(), cfg executor.QueueConfig[string]) (*executor.Queue[string], error) {
				return executor.Handle(x, "q", func(context.Context, executor.Job[string]) error { ran(); return nil }, cfg)
			},
			"state": func(x *executor.Executor, ran func(), cfg executor.QueueConfig[string]) (*executor.Queue[string], error) {
				return executor.HandleLatest(x, "q", func(context.Context, executor.Job[string]) error { ran(); return nil }, cfg)
			},
			"merged": func(x *executor.Executor, ran func(), cfg executor.QueueConfig[string]) (*executor.Queue[string], error) {
				return executor.HandleMerged(x, "q", func(context.Context, executor.Merged[string]) error { ran(); return nil }, cfg)
			},
		} {
			t.Run(name+", "+shape, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					x := open(t, "", executor.Config{})
					begin := time.Now()
					var ran []string
					cfg.Gather.Throttle = time.Hour
					q, err := handle(x, func() { ran = append(ran, fmt.Sprint(time.Since(begin))) }, cfg)
					require.NoError(t, err)
					require.NoError(t, x.KeyLocks().Lock(t.Context(), "bad"))
					start(t, x)
					for _, payload := range []string{"bad", "good"} {
						enqueue(t, q, "a", payload)
						synctest.Wait()
					}
					require.Equal(t, []string{"0s"}, ran)
					time.Sleep(30 * time.Minute)
					enqueue(t, q, "a", "bad")
					time.Sleep(40 * time.Minute)
					require.Zero(t, stats(t, q).Jobs, "it has waited for the end of the rest")
					enqueue(t, q, "a", "good")
					synctest.Wait()
					require.Equal(t, []string{"0s", "1h10m0s"}, ran)
					stop(t, x)
				})
			})
		}
	}
}

// A job that has run, and whose retry is refused, leaves the rest of its run.
func TestThrottleAfterARefusedRetry(t *testing.T) {
	for _, merge := range []executor.Merge{executor.MergeKeepAll, executor.MergeSupersede} {
		t.Run(fmt.Sprint(merge), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				begin := time.Now()
				var ran []string
				cfg := executor.QueueConfig[string]{Merge: merge, RetryIn: always(time.Minute), Conditions: unless(lock.Decision{Skip: true})}
				cfg.Gather.Throttle = time.Hour
				q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
					if ran = append(ran, fmt.Sprint(time.Since(begin))); job.Payload == "bad" {
						return errBoom
					}
					return nil
				}, cfg)
				require.NoError(t, err)
				start(t, x)
				enqueue(t, q, "a", "bad")
				synctest.Wait()
				require.NoError(t, x.KeyLocks().Lock(t.Context(), "bad"))
				time.Sleep(2 * time.Minute)
				require.EqualValues(t, 1, stats(t, q).Discarded)
				enqueue(t, q, "a", "good")
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				require.Equal(t, []string{"0s", "1h0m0s"}, ran)
				stop(t, x)
			})
		})
	}
}

// A newer state does not wait because an older one was told to come again.
func TestLatestDoesNotRestAfterARefusal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		var ran []string
		cfg := executor.QueueConfig[string]{Conditions: unless(lock.Decision{After: time.Minute})}
		cfg.Gather.Throttle = time.Hour
		q, err := executor.HandleLatest(x, "q", func(_ context.Context, job executor.Job[string]) error {
			ran = append(ran, job.Payload)
			return nil
		}, cfg)
		require.NoError(t, err)
		require.NoError(t, x.KeyLocks().Lock(t.Context(), "bad"))
		start(t, x)
		for _, payload := range []string{"bad", "good"} {
			enqueue(t, q, "a", payload)
			synctest.Wait()
		}
		require.Equal(t, []string{"good"}, ran)
		stop(t, x)
	})
}
