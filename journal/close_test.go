package journal

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCloseLocked(t *testing.T) {
	dir := t.TempDir() + "/journal"
	l, err := Open(dir, Config{})
	require.NoError(t, err)
	unlock, err := l.CloseLocked(nil)
	require.NoError(t, err)
	require.NoError(t, l.Close(), "it is closed already")
	_, err = Open(dir, Config{})
	require.IsType(t, &LockedError{}, err)
	require.NoError(t, unlock())
	l, err = Open(dir, Config{})
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

// What was accepted is there after Close, however little time the committer
// had. Once would not do: it may have been quicker.
func TestCloseCommitsWhatWasAccepted(t *testing.T) {
	disk := new(Memory)
	for round := range 200 {
		l, err := OpenMemory(disk, Config{})
		require.NoError(t, err)
		queue, err := l.Queue(t.Context(), "q")
		require.NoError(t, err)
		require.Len(t, slices.Concat(l.PendingPages(queue)...), round)
		_, err = l.Append(t.Context(), []Entry{{Queue: queue, ID: []byte("a")}}, nil)
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}
