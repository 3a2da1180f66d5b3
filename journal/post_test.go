package journal

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A full disk refuses those who wait and keeps what was posted: no caller would
// learn that it went, and what came later would survive it.
func TestPostedEntriesOutliveAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := new(Memory)
		var delivered []Position
		l, err := OpenMemory(disk, Config{Deliver: func(d *Delivery) {
			var e Entry
			for i := range d.Len() {
				delivered = append(delivered, must(d.Read(i, &e)).Position())
			}
			d.Done()
		}})
		require.NoError(t, err)
		disk.FailNext(ErrFull, ErrFull, ErrFull)
		one := func(id string) []Entry { return []Entry{{Queue: 1, ID: []byte(id)}} }
		l.committing.Lock() // both in one block
		posted, err := l.Post(t.Context(), one("posted"), nil)
		require.NoError(t, err)
		waiting, err := l.Append(t.Context(), one("waiting"), nil)
		require.NoError(t, err)
		l.committing.Unlock()
		require.ErrorIs(t, waiting.Wait(t.Context()), ErrFull)
		_, err = l.Post(t.Context(), one("late"), nil)
		require.ErrorIs(t, err, ErrFull, "a caller who comes now can be told")

		time.Sleep(4 * fullRetry) // virtual
		synctest.Wait()
		require.NoError(t, l.Close())
		require.Equal(t, []Position{posted.Position(0)}, delivered)

		l, err = OpenMemory(disk, Config{})
		require.NoError(t, err)
		pending := slices.Concat(l.PendingPages(1)...)
		require.Len(t, pending, 1)
		require.Equal(t, posted.Position(0), pending[0].Position())
		require.NoError(t, l.Close())
	})
}
