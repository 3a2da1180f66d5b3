package executor_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
)

func TestLockedKeysInPages(t *testing.T) {
	x := open(t, "", executor.Config{})
	var want []string
	for i := range 25 {
		key := fmt.Sprintf("key-%02d", i*7%25)
		require.NoError(t, x.KeyLocks().Lock(t.Context(), key))
		want = append(want, fmt.Sprintf("key-%02d", i))
	}
	var all []string
	for after, left := "", 25; ; {
		page, more, err := x.Inspect().LockedKeys(after, 10)
		require.NoError(t, err)
		for _, k := range page {
			all, after = append(all, k.Key), k.Key
			require.Equal(t, "a person", k.Locks[0].By)
		}
		left -= len(page)
		require.Equal(t, left, more)
		if more == 0 {
			break
		}
	}
	require.Equal(t, want, all)
	_, _, err := x.Inspect().LockedKeys("", brief.MaxRows+1)
	require.ErrorIs(t, err, inspect.ErrInvalidQuery)
}

func TestLeasesAndSlotsAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 2})
		seats, err := executor.NewSlots(x, "seats", executor.SlotsConfig[int]{Next: func(v int) int { return v + 1 }})
		require.NoError(t, err)
		hold := make(chan struct{})
		q, err := executor.Handle(x, "q", func(context.Context, executor.Job[string]) error { <-hold; return nil }, executor.QueueConfig[string]{
			Conditions: executor.Conditions[string]{
				Unique: executor.Unique[string]{Key: func(_, p string) string { return p }},
				Slots:  []executor.SlotSource{seats},
			},
		})
		require.NoError(t, err)
		start(t, x)
		for _, id := range []string{"first", "second"} {
			_, err := q.Enqueue(t.Context(), id, "the key")
			require.NoError(t, err)
			synctest.Wait()
		}
		leases, more, err := x.Inspect().Leases("", 0)
		require.NoError(t, err)
		require.Zero(t, more)
		require.Len(t, leases, 1)
		require.Equal(t, "q/first", leases[0].By)
		require.Equal(t, "q/second", leases[0].Waiters[0].By)
		slots, more, err := x.Inspect().Slots(0)
		require.NoError(t, err)
		require.Zero(t, more)
		require.Len(t, slots, 1)
		require.Equal(t, "q/first", slots[0].By)
		require.Contains(t, slots[0].Slot, "seats")
		close(hold)
		synctest.Wait()
		leases, _, err = x.Inspect().Leases("", 0)
		require.NoError(t, err)
		require.Empty(t, leases)
		require.NoError(t, x.Stop(t.Context()))
	})
}

func TestCommitsAreTimed(t *testing.T) {
	began := time.Now()
	x := open(t, filepath.Join(t.TempDir(), "journal"), executor.Config{})
	q, err := executor.Handle(x, "q", func(context.Context, executor.Job[string]) error { return nil }, executor.QueueConfig[string]{})
	require.NoError(t, err)
	before, err := x.Stats(t.Context())
	require.NoError(t, err)
	_, err = q.Enqueue(t.Context(), "id", "")
	require.NoError(t, err)
	after, err := x.Stats(t.Context())
	require.NoError(t, err)
	require.Greater(t, after.Journal.Commits, before.Journal.Commits)
	require.Greater(t, after.Journal.CommitTime, before.Journal.CommitTime)
	require.WithinRange(t, after.Journal.LastCommit, began, time.Now())
}
