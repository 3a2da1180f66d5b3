package executor_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// Who names a key, or how long a lease lasts, means one at a time, unless the queue
// says otherwise.
func TestUniqueWithoutWhile(t *testing.T) {
	customer := func(string, string) string { return "customer" }
	for _, test := range []struct {
		unique executor.Unique[string]
		most   int
	}{
		{executor.Unique[string]{Key: customer}, 1},
		{executor.Unique[string]{TTL: time.Minute}, 1},
		{executor.Unique[string]{Key: customer, While: executor.UniqueNever}, 8},
		{executor.Unique[string]{}, 8},
	} {
		bubble(t, func(t *testing.T) {
			x := open(t, "", executor.Config{Workers: 8})
			var mu sync.Mutex
			running, most := 0, 0
			q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error {
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				running--
				mu.Unlock()
				return nil
			}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Unique: test.unique}})
			start(t, x)
			for i := range 20 {
				enqueue(t, q, fmt.Sprint(i), "")
			}
			time.Sleep(time.Minute)
			require.Zero(t, stats(t, q).Jobs)
			mu.Lock()
			require.Equal(t, test.most, most)
			mu.Unlock()
		})
	}
}

// What a handler has left with OnEnd of its lease hurts nobody, however the lease ends: it has a
// goroutine of its own, and may ask the executor.
func TestOnEndOfALease(t *testing.T) {
	for name, hook := range map[string]func(x *executor.Executor){
		"panics": func(*executor.Executor) { panic("hostile") },
		"exits":  func(*executor.Executor) { runtime.Goexit() },
		"asks":   func(x *executor.Executor) { _, _ = x.Stats(context.Background()) },
	} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", lost ", lost), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					x := open(t, "", executor.Config{Workers: 1})
					var runs, ended atomic.Int32
					q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
						if runs.Add(1) > 1 {
							return nil
						}
						job.Lease().OnEnd(func(error) {
							ended.Add(1)
							hook(x)
						})
						if lost {
							executor.StopHeart(job)
							<-ctx.Done()
						}
						return ctx.Err()
					}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Unique: executor.Unique[string]{TTL: time.Minute}}})
					start(t, x)
					enqueue(t, q, "a", "")
					time.Sleep(time.Minute)
					enqueue(t, q, "b", "")
					synctest.Wait()
					require.EqualValues(t, 1, ended.Load())
					require.EqualValues(t, 2, stats(t, q).Done)
					stop(t, x)
				})
			})
		}
	}
}
