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
	for s, err := range l.KeysFrom(prefix, from) {
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
			require.NoError(t, l.Put(t.Context(), Set{"a/1", []byte("x")}, Set{"a/2", []byte("y")}, Set{"b/1", []byte("z")}))
			require.NoError(t, l.Put(t.Context(), Set{"a/1", []byte("X")}, Set{"a/3", []byte("Z")}))
			require.Equal(t, []string{"a/1=X", "a/2=y", "a/3=Z"}, keysOf(t, l, "a/", ""))
			require.Equal(t, []string{"a/2=y", "a/3=Z"}, keysOf(t, l, "a/", "a/1\x00"))
			require.Empty(t, keysOf(t, l, "a/", "b"))
			require.NoError(t, l.Put(t.Context(), Set{Key: "a/2"}))
			require.Equal(t, []string{"a/1=X", "a/3=Z"}, keysOf(t, l, "a/", ""))
			if !volatile {
				disk.FailNext(ErrFull, ErrFull, ErrFull) // whole, in pieces, and once more
				l.Record(&Change{Sets: []Set{{"a/4", []byte("kept")}}})
				require.ErrorIs(t, l.Put(t.Context(), Set{"a/1", []byte("refused")}), ErrFull)
				require.ErrorIs(t, l.Put(t.Context(), Set{"a/1", []byte("refused")}), ErrFull, "as long as it is")
				time.Sleep(4 * fullRetry)
				require.Equal(t, []string{"a/1=X", "a/3=Z", "a/4=kept"}, keysOf(t, l, "a/", ""))
			}
			require.NoError(t, l.Close())
			require.ErrorIs(t, l.Put(t.Context(), Set{"a/1", nil}), ErrClosed)
		})
	}
}
