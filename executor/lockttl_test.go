package executor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/journal"
)

// Locks of several queues, of an enqueue and of a run, end each in its time,
// whichever was set first, and again when none was left in between.
func TestLockTTLsOfSeveral(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		fails := &probe{decide: func(context.Context, seen) error { return errBoom }}
		lockedFor := func(name string, ttl time.Duration, l executor.Locks[string]) *executor.Queue[string] {
			l.TTL = ttl
			return handle(t, x, name, fails.handle, executor.QueueConfig[string]{RetryIn: always(100 * time.Hour), Conditions: executor.Conditions[string]{Locks: l}})
		}
		long := lockedFor("long", time.Hour, executor.Locks[string]{OnEnqueue: words})
		short := lockedFor("short", time.Minute, executor.Locks[string]{OnRun: words})
		start(t, x)
		enqueue(t, long, "1", "enqueued")
		enqueue(t, short, "1", "ran")
		after := func(d time.Duration, want ...string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			require.ElementsMatch(t, want, locked(x))
		}
		after(time.Minute-1, "enqueued 1", "ran 1")
		after(1, "enqueued 1")
		enqueue(t, short, "2", "again")
		after(time.Minute-1, "enqueued 1", "again 1")
		after(1, "enqueued 1")
		after(time.Hour-2*time.Minute-1, "enqueued 1")
		after(1)
		enqueue(t, short, "3", "later")
		after(time.Minute-1, "later 1")
		after(1)
		stop(t, x)
	})
}

// A lock that comes back after a crash ends when it would have ended without one.
func TestLockTTLOverACrash(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		opened := func() *executor.Executor {
			x := openOn(t, disk, executor.Config{})
			q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{OnEnqueue: words, TTL: time.Hour}}})
			if len(locked(x)) == 0 {
				enqueue(t, q, "1", "key", executor.In(1000*time.Hour))
			}
			return x
		}
		x := opened()
		until := lockedKeys(x)[0].Locks[0].Until
		require.Equal(t, time.Hour, time.Until(until))
		time.Sleep(20 * time.Minute)
		disk = disk.Crash()
		stop(t, x)
		x = opened()
		require.True(t, until.Equal(lockedKeys(x)[0].Locks[0].Until))
		requireLockedFor(t, x, 40*time.Minute)
		stop(t, x)
	})
}

// requireLockedFor says that a key is locked by job 1 for exactly so long.
func requireLockedFor(t *testing.T, x *executor.Executor, d time.Duration) {
	time.Sleep(d - 1)
	synctest.Wait()
	require.Equal(t, []string{"key 1"}, locked(x))
	time.Sleep(time.Nanosecond)
	synctest.Wait()
	require.Empty(t, locked(x))
}

// A lock that was set while the clock was ahead lasts no longer after a restart than it was to; one
// without an end stays.
func TestLockTTLAfterTheClockWasAhead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		log, err := journal.OpenMemory(disk, journal.Config{})
		require.NoError(t, err)
		ahead := time.Now().AddDate(10, 0, 0)
		lock := statekey.KeyLock{Number: 1, Since: ahead.UnixNano(), Until: ahead.Add(time.Hour).UnixNano(), Key: "an hour"}
		ever := statekey.KeyLock{Number: 2, Since: ahead.UnixNano(), Key: "ever"}
		log.Record(&journal.Change{Sets: []journal.Set{lock.Set(), ever.Set()}})
		require.NoError(t, log.Close())

		x := openOn(t, disk, executor.Config{})
		now, list := time.Now(), lockedKeys(x)
		require.Len(t, list, 2)
		require.True(t, now.Equal(list[0].Locks[0].Since), "%v", list[0].Locks[0].Since)
		require.True(t, now.Add(time.Hour).Equal(list[0].Locks[0].Until), "%v", list[0].Locks[0].Until)
		time.Sleep(time.Hour - 1)
		synctest.Wait()
		require.Equal(t, []string{"an hour 1", "ever 1"}, locked(x))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Equal(t, []string{"ever 1"}, locked(x))
		stop(t, x)
	})
}
