package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/lock"
)

func try(t *testing.T, table *lock.Table, opt lock.Options, keys ...string) lock.Lease {
	t.Helper()
	l, err := table.TryAcquire(opt, keys...)
	require.NoError(t, err)
	return l
}

func TestOneHolderPerKey(t *testing.T) {
	var table lock.Table // the zero value works
	l := try(t, &table, lock.Options{Owner: "a"}, "k")
	_, err := table.TryAcquire(lock.Options{Owner: "b"}, "k")
	require.ErrorIs(t, err, lock.ErrLocked)
	locked, ok := errors.AsType[*lock.LockedError](err)
	require.True(t, ok)
	require.Equal(t, "k", locked.Key)
	require.Equal(t, "a", locked.Holder.Owner)
	require.Equal(t, l.Token(), locked.Holder.Token)
	require.EqualError(t, err, `lock: "k" is held by "a" (token 1)`)
	try(t, &table, lock.Options{Owner: "b"}, "other")
	require.NoError(t, l.Unlock())
	try(t, &table, lock.Options{Owner: "b"}, "k")
}

func TestSeveralKeysAllOrNone(t *testing.T) {
	table := new(lock.Table)
	b := try(t, table, lock.Options{}, "b")
	_, err := table.TryAcquire(lock.Options{}, "c", "b", "a")
	require.ErrorIs(t, err, lock.ErrLocked)
	require.Len(t, table.List(), 1, "nothing taken by the one that failed")
	require.NoError(t, b.Unlock())
	l := try(t, table, lock.Options{}, "c", "b", "a", "b")
	require.Equal(t, []string{"a", "b", "c"}, l.Keys())
	require.NoError(t, l.Unlock())
	require.Empty(t, table.List())
}

func TestBadInputChangesNothing(t *testing.T) {
	table := new(lock.Table)
	ctx := t.Context()
	for name, c := range map[string]struct {
		opt  lock.Options
		keys []string
		want error
	}{
		"no key":       {lock.Options{}, nil, lock.ErrEmptyKey},
		"empty key":    {lock.Options{}, []string{"a", ""}, lock.ErrEmptyKey},
		"negative TTL": {lock.Options{TTL: -1}, []string{"a"}, lock.ErrConfig},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := table.Acquire(ctx, c.opt, c.keys...)
			require.ErrorIs(t, err, c.want)
			require.Zero(t, l)
			_, err = table.TryAcquire(c.opt, c.keys...)
			require.ErrorIs(t, err, c.want)
			p, err := table.Queue(c.opt, nil, c.keys...)
			require.ErrorIs(t, err, c.want)
			require.Nil(t, p)
		})
	}
	l := try(t, table, lock.Options{}, "a")
	require.ErrorIs(t, l.Extend(0), lock.ErrConfig)
	require.ErrorIs(t, l.Extend(-1), lock.ErrConfig)
	require.True(t, l.Held())
	require.Equal(t, uint64(1), l.Token(), "nothing was granted before")
	require.Len(t, table.List(), 1)
}

// A stranger, a stale token, a second unlock.
func TestUnlockByTheWrongOneHasNoEffect(t *testing.T) {
	table := new(lock.Table)
	first := try(t, table, lock.Options{Owner: "a"}, "k")
	require.NoError(t, first.Unlock())
	err := first.Unlock()
	require.ErrorIs(t, err, lock.ErrLockLost)
	require.ErrorIs(t, err, lock.ErrUnlocked)
	require.EqualError(t, err, `lock: lock lost: token 1 of "k": lease unlocked`)

	second := try(t, table, lock.Options{Owner: "b"}, "k")
	for range 2 {
		require.ErrorIs(t, first.Unlock(), lock.ErrLockLost)
		require.ErrorIs(t, first.Extend(time.Hour), lock.ErrLockLost)
	}
	_, known := first.Record()
	require.False(t, known)
	require.True(t, second.Held(), "the stranger had no effect")
	record, _ := second.Record()
	require.Zero(t, record.Until, "not even on the end")

	require.NoError(t, second.Unlock())

	var zero lock.Lease
	require.ErrorIs(t, zero.Unlock(), lock.ErrLockLost)
	require.ErrorIs(t, zero.Extend(1), lock.ErrLockLost)
	require.False(t, zero.Held())
	require.Nil(t, zero.Keys())
	<-zero.Lost()
}

func TestTokensGrowAndOutliveARestart(t *testing.T) {
	table := new(lock.Table)
	last := uint64(0)
	for i := range 1_000 {
		l := try(t, table, lock.Options{}, fmt.Sprint(i%7), "x")
		require.Greater(t, l.Token(), last)
		last = l.Token()
		require.NoError(t, l.Unlock())
	}
	next := new(lock.Table)
	next.RaiseToken(last)
	require.Equal(t, last+1, try(t, next, lock.Options{}, "k").Token())
	next.RaiseToken(3)
	require.Equal(t, last+2, try(t, next, lock.Options{}, "l").Token(), "a token never goes back")
}

func TestBreakFreesALockThatNobodyWillRelease(t *testing.T) {
	table := new(lock.Table)
	_, err := table.Break("a")
	require.ErrorIs(t, err, lock.ErrNotLocked)
	l := try(t, table, lock.Options{Owner: "dead"}, "a", "b")
	woken := false
	_, err = table.Queue(lock.Options{Owner: "next"}, func() { woken = true }, "b")
	require.NoError(t, err)
	was, err := table.Break("a")
	require.NoError(t, err)
	require.Equal(t, "dead", was.Owner)
	require.True(t, woken)
	<-l.Lost()
	require.ErrorIs(t, l.Unlock(), lock.ErrBroken)
	try(t, table, lock.Options{}, "a")
}

func TestAcquireWaitsForCtx(t *testing.T) {
	table := new(lock.Table)
	held := try(t, table, lock.Options{}, "k")
	why := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	_, err := table.Acquire(ctx, lock.Options{}, "free")
	require.ErrorIs(t, err, context.Canceled, "an ended ctx takes nothing")
	require.ErrorIs(t, err, why)
	require.Len(t, table.List(), 1)

	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := table.Acquire(ctx, lock.Options{}, "k")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
	require.Empty(t, table.Status("k").Waiters)
	require.NoError(t, held.Unlock())
}

// The holder is paused for longer than its TTL.
func TestExpiredLeaseGoesToTheNextWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := new(lock.Table)
		old := try(t, table, lock.Options{Owner: "paused", TTL: time.Minute}, "k")
		ctx, cancel := old.Context(t.Context())
		defer cancel()
		start := time.Now()
		l, err := table.Acquire(t.Context(), lock.Options{Owner: "next", TTL: time.Minute}, "k")
		require.NoError(t, err)
		require.Equal(t, time.Minute, time.Since(start), "woken by the end of the lease")
		require.Greater(t, l.Token(), old.Token())

		<-old.Lost()
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), lock.ErrLockLost)
		require.ErrorIs(t, context.Cause(ctx), lock.ErrExpired)
		require.ErrorIs(t, old.Unlock(), lock.ErrLockLost)
		require.ErrorIs(t, old.Extend(time.Hour), lock.ErrLockLost)
		require.True(t, l.Held())

		time.Sleep(time.Minute)
		require.False(t, l.Held(), "the TTL of the next one starts at its grant")
		require.ErrorIs(t, l.Unlock(), lock.ErrExpired)
	})
}

func TestALeaseEndsAtItsEndNotAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := new(lock.Table)
		l := try(t, table, lock.Options{TTL: time.Second}, "k")
		time.Sleep(time.Second - 1)
		require.True(t, l.Held())
		time.Sleep(time.Nanosecond)
		require.False(t, l.Held())
		try(t, table, lock.Options{}, "k")
	})
}

func TestExtendMovesTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := new(lock.Table)
		l := try(t, table, lock.Options{TTL: time.Minute}, "k")
		other := try(t, table, lock.Options{TTL: 2 * time.Minute}, "other")
		for range 10 { // a heartbeat
			time.Sleep(50 * time.Second)
			require.NoError(t, l.Extend(time.Minute))
		}
		require.False(t, other.Held())
		require.NoError(t, l.Extend(time.Second)) // earlier than before
		time.Sleep(time.Second)
		require.ErrorIs(t, l.Extend(time.Minute), lock.ErrExpired)

		forever := try(t, table, lock.Options{}, "f")
		time.Sleep(1000 * time.Hour)
		require.NoError(t, forever.Extend(time.Hour), "a lease without an end gets one")
		time.Sleep(time.Hour)
		require.False(t, forever.Held())

		for _, ttl := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1} {
			l := try(t, table, lock.Options{TTL: ttl}, "max")
			time.Sleep(1000 * time.Hour)
			require.NoError(t, l.Unlock())
		}
	})
}

func TestContextOfALease(t *testing.T) {
	table := new(lock.Table)
	l := try(t, table, lock.Options{}, "k")
	lost := l.Lost()
	ended, cancelEnded := l.Context(t.Context())
	defer cancelEnded()
	forgotten, cancelForgotten := l.Context(t.Context())
	cancelForgotten()
	cancelForgotten()
	require.ErrorIs(t, context.Cause(forgotten), context.Canceled)
	require.NoError(t, ended.Err())
	select {
	case <-lost:
		require.Fail(t, "lost while held")
	default:
	}
	require.NoError(t, l.Unlock())
	<-lost
	require.ErrorIs(t, context.Cause(ended), lock.ErrUnlocked)
	late, cancelLate := l.Context(t.Context())
	defer cancelLate()
	require.ErrorIs(t, context.Cause(late), lock.ErrLockLost)
}

func TestDeadlockIsRefusedByName(t *testing.T) {
	table := new(lock.Table)
	own := func(owner, key string) lock.Lease { return try(t, table, lock.Options{Owner: owner}, key) }
	wait := func(owner string, keys ...string) error {
		_, err := table.Queue(lock.Options{Owner: owner}, nil, keys...)
		return err
	}
	own("a", "1")
	own("b", "2")
	own("c", "3")
	// Its own key, alone and among others.
	require.EqualError(t, wait("a", "1"), `lock: deadlock: "a" waits for "1" of "a"`)
	require.ErrorAs(t, wait("a", "free", "1"), new(*lock.DeadlockError))
	require.NoError(t, wait("a", "2"))
	require.ErrorAs(t, wait("a", "2"), new(*lock.DeadlockError), "behind itself")
	require.NoError(t, wait("b", "3"))
	err := wait("c", "1")
	require.ErrorAs(t, err, new(*lock.DeadlockError))
	deadlock, _ := errors.AsType[*lock.DeadlockError](err)
	require.Equal(t, []lock.Hop{{"c", "1", "a"}, {"a", "2", "b"}, {"b", "3", "c"}}, deadlock.Cycle)
	require.Empty(t, table.Status("1").Waiters, "nothing queued")
	require.NoError(t, wait("d", "1"), "waiting outside of the cycle")
	require.NoError(t, wait("", "1"), "anonymous: bounded by ctx only")
}

// A cycle that closes in a queue: the waiter in front waits for a second key too.
func TestDeadlockThroughAQueue(t *testing.T) {
	table := new(lock.Table)
	try(t, table, lock.Options{Owner: "x"}, "held")
	_, err := table.Queue(lock.Options{Owner: "wide"}, nil, "held", "free")
	require.NoError(t, err)
	_, err = table.Queue(lock.Options{Owner: "x"}, nil, "free")
	require.ErrorAs(t, err, new(*lock.DeadlockError))
	require.EqualError(t, err, `lock: deadlock: "x" waits for "free" of "wide", "wide" waits for "held" of "x"`)
}

// A cancel that races the grant neither loses the key nor keeps it.
func TestWaiterCancelRacesGrant(t *testing.T) {
	table := new(lock.Table)
	for range 3_000 {
		held := try(t, table, lock.Options{}, "k", "l")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var second lock.Lease
		var err, nextErr error
		started := make(chan struct{}, 2)
		wg.Go(func() {
			started <- struct{}{}
			second, err = table.Acquire(ctx, lock.Options{}, "k")
			if err == nil {
				nextErr = second.Unlock()
			}
		})
		wg.Go(func() {
			started <- struct{}{}
			third, err := table.Acquire(t.Context(), lock.Options{}, "k", "l")
			if err == nil {
				err = third.Unlock()
			}
			if err != nil {
				t.Error(err)
			}
		})
		<-started
		<-started
		wg.Go(cancel)
		if err := held.Unlock(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
			require.Zero(t, second)
		}
		require.NoError(t, nextErr)
		require.Empty(t, table.List(), "everything is free again")
	}
}

// Several keys at once, asked for in every order, cannot deadlock.
func TestManyKeysInAnyOrder(t *testing.T) {
	table := new(lock.Table)
	keys := []string{"a", "b", "c", "d", "e"}
	var wg sync.WaitGroup
	inside := make([]int, len(keys)) // guarded by the locks themselves: the race detector is the witness
	for g := range 8 {
		wg.Go(func() {
			for i := range 300 {
				mine := []int{(g + i) % 5, (g * i) % 5, (2*g + 3*i) % 5}
				names := make([]string, len(mine))
				for j, k := range mine {
					names[j] = keys[k]
				}
				l, err := table.Acquire(t.Context(), lock.Options{TTL: time.Hour}, names...)
				if err != nil {
					t.Error(err)
					return
				}
				slices.Sort(mine)
				for _, k := range slices.Compact(mine) {
					inside[k]++
				}
				if err := l.Unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Empty(t, table.List())
}

// What an owner holds is listed by token, as far as it is asked for.
func TestHeldBy(t *testing.T) {
	var table lock.Table
	for _, key := range []string{"b", "a"} {
		_, err := table.TryAcquire(lock.Options{Owner: "me", TTL: time.Minute}, key)
		require.NoError(t, err)
	}
	for n, want := range map[int]int{-1: 0, 0: 0, 1: 1, 2: 2, 9: 2} {
		require.Len(t, table.HeldBy("me", n), want, n)
	}
	require.Less(t, table.HeldBy("me", 2)[0].Token, table.HeldBy("me", 2)[1].Token)
	require.Empty(t, table.HeldBy("another", 9))
}
