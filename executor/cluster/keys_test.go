package cluster_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// A key that several partitions have is on one page with all of its rows, as the next page begins behind it.
func TestPagesOfKeysThatPartitionsShare(t *testing.T) {
	c := newTown(t, 1)
	_, err := executor.Handle(c.x, "q", func(context.Context, executor.Job[int]) error { return nil }, executor.QueueConfig[int]{})
	require.NoError(t, err)
	require.NoError(t, c.x.Start(t.Context()))
	want := map[string]int{"a": 1, "k": 3, "m": 1, "z": 2}
	for key, n := range want {
		for number := range n {
			require.NoError(t, c.parts[number+1].KeyLocks().Lock(t.Context(), key))
		}
	}
	for limit := 1; limit < 9; limit++ {
		found, left := make(map[string]int), 7
		for after := ""; left > 0; {
			page, more, err := c.x.Inspect().LockedKeys(after, limit)
			require.NoError(t, err)
			require.NotEmpty(t, page, "%d more were promised", left)
			require.LessOrEqual(t, len(page), limit+partitions-1)
			for _, k := range page {
				found[k.Key]++
			}
			require.Equal(t, left-len(page), more)
			after, left = page[len(page)-1].Key, more
		}
		require.Equal(t, want, found, "limit %d", limit)
	}
}
