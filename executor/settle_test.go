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
		}, executor.QueueConfig[string]{BatchSize: 8, Share: executor.Share{Shards: 1}, DeadLetters: executor.DeadLetters[string]{FormatError: func(error) string { runtime.Goexit(); return "" }}})
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

// An entry for an id that is not in the batch was meant for one that is: it fails
// all that have none of their own.
func TestBatchErrorsForAStranger(t *testing.T) {
	all := []string{"a", "b", "c"}
	for name, test := range map[string]struct {
		errs executor.BatchErrors
		fail []string
	}{
		"none":                {nil, nil},
		"its own":             {executor.BatchErrors{"a": errBoom}, []string{"a"}},
		"its own, nil":        {executor.BatchErrors{"a": nil, "b": nil}, nil},
		"a stranger":          {executor.BatchErrors{"z": errBoom}, all},
		"a stranger, nil":     {executor.BatchErrors{"z": nil}, all},
		"and one done":        {executor.BatchErrors{"z": errBoom, "a": nil}, []string{"b", "c"}},
		"and one failed":      {executor.BatchErrors{"z": errBoom, "b": errBoom}, all},
		"and all but one":     {executor.BatchErrors{"z": errBoom, "a": nil, "b": nil}, []string{"c"}},
		"and all done":        {executor.BatchErrors{"z": errBoom, "a": nil, "b": nil, "c": nil}, nil},
		"several strangers":   {executor.BatchErrors{"x": nil, "y": nil, "z": errBoom, "c": nil}, []string{"a", "b"}},
		"all but in capitals": {executor.BatchErrors{"A": errBoom}, all},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{Workers: 1})
				q, err := executor.HandleBatch(x, "q", func(_ context.Context, jobs []executor.Merged[string]) error {
					require.Len(t, jobs, len(all))
					return test.errs
				}, executor.QueueConfig[string]{BatchSize: 8, Share: executor.Share{Shards: 1}, MaxRetries: -1})
				require.NoError(t, err)
				for _, id := range all {
					enqueue(t, q, id, "1")
				}
				start(t, x)
				synctest.Wait()
				var failed []string
				for _, dead := range morgue(t, q) {
					failed = append(failed, dead.ID)
					if test.errs[dead.ID] == nil {
						require.Equal(t, test.errs.Error(), dead.Error, "which names the stranger")
					}
				}
				require.ElementsMatch(t, test.fail, failed)
				require.EqualValues(t, len(all)-len(test.fail), stats(t, q).Done)
			})
		})
	}
}
