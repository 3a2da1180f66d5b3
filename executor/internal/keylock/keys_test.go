package keylock

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/brief"
)

func TestLockable_S04_AnyJobMayUnlockAnyKey(t *testing.T) {
	keys := newLocks()
	keys.now = 0
	keys.Lock("order-1", admit.Owner{Queue: "q", ID: "1"}, 0)
	require.True(t, keys.Unlock("order-1", true, admit.Owner{Queue: "q", ID: "2"}))
	require.Empty(t, keys.Locked("order-1"))
}

func TestLockable_S05_FlagIsPlain(t *testing.T) {
	keys := newLocks()
	keys.now = 0
	for range 3 {
		keys.Lock("k", admit.Owner{}, 0)
	}
	require.True(t, keys.Unlock("k", false, admit.Owner{}), "one unlock clears it")
	require.Empty(t, keys.Keys())
	require.False(t, keys.Unlock("k", false, admit.Owner{}), "and a second one does nothing")
}

func TestLockable_S05_CounterNeedsAsManyUnlocks(t *testing.T) {
	keys := newLocks()
	keys.now = 0
	for range 3 {
		keys.Lock("k", admit.Owner{}, 0)
	}
	for left := 3; left > 0; left-- {
		require.Len(t, keys.Locked("k"), left)
		require.True(t, keys.Unlock("k", true, admit.Owner{}))
	}
	require.False(t, keys.Unlock("k", true, admit.Owner{}), "never below zero")
	keys.Lock("k", admit.Owner{}, 0)
	require.Len(t, keys.Locked("k"), 1, "the one too many changed nothing")
}

func TestKeyLocksWakeAllWatchersInOrder(t *testing.T) {
	keys := newLocks()
	keys.now = 0
	var woken strings.Builder
	_, is := keys.Watch("k", func() { woken.WriteString("never") })
	require.False(t, is, "not locked: nothing to wait for")
	keys.Lock("k", admit.Owner{}, 0)
	keys.Lock("k", admit.Owner{}, 0)
	cancels := map[string]func(){}
	for _, w := range []string{"a", "b", "c"} {
		cancels[w], is = keys.Watch("k", func() { woken.WriteString(w) })
		require.True(t, is)
	}
	cancels["b"]()
	cancels["b"]()
	keys.Unlock("k", true, admit.Owner{})
	_, wakes := keys.drain()
	require.Empty(t, wakes, "it is locked once more")
	keys.Unlock("k", true, admit.Owner{})
	require.Empty(t, woken.String(), "not before the caller lets them")
	_, wakes = keys.drain()
	for _, wake := range wakes {
		wake()
	}
	require.Equal(t, "ac", woken.String())
	cancels["a"]()
	_, wakes = keys.drain()
	require.Empty(t, wakes, "once")
}

// A key-lock ends at its end and not before it, and Next tells when that is.
func TestKeyLocksExpire(t *testing.T) {
	keys := newLocks()
	keys.now = 0
	keys.Lock("ever", admit.Owner{}, 0)
	keys.Lock("centuries", admit.Owner{}, math.MaxInt64)
	_, ok := keys.next()
	require.False(t, ok)
	keys.now = time.Second
	long, short := keys.Lock("k", admit.Owner{}, time.Hour), keys.Lock("k", admit.Owner{}, time.Minute)
	require.Equal(t, time.Second+time.Minute, short.Until)
	at, ok := keys.next()
	require.Equal(t, []any{short.Until, true}, []any{at, ok})
	keys.drain()
	keys.now = at - 1
	keys.expire()
	changes, _ := keys.drain()
	require.Empty(t, changes)
	keys.now = at
	changes, _ = keys.drain()
	require.Empty(t, changes, "time alone ends nothing")
	keys.expire()
	changes, _ = keys.drain()
	require.Equal(t, []*Lock{short}, changes)
	require.Nil(t, short.entry)
	keys.Drop(long, long, short)
	changes, _ = keys.drain()
	require.Equal(t, []*Lock{long}, changes)
	require.Nil(t, long.entry)
	_, ok = keys.next()
	require.False(t, ok)
	require.ElementsMatch(t, []string{"centuries", "ever"}, keys.Keys())
}

// What comes back keeps its number and its end; later locks have larger numbers.
func TestKeyLocksComeBack(t *testing.T) {
	keys := newLocks()
	keys.now = time.Minute
	a, b := admit.Owner{Queue: "q", ID: "a"}, admit.Owner{Queue: "q", ID: "b"}
	keys.restoreAll([]*Lock{
		{Number: 9, Key: "k", Owner: a, OnRun: true, Since: -time.Hour},
		{Number: 7, Key: "k", Owner: b, Since: -time.Hour, Until: time.Hour},
	})
	changes, _ := keys.drain()
	require.Empty(t, changes, "that is written down already")
	require.EqualValues(t, 7, keys.Locked("k")[0].Number, "oldest first")
	_, blocked := keys.Enter(request{By: a, BlockedBy: []string{"k"}, Lock: []setting{{Key: "k"}}}, nil)

	require.Equal(t, "k", blocked, "by the other one")
	keys.now = time.Hour
	keys.expire()
	fresh, blocked := keys.Enter(request{By: a, BlockedBy: []string{"k"}, Lock: []setting{{Key: "k"}, {Key: "l"}}}, nil)

	require.Empty(t, blocked)
	require.Len(t, fresh, 1, "a retry does not lock twice")
	require.EqualValues(t, 10, fresh[0].Number)
}

// To show a key takes no longer the more have locked it, wait for it, or were called at others.
func TestKeyLocksAreShownWithoutTheRest(t *testing.T) {
	const many = 20_000
	k := &Keys{clock: time.Now, base: time.Now(), locks: newLocks()}
	owner := func(i int) admit.Owner { return admit.Owner{Queue: "q", ID: fmt.Sprint(i)} }
	for i := range many {
		k.Lock("k", owner(i), 0)
		k.Enter(request{By: owner(many + i), BlockedBy: []string{"k"}}, func() {})
		k.Lock("l", owner(-1), 0)
		k.Enter(request{By: owner(2*many + i), BlockedBy: []string{"l"}}, func() {})
	}
	k.Unlock("l", false, admit.Owner{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s := k.Status("k")
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100<<10))
	require.Equal(t, []int{brief.Most, brief.Most, many - brief.Most, many - brief.Most},
		[]int{len(s.Locks), len(s.Waiting), s.MoreLocks, s.MoreWaiting})
	require.Equal(t, []string{owner(0).String(), owner(many).String()}, []string{s.Locks[0].By, s.Waiting[0]}, "the first ones")
	s = k.Status("l")
	require.Equal(t, []int{brief.Most, many - brief.Most}, []int{len(s.Called), s.MoreCalled})
	require.Equal(t, owner(2*many).String(), s.Called[0])
}
