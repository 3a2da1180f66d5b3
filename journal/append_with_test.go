package journal

import (
	"fmt"
	"slices"
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
		accepted, err := l.Append(t.Context(), entry, mark("accepted"))
		require.NoError(t, err)
		require.NoError(t, accepted.Wait(t.Context()))

		disk.FailNext(ErrFull, ErrFull, ErrFull) // whole, in pieces, and once more
		l.committing.Lock()                      // all in one block
		posted, err := l.Post(t.Context(), entry, mark("posted"))
		require.NoError(t, err)
		refused, err := l.Append(t.Context(), entry, mark("refused"))
		require.NoError(t, err)
		l.Record(&Change{Sets: []Set{{Key: "test/recorded", Value: []byte("x")}}})
		l.committing.Unlock()
		require.ErrorIs(t, refused.Wait(t.Context()), ErrFull)
		time.Sleep(4 * fullRetry) // virtual
		require.NoError(t, l.Close())

		l, err = OpenMemory(disk, Config{})
		require.NoError(t, err)
		found := make(map[string]string)
		for s, err := range l.Keys("test/", "") {
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

// What waits for room with its entries must not undo what was decided about the
// same keys since: in the same block, in the next one, and later.
func TestKeysThatAreDecidedWhileTheirEntriesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := new(Memory)
		l, err := OpenMemory(disk, Config{})
		require.NoError(t, err)
		failing, goOn := make(chan struct{}), make(chan struct{})
		l.store = &stopper{Store: disk, stop: func() { close(failing); <-goOn }}
		post := func(words ...string) {
			_, err := l.Post(t.Context(), []Entry{{Queue: 1, ID: []byte("a")}}, func(Position) (sets []Set) {
				for _, word := range words {
					sets = append(sets, Set{Key: "test/" + word, Value: []byte("posted")})
				}
				return sets
			})
			require.NoError(t, err)
		}
		decide := func(word string) {
			l.Record(&Change{Sets: []Set{{Key: "test/" + word}, {Key: "test/" + word + " changed", Value: []byte("decided")}}})
		}
		disk.FailNext(ErrFull, ErrFull, ErrFull, ErrFull)
		l.committing.Lock() // the first block
		decide("before")
		post("before", "same", "same changed", "next", "next changed", "later", "later changed", "never")
		decide("same")
		l.committing.Unlock()
		<-failing
		decide("next")
		post("before", "later", "later changed", "second")
		close(goOn)
		synctest.Wait()
		require.ErrorIs(t, l.Err(), ErrFull)
		decide("later")
		time.Sleep(6 * fullRetry) // virtual
		require.NoError(t, l.Err())
		require.Empty(t, l.disk.owed)
		require.NoError(t, l.Close())

		l, err = OpenMemory(disk, Config{})
		require.NoError(t, err)
		require.Len(t, slices.Concat(l.PendingPages(1)...), 2)
		found := make(map[string]string)
		for s, err := range l.Keys("test/", "") {
			require.NoError(t, err)
			found[s.Key] = string(s.Value)
		}
		require.Equal(t, map[string]string{
			"test/before": "posted", "test/before changed": "decided", "test/same changed": "decided",
			"test/next changed": "decided", "test/later changed": "decided", "test/never": "posted", "test/second": "posted",
		}, found)
		require.NoError(t, l.Close())
	})
}
