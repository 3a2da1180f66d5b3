package journal

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// keysOf lists the state keys with a prefix, from one on.
func keysOf(t *testing.T, l *Log, prefix, from string) (keys []string) {
	t.Helper()
	for s, err := range l.Keys(prefix, from) {
		require.NoError(t, err)
		keys = append(keys, s.Key+"="+string(s.Value))
	}
	return keys
}

func TestPut(t *testing.T) {
	for _, volatile := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			disk := new(Memory)
			on := disk
			if volatile {
				on = nil
			}
			l, err := OpenMemory(on, Config{})
			require.NoError(t, err)
			require.NoError(t, l.Put(t.Context()), "nothing to wait for")
			require.NoError(t, l.Put(t.Context(), Set{Key: "a/1", Value: []byte("x")}, Set{Key: "a/2", Value: []byte("y")}, Set{Key: "b/1", Value: []byte("z")}))
			require.NoError(t, l.Put(t.Context(), Set{Key: "a/1", Value: []byte("X")}, Set{Key: "a/3", Value: []byte("Z")}))
			require.Equal(t, []string{"a/1=X", "a/2=y", "a/3=Z"}, keysOf(t, l, "a/", ""))
			require.Equal(t, []string{"a/2=y", "a/3=Z"}, keysOf(t, l, "a/", "a/1\x00"))
			require.Empty(t, keysOf(t, l, "a/", "b"))
			require.NoError(t, l.Put(t.Context(), Set{Key: "a/2"}))
			require.Equal(t, []string{"a/1=X", "a/3=Z"}, keysOf(t, l, "a/", ""))
			if !volatile {
				disk.FailNext(ErrFull, ErrFull, ErrFull) // whole, in pieces, and once more
				l.Record(&Change{Sets: []Set{{Key: "a/4", Value: []byte("kept")}}})
				require.ErrorIs(t, l.Put(t.Context(), Set{Key: "a/1", Value: []byte("refused")}), ErrFull)
				require.ErrorIs(t, l.Put(t.Context(), Set{Key: "a/1", Value: []byte("refused")}), ErrFull, "as long as it is")
				time.Sleep(4 * fullRetry)
				require.Equal(t, []string{"a/1=X", "a/3=Z", "a/4=kept"}, keysOf(t, l, "a/", ""))
			}
			require.NoError(t, l.Close())
			require.ErrorIs(t, l.Put(t.Context(), Set{Key: "a/1", Value: nil}), ErrClosed)
		})
	}
}
