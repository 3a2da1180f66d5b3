package await

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Waiters move with payloads that become one, and are forgotten with them.
func TestBook(t *testing.T) {
	var b Book
	first, second, gone := NewWaiter(), NewWaiter(), NewWaiter()
	require.False(t, b.Any())
	b.Add(first, 1)
	b.Add(second, 2)
	b.Add(gone, 2)
	boom := errors.New("boom")
	b.Failed(2, boom)
	require.Same(t, boom, b.Leave(gone))
	require.NoError(t, b.Leave(gone), "it has gone")
	b.Record(&shard.Change{Merged: []shard.Merged{{Position: 1, Into: 2}, {Position: 2, Into: 3}, {Position: 8, Into: 9}}}, journal.Ticket{})
	require.Equal(t, 1, b.Len())
	b.Returned(1, "old")
	b.Returned(3, "new")
	require.Same(t, boom, b.Leave(second))
	require.True(t, b.Any())
	require.NoError(t, b.Leave(NewWaiter()))
	require.Same(t, boom, b.Leave(first))
	require.False(t, b.Any())
}
