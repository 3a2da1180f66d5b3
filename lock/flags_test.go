package lock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/lock"
)

func locked(t *testing.T, s lock.Service, key string) bool {
	t.Helper()
	is, err := s.Locked(t.Context(), key)
	require.NoError(t, err)
	return is
}

func TestLockable_S04_AnyJobMayUnlockAnyKey(t *testing.T) {
	var flags lock.Flags
	require.NoError(t, flags.Lock(t.Context(), "order-1")) // by one job
	require.NoError(t, flags.Unlock(t.Context(), "order-1"))
	require.False(t, locked(t, &flags, "order-1"))
}

func TestLockable_S05_FlagIsPlain(t *testing.T) {
	var flags lock.Flags
	for range 3 {
		require.NoError(t, flags.Lock(t.Context(), "k"))
	}
	require.True(t, locked(t, &flags, "k"))
	require.NoError(t, flags.Unlock(t.Context(), "k"))
	require.False(t, locked(t, &flags, "k"), "one unlock clears it")
	require.NoError(t, flags.Unlock(t.Context(), "k"), "and a second one is no error")
}

func TestLockable_S05_CounterNeedsAsManyUnlocks(t *testing.T) {
	var counters lock.Counters
	for range 3 {
		require.NoError(t, counters.Lock(t.Context(), "k"))
	}
	for left := 3; left > 0; left-- {
		require.True(t, locked(t, &counters, "k"))
		require.Equal(t, left, counters.Count("k"))
		require.NoError(t, counters.Unlock(t.Context(), "k"))
	}
	require.False(t, locked(t, &counters, "k"))
	require.ErrorIs(t, counters.Unlock(t.Context(), "k"), lock.ErrNotLocked, "never below zero")
	require.NoError(t, counters.Lock(t.Context(), "k"))
	require.Equal(t, 1, counters.Count("k"), "the one too many changed nothing")
}

// userService is a service of a user whose blocked jobs come back later.
type userService struct{ lock.Flags }

func (*userService) HandleLockedBy(_ context.Context, _ []string) lock.Decision {
	return lock.RequeueAfter(time.Minute)
}

func TestLockable_S06_ServiceOfAUser(t *testing.T) {
	var service lock.Service = &userService{}
	handler, ok := service.(lock.LockedHandler)
	require.True(t, ok)
	require.Equal(t, lock.Decision{Action: lock.ActionRequeue, After: time.Minute}, handler.HandleLockedBy(t.Context(), nil))
	_, ok = service.(lock.Watcher)
	require.True(t, ok)

	boom := errors.New("boom")
	require.Equal(t, lock.Decision{}, lock.Park(), "the default")
	require.Equal(t, boom, lock.Fail(boom).Err)
	require.Equal(t, lock.ErrLocked, lock.Fail(nil).Err)
	require.Zero(t, lock.RequeueAfter(-1).After)
	for action, name := range map[lock.Action]string{lock.Park().Action: "park", lock.Fail(nil).Action: "fail",
		lock.RequeueAfter(0).Action: "requeue", lock.Skip().Action: "skip", 99: "unknown"} {
		require.Equal(t, name, action.String())
	}
}

func TestUnlockWakesAllWatchersInOrder(t *testing.T) {
	for name, s := range map[string]interface {
		lock.Service
		lock.Watcher
	}{"flags": &lock.Flags{}, "counters": &lock.Counters{}} {
		t.Run(name, func(t *testing.T) {
			var woken strings.Builder
			_, is := s.Watch("k", func() { woken.WriteString("never") })
			require.False(t, is, "not locked: nothing to wait for")
			require.NoError(t, s.Lock(t.Context(), "k"))
			cancels := map[string]func(){}
			for _, w := range []string{"a", "b", "c"} {
				cancels[w], is = s.Watch("k", func() {
					woken.WriteString(w)
					require.False(t, locked(t, s, "k"), "the service can be used here")
				})
				require.True(t, is)
			}
			cancels["b"]()
			cancels["b"]()
			require.NoError(t, s.Unlock(t.Context(), "k"))
			require.Equal(t, "ac", woken.String())
			cancels["a"]()
			require.NoError(t, s.Lock(t.Context(), "k"))
			require.NoError(t, s.Unlock(t.Context(), "k"))
			require.Equal(t, "ac", woken.String(), "once")
		})
	}
}

func TestFlagOfADeadJobClearsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counters := lock.Counters{TTL: time.Minute}
		require.NoError(t, counters.Lock(t.Context(), "k"))
		time.Sleep(50 * time.Second)
		require.NoError(t, counters.Lock(t.Context(), "k"))
		time.Sleep(50 * time.Second)
		require.Equal(t, 2, counters.Count("k"), "the TTL starts anew with every lock")
		woken := make(chan struct{})
		counters.Watch("k", func() { close(woken) })
		start := time.Now()
		<-woken
		require.Equal(t, 10*time.Second, time.Since(start))
		require.Zero(t, counters.Count("k"))

		flags := lock.Flags{TTL: time.Minute}
		require.NoError(t, flags.Lock(t.Context(), "k"))
		require.True(t, flags.Clear("k"), "a person clears it")
		require.False(t, flags.Clear("k"))
		require.NoError(t, counters.Lock(t.Context(), "k"))
		require.Equal(t, 1, counters.Clear("k"))
	})
}

func TestFlagsRefuseBadInput(t *testing.T) {
	flags, counters := lock.Flags{TTL: -1}, lock.Counters{TTL: -1}
	for _, s := range []lock.Service{&flags, &counters} {
		require.ErrorIs(t, s.Lock(t.Context(), ""), lock.ErrEmptyKey)
		require.ErrorIs(t, s.Unlock(t.Context(), ""), lock.ErrEmptyKey)
		_, err := s.Locked(t.Context(), "")
		require.ErrorIs(t, err, lock.ErrEmptyKey)
		require.ErrorIs(t, s.Lock(t.Context(), "k"), lock.ErrDuration)
		require.False(t, locked(t, s, "k"))
	}
	require.ErrorIs(t, flags.Restore([]lock.Count{{Key: "a", N: 1}, {Key: "", N: 1}}), lock.ErrEmptyKey)
	require.ErrorIs(t, flags.Restore([]lock.Count{{Key: "a", N: 0}}), lock.ErrNotLocked)
	require.ErrorIs(t, flags.Restore([]lock.Count{{Key: "a", N: 1, TTL: -1}}), lock.ErrDuration)
	require.Empty(t, flags.Snapshot())
}

func TestCountersComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := lock.Counters{TTL: time.Minute}
		require.NoError(t, old.Lock(t.Context(), "expires"))
		time.Sleep(30 * time.Second)
		for range 3 {
			require.NoError(t, old.Lock(t.Context(), "lives"))
		}
		old.TTL = 0
		require.NoError(t, old.Lock(t.Context(), "stays"))
		kept := old.Snapshot()
		require.Len(t, kept, 3)
		time.Sleep(30 * time.Second) // the process is down

		var now lock.Counters
		require.NoError(t, now.Restore(kept))
		require.Zero(t, now.Count("expires"), "what has expired is not resurrected")
		require.Equal(t, 3, now.Count("lives"))
		require.Equal(t, 1, now.Count("stays"))
		snapshot := now.Snapshot()
		require.Equal(t, kept[1:], snapshot)
		time.Sleep(30 * time.Second)
		require.Zero(t, now.Count("lives"), "at the same time as it would have without a restart")
		require.Equal(t, 1, now.Count("stays"))
	})
}

// Every lock is met by one unlock, from many goroutines; the sum is conserved.
func TestCountersConserveTheSum(t *testing.T) {
	var counters lock.Counters
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1_000 {
				if counters.Lock(t.Context(), "k") != nil || counters.Unlock(t.Context(), "k") != nil {
					t.Error("locked once, unlocked once")
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, counters.Count("k"))
}
