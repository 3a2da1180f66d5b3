package journaltest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

var copyTests = map[string]func(*testing.T, Disk){
	"copy/of a log at rest":    opened(testCopy),
	"copy/of a log at work":    opened(testCopyRunning),
	"copy/where something is":  opened(testCopyExists),
	"copy/of an empty journal": testCopyEmpty,
}

func testCopy(t *testing.T, f *fixture) {
	f.bury(3)
	f.append(f.entries(0, 10, 3000)...)
	f.end(refsOf(f.taken()[4:6])...)
	dir := Dir(filepath.Join(t.TempDir(), "copy"))
	require.NoError(t, f.Copy(t.Context(), string(dir)))
	copied := start(t, dir)
	assert.Equal(t, f.Stats().Next, copied.Stats().Next)
	assert.Equal(t, f.Stats().Epoch+1, copied.Stats().Epoch)
	assert.Equal(t, f.Queues(), copied.Queues())
	assert.Equal(t, f.morgue(), copied.morgue())
	want := f.taken()
	want = append(want[3:4:4], want[6:]...)
	assert.Equal(t, entriesOf(want), copied.pending())
	copied.append(copied.entries(0, 1, 1)...) // goes its own way
	copied = copied.again()
	assert.Len(t, copied.pending(), len(want)+1)
	assert.Len(t, f.again().pending(), len(want))
}

// testCopyRunning copies while the file grows, again and again: each copy holds
// every commit up to one, from those before Copy began to those at its end.
func testCopyRunning(t *testing.T, f *fixture) {
	work, stopped := make(chan int, 10), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := range work {
			ticket, err := f.Append(t.Context(), f.entries(i*10, 10, 3000), nil)
			if assert.NoError(t, err) {
				assert.NoError(t, ticket.Wait(t.Context()))
			}
		}
	}()
	root := t.TempDir()
	for n := range 6 {
		for i := range 30 { // of which the last ten are still to be written
			work <- n*30 + i
		}
		before := len(f.taken())
		dir := Dir(filepath.Join(root, "copy"))
		require.NoError(t, f.Copy(t.Context(), string(dir)))
		after := int(f.Stats().Next) - 1
		copied := start(t, dir)
		got := copied.pending()
		assert.Zero(t, len(got)%10, "a commit is there whole or not at all")
		assert.LessOrEqual(t, before, len(got))
		assert.LessOrEqual(t, len(got), after)
		for i, e := range got {
			require.Equal(t, journal.Position(i+1), e.Position)
			require.Equal(t, payload(i, 3000), e.Payload)
		}
		require.NoError(t, copied.Close())
		require.NoError(t, os.RemoveAll(string(dir)))
	}
	close(work)
	<-stopped
}

func testCopyExists(t *testing.T, f *fixture) {
	dir := t.TempDir()
	assert.ErrorIs(t, f.Copy(t.Context(), dir), journal.ErrExists)
	assert.Error(t, f.Copy(t.Context(), filepath.Join(dir, "no", "parent")))
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, names, "nothing is left behind")
	require.NoError(t, f.Close())
	assert.ErrorIs(t, f.Copy(t.Context(), filepath.Join(dir, "copy")), journal.ErrClosed)

	volatile, err := journal.OpenMemory(nil, journal.Config{})
	require.NoError(t, err)
	assert.ErrorIs(t, volatile.Copy(t.Context(), filepath.Join(dir, "copy")), errors.ErrUnsupported)
	require.NoError(t, volatile.Close())
}

func testCopyEmpty(t *testing.T, disk Disk) {
	l, err := disk.Open(journal.Config{})
	require.NoError(t, err)
	dir := Dir(filepath.Join(t.TempDir(), "copy"))
	require.NoError(t, l.Copy(t.Context(), string(dir)))
	require.NoError(t, l.Close())
	assert.Equal(t, uint64(2), start(t, dir).Stats().Epoch)
}
