package lock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/lock"
)

// TestUserCodeMayCallBack: what a user gives is called under no lock of the
// package, so it may call whatever there is. A mutex would hang here.
func TestUserCodeMayCallBack(t *testing.T) {
	table := new(lock.Table)
	var slots *lock.Slots[int]
	called, deep := map[string]int{}, false
	everything := func(from string) {
		called[from]++
		require.NoError(t, try(t, table, lock.Options{}, "another").Unlock())
		table.List()
		slots.Last()
		slots.Watch(func() {})()
		if !deep && from == "Next" { // its own Next comes back here
			deep = true
			inner, err := slots.Reserve(t.Context(), lock.Options{})
			require.NoError(t, err)
			require.NoError(t, inner.Unlock())
		}
	}
	slots = newSlots(t, lock.SlotsConfig[int]{
		Table:     table,
		StartFrom: func(context.Context) (int, error) { everything("StartFrom"); return 10, nil },
		Next:      func(v int) int { everything("Next"); return v + 1 },
	})
	defer slots.Watch(func() { everything("wake of a slot") })()
	r, err := slots.Reserve(t.Context(), lock.Options{})
	require.NoError(t, err)
	require.Equal(t, 11, r.Value())
	require.NoError(t, r.Unlock())
	held := try(t, table, lock.Options{}, "k")
	_, err = table.Queue(lock.Options{}, func() { everything("wake of a key") }, "k")
	require.NoError(t, err)
	require.NoError(t, held.Unlock())
	require.Len(t, called, 4, "%v", called)
}

func TestUncontendedAllocatesNothing(t *testing.T) {
	table := new(lock.Table)
	keys := []string{"k"}
	take := func() {
		l, err := table.TryAcquire(lock.Options{Owner: "me"}, keys...)
		if err != nil || l.Unlock() != nil {
			t.Fatal(err)
		}
	}
	take()
	require.Zero(t, testing.AllocsPerRun(1000, take))
}

// A table may have what was left with OnEnd called elsewhere.
func TestHook(t *testing.T) {
	var left []func()
	table := &lock.Table{Hook: func(f func()) { left = append(left, f) }}
	l := try(t, table, lock.Options{}, "k")
	var reason error
	l.OnEnd(func(err error) { reason = err })
	require.NoError(t, l.Unlock())
	require.NoError(t, reason)
	require.Len(t, left, 1)
	left[0]()
	require.ErrorIs(t, reason, lock.ErrUnlocked)
}
