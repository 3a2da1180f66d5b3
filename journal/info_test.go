package journal_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// What a log says of itself while it is open is what a view says when it is closed.
func TestInfo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	require.NoError(t, journal.InUse(dir), "there is none")
	for round := range 3 {
		l, err := journal.Open(dir, journal.Config{Deliver: func(d *journal.Delivery) { d.Done() }})
		require.NoError(t, err)
		q, err := l.Queue(t.Context(), fmt.Sprint("queue ", round))
		require.NoError(t, err)
		for range 5 {
			ticket, err := l.Append(t.Context(), []journal.Entry{{Queue: q, ID: []byte("a"), Payload: []byte("x")}, {Queue: q, ID: []byte("b")}}, nil)
			require.NoError(t, err)
			require.NoError(t, ticket.Wait(t.Context()))
		}
		require.NoError(t, l.Flush(t.Context()))
		open := l.Info()
		require.Positive(t, open.FileBytes)
		require.NoError(t, l.Close())
		require.NoError(t, journal.InUse(dir))
		closed, err := journal.Check(dir)
		require.NoError(t, err)
		open.FileBytes = closed.FileBytes // the close may have made it larger
		require.Equal(t, closed, open)
	}
	memory, err := journal.OpenMemory(nil, journal.Config{})
	require.NoError(t, err)
	require.Zero(t, memory.Info().FileBytes)
	require.NoError(t, memory.Close())
}
