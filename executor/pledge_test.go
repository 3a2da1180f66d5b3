package executor

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/internal/submit"
	"github.com/strandjobs/strand/journal"
)

// A key that is unlocked while the payload that locks it is on its way to the
// journal is not locked after a restart.
func TestUnlockedOnItsWay(t *testing.T) {
	disk := new(journal.Memory)
	x, err := OpenOn(disk, Config{})
	require.NoError(t, err)
	queue, err := HandleMerged(x, "q", func(context.Context, Merged[string]) error { return nil }, QueueConfig[string]{
		Conditions: Conditions[string]{
			Locks: Locks[string]{OnEnqueue: func(_, key string) []string { return []string{key} }},
		},
	})
	require.NoError(t, err)
	q := queue.q
	entries := make([]journal.Entry, 1)
	require.NoError(t, q.Fill(&entries[0], &submit.Item{ID: "id", Payload: []byte(`"key"`)}, 0))
	keys, err := q.KeysOf(entries)
	require.NoError(t, err)
	p, err := q.Lock(t.Context(), entries, keys)
	require.NoError(t, err)
	require.NoError(t, x.KeyLocks().Unlock(t.Context(), "key"))
	ticket, err := x.log.Append(t.Context(), entries, p.Sets)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
	require.Empty(t, x.keys.Keys())
	require.NoError(t, x.Stop(t.Context()))
	x, err = OpenOn(disk.Crash(), Config{})
	require.NoError(t, err)
	require.Empty(t, x.keys.Keys())
	require.NoError(t, x.Stop(t.Context()))
}
