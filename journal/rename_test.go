package journal

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRename(t *testing.T) {
	dir := t.TempDir() + "/journal"
	open := func() *Log {
		l, err := Open(dir, Config{})
		require.NoError(t, err)
		return l
	}
	l := open()
	number := func(name string) uint32 {
		n, err := l.Queue(t.Context(), name)
		require.NoError(t, err)
		return n
	}
	a, b := number("a"), number("b")
	ticket, err := l.Append(t.Context(), []Entry{{Queue: a, ID: []byte("x")}, {Queue: b, ID: []byte("y")}}, nil)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))

	require.ErrorContains(t, l.Rename(t.Context(), "nobody", "c"), "1 to 4096 bytes")
	require.ErrorContains(t, l.Rename(t.Context(), "a", ""), "1 to 4096 bytes")
	require.NoError(t, l.Rename(t.Context(), "a", "a"))
	require.NoError(t, l.Rename(t.Context(), "a", "c"), "a new name")
	require.Equal(t, map[string]uint32{"b": b, "c": a}, l.Queues())
	require.NoError(t, l.Rename(t.Context(), "b", "c"), "a known one")
	require.Equal(t, map[string]uint32{"b": a, "c": b}, l.Queues())
	require.Equal(t, uint32(3), number("d"), "no number is given twice")
	require.NoError(t, l.Close())

	_, err = Check(dir)
	require.NoError(t, err)
	l = open()
	require.Equal(t, map[string]uint32{"b": a, "c": b, "d": 3}, l.Queues())
	require.Len(t, slices.Concat(l.PendingPages(number("b"))...), 1)
	require.Len(t, slices.Concat(l.PendingPages(number("c"))...), 1)
	require.NoError(t, l.Close())
}
