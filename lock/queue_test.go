package lock_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/lock"
)

func TestQueueGrantsAtOnceWithoutWake(t *testing.T) {
	table := new(lock.Table)
	p, err := table.Queue(lock.Options{}, func() { require.Fail(t, "granted on return") }, "a", "b")
	require.NoError(t, err)
	l, ok := p.Lease()
	require.True(t, ok)
	require.NoError(t, l.Unlock())
	_, ok = p.Lease()
	require.True(t, ok, "it was granted, even if the lease has ended since")
	require.False(t, p.Cancel())
}

func TestQueueWakesExactlyOnceOutsideTheLock(t *testing.T) {
	table := new(lock.Table)
	held := try(t, table, lock.Options{}, "a")
	wakes := 0
	var p *lock.Place
	p, err := table.Queue(lock.Options{}, func() {
		wakes++
		require.Len(t, table.List(), 1, "the table can be used here")
		l, ok := p.Lease()
		require.True(t, ok)
		require.True(t, l.Held())
	}, "a")
	require.NoError(t, err)
	_, ok := p.Lease()
	require.False(t, ok)
	require.NoError(t, held.Unlock())
	require.Equal(t, 1, wakes)
	l, _ := p.Lease()
	require.NoError(t, l.Unlock())
	require.Equal(t, 1, wakes)
}

// 10,000 waiters on one key, each woken once, in order, one per unlock.
func TestTenThousandWaitersFIFO(t *testing.T) {
	const n = 10_000
	table := new(lock.Table)
	l := try(t, table, lock.Options{}, "k")
	places := make([]*lock.Place, n)
	var order []int
	for i := range places {
		var err error
		places[i], err = table.Queue(lock.Options{Owner: fmt.Sprint(i)}, func() { order = append(order, i) }, "k")
		require.NoError(t, err)
	}
	require.Len(t, table.Status("k").Waiters, n)
	last := l.Token()
	for i := range places {
		require.NoError(t, l.Unlock())
		if len(order) != i+1 || order[i] != i {
			require.FailNow(t, "not one by one in order", "unlock %d woke %v", i, order[i:])
		}
		l, _ = places[i].Lease()
		require.Equal(t, last+1, l.Token())
		last++
	}
	require.NoError(t, l.Unlock())
	require.Empty(t, table.List())
}

func TestAFreeKeyWithAWaiterIsNotFree(t *testing.T) {
	table := new(lock.Table)
	b := try(t, table, lock.Options{}, "b")
	wide, err := table.Queue(lock.Options{Owner: "wide"}, nil, "a", "b")
	require.NoError(t, err)
	_, err = table.TryAcquire(lock.Options{}, "a") // a is not held, but wide is first
	require.ErrorIs(t, err, lock.ErrLocked)
	require.EqualError(t, err, `lock: "a" is promised to a waiter`)
	narrow, err := table.Queue(lock.Options{}, nil, "a")
	require.NoError(t, err)
	_, ok := narrow.Lease()
	require.False(t, ok, "no barging")

	require.NoError(t, b.Unlock())
	l, ok := wide.Lease()
	require.True(t, ok)
	require.NoError(t, l.Unlock())
	_, ok = narrow.Lease()
	require.True(t, ok)
}

func TestCancelLetsTheNextOnesPass(t *testing.T) {
	table := new(lock.Table)
	b := try(t, table, lock.Options{}, "b")
	woken := ""
	queue := func(name string, keys ...string) *lock.Place {
		p, err := table.Queue(lock.Options{}, func() { woken += name }, keys...)
		require.NoError(t, err)
		return p
	}
	wide := queue("w", "a", "b", "c")
	queue("1", "a")
	queue("2", "c")
	mid := queue("m", "b")
	queue("3", "b")
	require.True(t, mid.Cancel(), "from the middle of a queue")
	require.True(t, wide.Cancel())
	require.False(t, wide.Cancel(), "a second time does nothing")
	require.Equal(t, "12", woken, "its two ready keys went to the next ones")
	require.NoError(t, b.Unlock())
	require.Equal(t, "123", woken)
}

func TestCancelAfterTheGrantGivesTheLeaseBack(t *testing.T) {
	table := new(lock.Table)
	held := try(t, table, lock.Options{}, "k")
	first, err := table.Queue(lock.Options{}, nil, "k")
	require.NoError(t, err)
	second, err := table.Queue(lock.Options{}, nil, "k")
	require.NoError(t, err)
	require.NoError(t, held.Unlock())
	l, _ := first.Lease()
	require.False(t, first.Cancel())
	require.False(t, l.Held())
	_, ok := first.Lease()
	require.False(t, ok)
	_, ok = second.Lease()
	require.True(t, ok)
}

func TestAPanickingWakeHarmsNobodyElse(t *testing.T) {
	table := new(lock.Table)
	held := try(t, table, lock.Options{}, "a", "b", "c")
	var woken strings.Builder
	for _, key := range []string{"a", "b", "c"} {
		_, err := table.Queue(lock.Options{}, func() {
			woken.WriteString(key)
			panic("in user code")
		}, key)
		require.NoError(t, err)
	}
	require.Panics(t, func() { _ = held.Unlock() })
	require.Equal(t, "abc", woken.String())
	require.Len(t, table.List(), 3, "the table works on")
}

// 10,000 wakes that unlock at once make a chain, not an overflow.
func TestWakeMayUnlock(t *testing.T) {
	table := new(lock.Table)
	held := try(t, table, lock.Options{}, "k")
	done := 0
	for range 10_000 {
		var p *lock.Place
		p, err := table.Queue(lock.Options{}, func() {
			l, _ := p.Lease()
			if l.Unlock() == nil {
				done++
			}
		}, "k")
		require.NoError(t, err)
	}
	require.NoError(t, held.Unlock())
	require.Equal(t, 10_000, done)
}

// An expiry grants several waiters in one instant, whichever call notices it first.
func TestExpiryChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := new(lock.Table)
		try(t, table, lock.Options{TTL: time.Second}, "k")
		for range 100 {
			_, err := table.Queue(lock.Options{TTL: time.Second}, nil, "k")
			require.NoError(t, err)
		}
		time.Sleep(50 * time.Second)
		require.Len(t, table.Status("k").Waiters, 50)
		time.Sleep(51 * time.Second)
		require.Empty(t, table.List())
	})
}
