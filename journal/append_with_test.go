package journal

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// State keys that come with entries share their fate: accepted together,
// refused together, kept together when they were posted.
func TestKeysGoWithTheirEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := new(Memory)
		l, err := OpenMemory(disk, Config{})
		require.NoError(t, err)
		entry := []Entry{{Queue: 1, ID: []byte("a")}}
		mark := func(word string) func(Position) []Set {
			return func(first Position) []Set {
				return []Set{{Key: "test/" + word, Value: fmt.Append(nil, first)}}
			}
		}
		accepted, err := l.AppendWith(t.Context(), entry, mark("accepted"))
		require.NoError(t, err)
		require.NoError(t, accepted.Wait(t.Context()))

		disk.FailNext(ErrFull, ErrFull, ErrFull) // whole, in pieces, and once more
		l.committing.Lock()                      // all in one block
		posted, err := l.PostWith(t.Context(), entry, mark("posted"))
		require.NoError(t, err)
		refused, err := l.AppendWith(t.Context(), entry, mark("refused"))
		require.NoError(t, err)
		l.Record(&Change{Sets: []Set{{Key: "test/recorded", Value: []byte("x")}}})
		l.committing.Unlock()
		require.ErrorIs(t, refused.Wait(t.Context()), ErrFull)
		time.Sleep(4 * fullRetry) // virtual
		require.NoError(t, l.Close())

		l, err = OpenMemory(disk, Config{})
		require.NoError(t, err)
		found := make(map[string]string)
		for s, err := range l.Keys("test/") {
			require.NoError(t, err)
			found[s.Key] = string(s.Value)
		}
		require.Equal(t, map[string]string{
			"test/accepted": fmt.Sprint(accepted.Position(0)),
			"test/posted":   fmt.Sprint(posted.Position(0)),
			"test/recorded": "x",
		}, found)
		require.NoError(t, l.Close())
	})
}
