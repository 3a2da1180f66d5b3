package executor_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

type nilError struct{ inner error }

func (e *nilError) Error() string { return "nil" }
func (e *nilError) Unwrap() error { return e.inner }

func TestErrorWhoseUnwrapPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error {
			var e *nilError
			return e
		}, executor.QueueConfig[string]{MaxRetries: -1})
		start(t, x)
		enqueue(t, q, "a", "1")
		synctest.Wait()
		require.Len(t, morgue(t, q), 1)
	})
}

func TestBatchHookExits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		var runs atomic.Int64
		q, err := executor.HandleBatch(x, "q", func(_ context.Context, jobs []executor.Merged[string]) error {
			runs.Add(int64(len(jobs)))
			for _, j := range jobs {
				if j.ID == "a" {
					return executor.BatchErrors{"a": errBoom}
				}
			}
			return nil
		}, executor.QueueConfig[string]{BatchSize: 8, Shards: 1, FormatError: func(error) string { runtime.Goexit(); return "" }})
		require.NoError(t, err)
		for _, id := range []string{"a", "b", "c"} {
			enqueue(t, q, id, "1")
		}
		start(t, x)
		synctest.Wait()
		s := stats(t, q)
		assert.Equal(t, 1, s.Jobs)
		assert.EqualValues(t, 2, s.Done)
	})
}
