package executor

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// A key that somebody unlocks while the payload that locks it is on its way to
// the journal is not locked after a restart.
func TestUnlockedOnItsWay(t *testing.T) {
	disk := new(journal.Memory)
	x, err := OpenOn(disk, Config{})
	require.NoError(t, err)
	queue, err := HandleMerged(x, "q", func(context.Context, Merged[string]) error { return nil }, QueueConfig[string]{
		Locks: Locks[string]{OnEnqueue: func(_, key string) []string { return []string{key} }},
	})
	require.NoError(t, err)
	q := queue.q
	entries := make([]journal.Entry, 1)
	require.NoError(t, q.fill(&entries[0], "id", []byte(`"key"`), 1))
	keys, err := q.keysOnEnqueue(entries)
	require.NoError(t, err)
	p, err := q.pledge(t.Context(), entries, keys)
	require.NoError(t, err)
	require.NoError(t, x.Keys().Unlock(t.Context(), "key"))
	ticket, err := x.log.AppendWith(t.Context(), entries, p.sets)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
	require.Empty(t, x.Keys().List())
	require.NoError(t, x.Stop(t.Context()))
	x, err = OpenOn(disk.Crash(), Config{})
	require.NoError(t, err)
	require.Empty(t, x.Keys().List())
	require.NoError(t, x.Stop(t.Context()))
}

// Suspects that run in one batch, because one of them stood aside, are all
// acquitted, and the next one runs.
func TestSuspectsOfOneBatch(t *testing.T) {
	x, err := OpenOn(new(journal.Memory), Config{})
	require.NoError(t, err)
	queue, err := HandleMerged(x, "q", func(context.Context, Merged[string]) error { return nil }, QueueConfig[string]{Shards: 1})
	require.NoError(t, err)
	suspects := make([]*suspect, 3)
	for i, id := range []string{"a", "b", "c"} {
		suspects[i] = &suspect{queue: queue.q, shard: queue.q.actors[0], id: id, crashes: 1}
		x.admit(suspects[i])
	}
	z := &x.quarantine
	x.standAside(queue.q, "a")
	require.Equal(t, suspects[:1], z.aside)
	require.Same(t, suspects[1], z.active)
	x.acquit(queue.q, []*shard.Item{{ID: "a"}, {ID: "b"}})
	require.Empty(t, z.aside)
	require.Same(t, suspects[2], z.active)
	x.standAside(queue.q, "c") // the last one: whoever comes now need not wait for it
	require.Nil(t, z.active)
	require.True(t, z.open.Load())
	x.acquit(queue.q, []*shard.Item{{ID: "c"}})
	require.False(t, z.open.Load())
	require.NoError(t, x.Stop(t.Context()))
}
