package executor_test

import (
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// A journal of format 1 with offsets, keys, locks, slots, suspects and a morgue
// opens, remembers all of it, and drains.
func TestOldFormatDrains(t *testing.T) {
	packed, err := os.Open("../journal/testdata/v1-state.db.gz")
	require.NoError(t, err)
	defer packed.Close()
	unpack, err := gzip.NewReader(packed)
	require.NoError(t, err)
	file, err := io.ReadAll(unpack)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "journal.db"), file, 0o600))

	ctx := t.Context()
	x, err := executor.Open(dir, executor.Config{Workers: 4, Advanced: executor.Advanced{IdempotencyTTL: 100 * 365 * 24 * time.Hour}})
	require.NoError(t, err)
	serials, err := executor.NewSlots(x, "serials", executor.SlotsConfig[int]{
		Next: func(v int) int { return v + 1 }, TTL: 100 * 365 * 24 * time.Hour,
	})
	require.NoError(t, err)
	key := func(_ string, p string) []string { return []string{"order " + p} }
	ran, slot := make(chan string, 10), make(chan int, 1)
	note := func(_ context.Context, job executor.Merged[string]) error {
		if value, has := serials.Of(job); has {
			slot <- value
		}
		ran <- job.ID
		return nil
	}
	for name, cfg := range map[string]executor.QueueConfig[string]{
		"pay":   {Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{OnEnqueue: key, Unlock: key}}},
		"sales": {Conditions: executor.Conditions[string]{Slots: []executor.SlotSource{serials}}},
		"send":  {Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{BlockedBy: key}}},
	} {
		_, err := executor.HandleMerged(x, name, note, cfg)
		require.NoError(t, err)
	}
	bad, err := executor.HandleMerged(x, "bad", note, executor.QueueConfig[string]{})
	require.NoError(t, err)
	_, err = bad.Enqueue(ctx, "bad 3", "x", executor.FromSource("feed", 12))
	require.ErrorAs(t, err, new(*executor.StaleError))
	receipt, err := bad.Enqueue(ctx, "bad 0", "x", executor.IdempotencyKey("request 0"))
	require.NoError(t, err)
	require.True(t, receipt.Duplicate)
	require.Len(t, lockedKeys(x), 2)
	require.NoError(t, x.Start(ctx))
	seen := map[string]bool{}
	for range 3 {
		seen[<-ran] = true
	}
	require.Equal(t, map[string]bool{"payment 1": true, "bob": true, "parcel 1": true}, seen)
	require.Equal(t, 2, <-slot, "the one that it had")
	require.NoError(t, x.Stop(ctx))

	report, err := journal.Check(dir)
	require.NoError(t, err)
	require.Zero(t, report.Live)
}
