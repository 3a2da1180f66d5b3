package lock_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/lock"
)

func TestLockable_S04_AnyJobMayUnlockAnyKey(t *testing.T) {
	var keys lock.KeyLocks
	keys.At(0)
	keys.Lock("order-1", lock.Owner{Queue: "q", ID: "1"}, 0)
	require.True(t, keys.Unlock("order-1", true, lock.Owner{Queue: "q", ID: "2"}))
	require.Empty(t, keys.Locked("order-1"))
}

func TestLockable_S05_FlagIsPlain(t *testing.T) {
	var keys lock.KeyLocks
	keys.At(0)
	for range 3 {
		keys.Lock("k", lock.Owner{}, 0)
	}
	require.True(t, keys.Unlock("k", false, lock.Owner{}), "one unlock clears it")
	require.Empty(t, keys.Keys())
	require.False(t, keys.Unlock("k", false, lock.Owner{}), "and a second one does nothing")
}

func TestLockable_S05_CounterNeedsAsManyUnlocks(t *testing.T) {
	var keys lock.KeyLocks
	keys.At(0)
	for range 3 {
		keys.Lock("k", lock.Owner{}, 0)
	}
	for left := 3; left > 0; left-- {
		require.Len(t, keys.Locked("k"), left)
		require.True(t, keys.Unlock("k", true, lock.Owner{}))
	}
	require.False(t, keys.Unlock("k", true, lock.Owner{}), "never below zero")
	keys.Lock("k", lock.Owner{}, 0)
	require.Len(t, keys.Locked("k"), 1, "the one too many changed nothing")
}

// S06: what a service may decide about a job that is blocked.
func TestLockable_S06_Decisions(t *testing.T) {
	boom := errors.New("boom")
	require.Equal(t, lock.Decision{}, lock.Park(), "the default")
	require.Equal(t, boom, lock.Fail(boom).Err)
	require.Equal(t, lock.ErrLocked, lock.Fail(nil).Err)
	require.Zero(t, lock.RequeueAfter(-1).After)
	require.Equal(t, lock.ActionSkip, lock.Skip().Action)
}

func TestKeyLocksWakeAllWatchersInOrder(t *testing.T) {
	var keys lock.KeyLocks
	keys.At(0)
	var woken strings.Builder
	_, is := keys.Watch("k", func() { woken.WriteString("never") })
	require.False(t, is, "not locked: nothing to wait for")
	keys.Lock("k", lock.Owner{}, 0)
	keys.Lock("k", lock.Owner{}, 0)
	cancels := map[string]func(){}
	for _, w := range []string{"a", "b", "c"} {
		cancels[w], is = keys.Watch("k", func() { woken.WriteString(w) })
		require.True(t, is)
	}
	cancels["b"]()
	cancels["b"]()
	keys.Unlock("k", true, lock.Owner{})
	_, wake := keys.Drain()
	require.Nil(t, wake, "it is locked once more")
	keys.Unlock("k", true, lock.Owner{})
	require.Empty(t, woken.String(), "not before the caller lets them")
	_, wake = keys.Drain()
	wake()
	require.Equal(t, "ac", woken.String())
	cancels["a"]()
	_, wake = keys.Drain()
	require.Nil(t, wake, "once")
}

// A key-lock ends at its end and not before it, and Next tells when that is.
func TestKeyLocksExpire(t *testing.T) {
	var keys lock.KeyLocks
	keys.At(0)
	keys.Lock("ever", lock.Owner{}, 0)
	keys.Lock("centuries", lock.Owner{}, math.MaxInt64)
	_, ok := keys.Next()
	require.False(t, ok)
	keys.At(time.Second)
	long, short := keys.Lock("k", lock.Owner{}, time.Hour), keys.Lock("k", lock.Owner{}, time.Minute)
	require.Equal(t, time.Second+time.Minute, short.Until)
	at, ok := keys.Next()
	require.Equal(t, []any{short.Until, true}, []any{at, ok})
	keys.Drain()
	keys.At(at - 1)
	keys.Expire()
	changes, _ := keys.Drain()
	require.Empty(t, changes)
	keys.At(at)
	changes, _ = keys.Drain()
	require.Empty(t, changes, "At ends nothing")
	keys.Expire()
	changes, _ = keys.Drain()
	require.Equal(t, []lock.Change{{Lock: short, Ended: true}}, changes)
	keys.Drop(long, long, short)
	changes, _ = keys.Drain()
	require.Equal(t, []lock.Change{{Lock: long, Ended: true}}, changes)
	_, ok = keys.Next()
	require.False(t, ok)
	require.Equal(t, []string{"centuries", "ever"}, keys.Keys())
}

// What comes back keeps its number and its end; later locks have larger numbers.
func TestKeyLocksComeBack(t *testing.T) {
	var keys lock.KeyLocks
	keys.At(time.Minute)
	a, b := lock.Owner{Queue: "q", ID: "a"}, lock.Owner{Queue: "q", ID: "b"}
	keys.Restore([]*lock.KeyLock{
		{Number: 9, Key: "k", Owner: a, OnRun: true, Since: -time.Hour},
		{Number: 7, Key: "k", Owner: b, Since: -time.Hour, Until: time.Hour},
	})
	changes, _ := keys.Drain()
	require.Empty(t, changes, "that is written down already")
	require.EqualValues(t, 7, keys.Locked("k")[0].Number, "oldest first")
	_, blocked := keys.Enter(lock.Request{Owner: a, BlockedBy: []string{"k"}, Lock: []lock.Setting{{Key: "k"}}}, nil)

	require.Equal(t, "k", blocked, "by the other one")
	keys.At(time.Hour)
	keys.Expire()
	fresh, blocked := keys.Enter(lock.Request{Owner: a, BlockedBy: []string{"k"}, Lock: []lock.Setting{{Key: "k"}, {Key: "l"}}}, nil)

	require.Empty(t, blocked)
	require.Len(t, fresh, 1, "a retry does not lock twice")
	require.EqualValues(t, 10, fresh[0].Number)
}

func TestOwnersHaveNamesOfTheirOwn(t *testing.T) {
	require.Empty(t, lock.Owner{}.String())
	require.Equal(t, "a/b", lock.Owner{ID: "a/b"}.String())
	names := map[string]lock.Owner{}
	for _, o := range []lock.Owner{{"a", "b"}, {"a/b", "c"}, {"a", "b/c"}, {`"a/b"`, "c"}, {"a", `"b"`}, {"a", "\x1b[2J"}, {"a", `"\x1b[2J"`}} {
		require.NotContains(t, names, o.String())
		require.NotContains(t, o.String(), "\x1b")
		names[o.String()] = o
	}
}
