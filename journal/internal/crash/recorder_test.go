package crash

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/stretchr/testify/require"
)

// The beat costs nothing while nothing runs, but for one at the alibi, and is a sixteenth
// of a life behind at most as long as something does.
func TestTheBeatRestsWhileNothingRuns(t *testing.T) {
	dir, err := directory.Open(t.TempDir())
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		r, err := Record(dir, 1, 3, 2, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		beat := func() time.Duration { return time.Duration(r.beat.Load()) }
		after := func(d time.Duration) time.Duration {
			time.Sleep(d)
			synctest.Wait()
			return beat()
		}
		require.Zero(t, after(alibi-ms), "nothing has run yet")
		require.Equal(t, alibi, after(ms), "lived for the alibi")
		require.Equal(t, alibi, after(time.Minute))

		r.Set(5, 7)
		require.Equal(t, time.Since(r.start), beat(), "exact when something begins to run after a rest")
		for range 100 {
			require.GreaterOrEqual(t, after(time.Second), time.Since(r.start)*15/16)
		}
		r.Clear(5)
		last := after(time.Minute)
		require.Equal(t, last, after(time.Hour), "at rest again")

		r.Set(0, 7)
		require.Equal(t, time.Since(r.start), beat())
		require.NoError(t, r.Close(false))
	})
}

// In its first second a process that has rested notes the alibi all the same.
func TestTheAlibiAfterAShortRun(t *testing.T) {
	dir, err := directory.Open(t.TempDir())
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		r, err := Record(dir, 1, 1, 1, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		time.Sleep(100 * ms)
		r.Set(0, 7)
		time.Sleep(50 * ms)
		r.Clear(0)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, uint64(alibi), r.beat.Load())
		require.NoError(t, r.Close(false))
	})
}
