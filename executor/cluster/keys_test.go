package cluster_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/lock"
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

// A person unlocks a key in all partitions that have locked it, in one call, which says so if none has.
func TestUnlockInAllPartitions(t *testing.T) {
	c := newTown(t, 1)
	_, err := executor.Handle(c.x, "q", func(context.Context, executor.Job[int]) error { return nil }, executor.QueueConfig[int]{})
	require.NoError(t, err)
	require.NoError(t, c.x.Start(t.Context()))
	keys := c.x.KeyLocks()
	for _, number := range []int{1, 3} {
		for _, key := range []string{"k\xff", "other"} {
			require.NoError(t, c.parts[number].KeyLocks().Lock(t.Context(), key))
		}
	}
	require.ErrorIs(t, keys.Unlock(t.Context(), ""), lock.ErrEmptyKey)
	var none context.Context
	require.ErrorIs(t, keys.Unlock(none, "k\xff"), executor.ErrContext)
	require.NoError(t, keys.Unlock(t.Context(), "k\xff"))
	page, more, err := c.x.Inspect().LockedKeys("", 0)
	require.NoError(t, err)
	require.Zero(t, more)
	require.Len(t, page, 2)
	for _, k := range page {
		require.Equal(t, "other", k.Key)
	}
	require.ErrorIs(t, keys.Unlock(t.Context(), "k\xff"), lock.ErrNotLocked)
	c.mute.Store(true)
	require.ErrorIs(t, keys.Unlock(t.Context(), "other"), errMute)
	c.mute.Store(false)
	require.ErrorIs(t, keys.Lock(t.Context(), "k"), executor.ErrState)
	require.NoError(t, c.x.Stop(t.Context()))
	require.ErrorIs(t, keys.Unlock(t.Context(), "other"), executor.ErrClosed)
}
