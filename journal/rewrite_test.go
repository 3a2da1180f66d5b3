package journal

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rewriting opens a log with a few entries of an id.
func rewriting(t *testing.T, disk *Memory, n int) (*Log, []Ref) {
	var refs []Ref
	l, err := OpenMemory(disk, Config{Deliver: func(d *Delivery) {
		for i := range d.Len() {
			var e Entry
			refs = append(refs, must(d.Read(i, &e)))
		}
		d.Done()
	}})
	require.NoError(t, err)
	_, err = l.Queue(t.Context(), "the queue")
	require.NoError(t, err)
	list := make([]Entry, n)
	for i := range list {
		list[i] = Entry{Queue: modelQueue, ID: []byte("a"), Payload: []byte("small"), Due: int64(i)}
	}
	ticket, err := l.Append(t.Context(), list, nil)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
	return l, refs
}

// What was rewritten may be read at once, and ends like any entry, before its commit and
// after it: nothing is left of it in the accounts.
func TestRewrittenAndEnded(t *testing.T) {
	for _, flush := range []bool{false, true} {
		disk := new(Memory)
		l, refs := rewriting(t, disk, 2)
		c := Change{Ended: refs[1:2], Rewritten: []Rewrite{{Ref: refs[0], Payload: []byte("large")}}}
		l.committing.Lock() // its commit has not begun
		l.Record(&c)
		fresh := c.Rewritten[0].Ref
		require.True(t, fresh.Fresh())
		var e Entry
		require.NoError(t, fresh.Read(&e))
		require.Equal(t, "large", string(e.Payload))
		require.Equal(t, refs[0].Position(), e.Position)
		l.committing.Unlock()
		if flush {
			require.NoError(t, l.Flush(t.Context()))
			require.False(t, fresh.Fresh())
			require.NoError(t, fresh.Read(&e))
			require.Equal(t, "large", string(e.Payload))
		}
		l.Record(&Change{Ended: []Ref{fresh}})
		require.NoError(t, l.Flush(t.Context()))
		require.Zero(t, l.Stats().LiveBytes)
		require.NoError(t, l.Close())
		l, err := OpenMemory(disk, Config{})
		require.NoError(t, err)
		require.Empty(t, slices.Concat(l.PendingPages(modelQueue)...))
		require.Zero(t, l.Stats().LiveBytes)
		require.NoError(t, l.Close())
	}
}

// A full disk refuses what is appended, and writes what was rewritten beside it.
func TestRewrittenOnAFullDisk(t *testing.T) {
	disk := new(Memory)
	l, refs := rewriting(t, disk, 2)
	disk.Limit(50_000)
	l.committing.Lock() // all is in one block
	ticket, err := l.Append(t.Context(), []Entry{{Queue: modelQueue, ID: []byte("b"), Payload: []byte(strings.Repeat("x", 60_000))}}, nil)
	require.NoError(t, err)
	c := Change{Ended: refs[1:2], Rewritten: []Rewrite{{Ref: refs[0], Payload: []byte("large")}}}
	l.Record(&c)
	l.committing.Unlock()
	require.ErrorIs(t, ticket.Wait(t.Context()), ErrFull)
	require.NoError(t, l.Settled(t.Context()))
	crashed, err := OpenMemory(disk.Crash(), Config{})
	require.NoError(t, err)
	pending := slices.Concat(crashed.PendingPages(modelQueue)...)
	require.Len(t, pending, 1)
	var e Entry
	require.NoError(t, pending[0].Read(&e))
	require.Equal(t, "large", string(e.Payload))
	require.NoError(t, crashed.Close())
	require.NoError(t, c.Rewritten[0].Ref.Read(&e))
	require.NoError(t, l.Close())
}
