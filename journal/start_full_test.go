package journal

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// fullLog is a log on a disk in memory that has just turned out to be full, and
// whose jobs are all there.
func fullLog(t *testing.T) (*Log, *[]Ref) {
	disk := new(Memory)
	l, err := OpenMemory(disk, Config{})
	require.NoError(t, err)
	_, err = l.Queue(t.Context(), "orders")
	require.NoError(t, err)
	_, err = l.Queue(t.Context(), "mails")
	require.NoError(t, err)
	for i := range 50 {
		ticket, err := l.Append(t.Context(), []Entry{{Queue: 1, ID: fmt.Append(nil, i), Payload: make([]byte, 1000)}})
		require.NoError(t, err)
		require.NoError(t, ticket.Wait(t.Context()))
	}
	after := disk.Crash()
	require.NoError(t, l.Close())

	live := new([]Ref)
	l, err = OpenMemory(after, Config{})
	require.NoError(t, err)
	require.NoError(t, l.Flush(t.Context()))
	*live = l.Pending(1)
	require.Len(t, *live, 50)
	after.Limit(after.content() + 1500) // results fit, no payload
	ticket, err := l.Append(t.Context(), []Entry{{Queue: 1, ID: []byte("x"), Payload: make([]byte, 5000)}})
	require.NoError(t, err)
	require.ErrorIs(t, ticket.Wait(t.Context()), ErrFull)
	require.ErrorIs(t, l.Err(), ErrFull)
	return l, live
}

// What the journal knows about its queues takes no room: a start on a full disk
// must not fail for it, or nothing would run, and no room would come back.
func TestQueuesOnAFullDisk(t *testing.T) {
	l, live := fullLog(t)
	number, err := l.Queue(t.Context(), "orders")
	require.NoError(t, err, "the journal knows it")
	require.EqualValues(t, 1, number)
	_, err = l.Queue(t.Context(), "new")
	require.ErrorIs(t, err, ErrFull)
	require.NotContains(t, l.Queues(), "new")

	// A new name for what is there is as small as a result, and goes with them.
	require.NoError(t, l.Rename(t.Context(), "mails", "letters"))
	require.NoError(t, l.Rename(t.Context(), "orders", "letters"), "they change places")
	require.Equal(t, map[string]uint32{"letters": 1, "orders": 2}, l.Queues())

	l.Record(&Change{Ended: *live})
	for errors.Is(l.Err(), ErrFull) {
	}
	require.NoError(t, l.Err(), "it has come back by itself")
	disk := l.store.(*Memory).Crash()
	require.NoError(t, l.Close())
	l, err = OpenMemory(disk, Config{})
	require.NoError(t, err)
	require.Equal(t, map[string]uint32{"letters": 1, "orders": 2}, l.Queues())
	require.NoError(t, l.Close())
	_, err = l.Queue(t.Context(), "orders")
	require.ErrorIs(t, err, ErrClosed)
}
