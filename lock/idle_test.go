package lock

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A table that holds and waits without TTLs has no timer; one whose leases have all
// ended has none any more. That no goroutine is left is checked by every bubble
// when it ends.
func TestNoWakeUpsWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := new(Table)
		for i := range 100 {
			_, err := table.TryAcquire(Options{}, fmt.Sprint(i))
			require.NoError(t, err)
			_, err = table.Queue(Options{TTL: time.Minute}, nil, fmt.Sprint(i))
			require.NoError(t, err)
		}
		time.Sleep(1000 * time.Hour)
		require.Nil(t, table.timer.timer, "nothing can expire")

		short, err := table.TryAcquire(Options{TTL: time.Second}, "short")
		require.NoError(t, err)
		long, err := table.TryAcquire(Options{TTL: time.Hour}, "long")
		require.NoError(t, err)
		require.NoError(t, short.Unlock())
		require.NoError(t, long.Unlock())
		require.False(t, table.timer.on)
		time.Sleep(1000 * time.Hour)
		require.Zero(t, table.timer.fired)

		_, err = table.TryAcquire(Options{TTL: time.Second}, "short")
		require.NoError(t, err)
		time.Sleep(1000 * time.Hour)
		synctest.Wait()
		require.Equal(t, 1, table.timer.fired, "one wake-up for one end")
	})
}

func TestNoWakeUpsOfCandidates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := new(Table).NewElection("cron", ElectionConfig{AutoExtend: true})
		require.NoError(t, err)
		c, err := e.Candidate("a")
		require.NoError(t, err)
		require.True(t, c.IsLeader())
		time.Sleep(time.Hour + time.Second) // not at the instant of an extension
		require.NotZero(t, c.Epoch())
		require.NoError(t, c.Resign())
		require.False(t, e.table.timer.on)
	})
}

// A heartbeat does not touch the timer; it fires early, once, and is set anew.
func TestHeartbeatsDoNotResetTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := new(Table)
		l, err := table.TryAcquire(Options{TTL: time.Minute}, "k")
		require.NoError(t, err)
		for range 100 {
			time.Sleep(time.Second)
			require.NoError(t, l.Extend(time.Minute))
		}
		synctest.Wait()
		require.LessOrEqual(t, table.timer.fired, 2)
	})
}

// What a table remembers of unused keys is bounded.
func TestIdleKeysAreForgotten(t *testing.T) {
	table := new(Table)
	for i := range 10 * maxIdle {
		l, err := table.TryAcquire(Options{}, fmt.Sprint(i), fmt.Sprint("x", i))
		require.NoError(t, err)
		require.NoError(t, l.Unlock())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = table.Acquire(ctx, Options{}, fmt.Sprint("y", i))
		require.Error(t, err)
	}
	require.LessOrEqual(t, len(table.entries), maxIdle)
	require.Equal(t, table.idle.n, len(table.entries))
	require.Empty(t, table.waiting)
	_, err := table.TryAcquire(Options{}, "0")
	require.NoError(t, err)
}

// A lease that is older than what the table remembers of its key is still known to
// be lost.
func TestLeaseOfAForgottenKey(t *testing.T) {
	table := new(Table)
	old, err := table.TryAcquire(Options{}, "k")
	require.NoError(t, err)
	require.NoError(t, old.Unlock())
	for i := range 2 * maxIdle {
		l, err := table.TryAcquire(Options{}, fmt.Sprint(i))
		require.NoError(t, err)
		require.NoError(t, l.Unlock())
	}
	require.NotContains(t, table.entries, "k")
	now, err := table.TryAcquire(Options{}, "k")
	require.NoError(t, err)
	require.ErrorIs(t, old.Unlock(), ErrLockLost)
	require.True(t, now.Held())
}

// A context that is cancelled early leaves nothing behind, however long the lease
// lasts.
func TestForgottenContextsAreForgotten(t *testing.T) {
	l, err := new(Table).TryAcquire(Options{}, "k")
	require.NoError(t, err)
	for range 100 {
		_, cancel := l.Context(t.Context())
		cancel()
	}
	require.Empty(t, l.record.hooks)
}
