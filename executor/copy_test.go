package executor_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

func TestCopyOfARunningExecutor(t *testing.T) {
	dir := t.TempDir()
	open := func(name string) (*executor.Executor, *executor.Queue[int]) {
		x, err := executor.Open(filepath.Join(dir, name), executor.Config{})
		require.NoError(t, err)
		q, err := executor.HandleMerged(x, "jobs", func(context.Context, executor.Merged[int]) error { return nil }, executor.QueueConfig[int]{})
		require.NoError(t, err)
		return x, q
	}
	x, q := open("journal")
	_, err := q.Enqueue(t.Context(), "before", 1)
	require.NoError(t, err)
	require.NoError(t, x.Copy(t.Context(), filepath.Join(dir, "copy")))
	require.Error(t, x.Copy(t.Context(), filepath.Join(dir, "copy")), "it is there already")
	_, err = q.Enqueue(t.Context(), "after", 1)
	require.NoError(t, err)

	y, copied := open("copy")
	s, err := copied.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, s.Jobs)
	require.NoError(t, y.Stop(t.Context()))
	require.NoError(t, x.Stop(t.Context()))

	m, err := executor.Open("", executor.Config{})
	require.NoError(t, err)
	require.ErrorIs(t, m.Copy(t.Context(), filepath.Join(dir, "nothing")), executor.ErrState)
	require.NoError(t, m.Compact(t.Context()))
	require.NoError(t, m.Stop(t.Context()))
}
