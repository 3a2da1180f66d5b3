package executor_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// A payload that is replaced while its job is parked leaves nothing locked, when
// the job succeeds and when it is buried.
func TestReplacedWhileParked(t *testing.T) {
	for name, test := range map[string]struct {
		merge  executor.Merge
		score  float64
		locks  executor.Locks[string]
		buried bool
	}{
		"KeepLast, counted":         {merge: executor.MergeKeepLast, score: 1, locks: executor.Locks[string]{Counted: true}},
		"lower score, counted":      {merge: executor.MergeMinScore, score: -1, locks: executor.Locks[string]{Counted: true}},
		"KeepLast, buried":          {merge: executor.MergeKeepLast, score: 1, locks: executor.Locks[string]{UnlockOnBurial: true}, buried: true},
		"lower score, buried":       {merge: executor.MergeMinScore, score: -1, locks: executor.Locks[string]{UnlockOnBurial: true}, buried: true},
		"KeepLast, counted, buried": {merge: executor.MergeKeepLast, score: 1, locks: executor.Locks[string]{Counted: true, UnlockOnBurial: true}, buried: true},
	} {
		for _, called := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, called=%v", name, called), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					disk := new(journal.Memory)
					x := openOn(t, disk, executor.Config{Workers: 1})
					p := &probe{decide: func(context.Context, seen) error {
						if test.buried {
							return executor.Cancel(errBoom)
						}
						return nil
					}}
					locks := test.locks
					locks.BlockedBy, locks.OnRun, locks.Unlock = keys("gate"), words, words
					q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Merge: test.merge, Conditions: executor.Conditions[string]{Locks: locks}})
					hog := handle(t, x, "hog", (&probe{decide: takes(time.Minute, nil)}).handle, executor.QueueConfig[string]{})
					require.NoError(t, x.KeyLocks().Lock(t.Context(), "gate"))
					start(t, x)
					enqueue(t, q, "1", "key", executor.Score(0))
					synctest.Wait()
					enqueue(t, hog, "1", "")
					synctest.Wait()
					open := func() { require.NoError(t, x.KeyLocks().Unlock(t.Context(), "gate")) }
					if called {
						open()
						synctest.Wait()
					}
					enqueue(t, q, "1", "key", executor.Score(test.score))
					require.EqualValues(t, 1, stats(t, q).Merged)
					if !called {
						open()
					}
					time.Sleep(time.Hour)
					synctest.Wait()
					require.Len(t, p.log(), 1)
					require.Empty(t, lockedAfterCrash(t, x, disk))
					stop(t, x)
				})
			})
		}
	}
}

// What a run has locked goes over from payload to payload, also when several arrive
// in one commit.
func TestReplacedTwiceAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		p := &probe{decide: func(_ context.Context, s seen) error {
			if s.retry < 0 {
				return errBoom
			}
			return nil
		}}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
			RetryIn: always(time.Hour), Merge: executor.MergeKeepLast,
			Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{OnRun: words, Unlock: words, Counted: true, UnlockOnBurial: true},
			},
		})
		start(t, x)
		enqueue(t, q, "1", "key")
		require.Equal(t, []string{"key 1"}, lockedAfterCrash(t, x, disk))
		_, err := q.EnqueueMany(t.Context(), []executor.Item[string]{{ID: "1", Payload: "key"}, {ID: "1", Payload: "key"}, {ID: "1", Payload: "key"}})
		require.NoError(t, err)
		require.Equal(t, []string{"key 1"}, lockedAfterCrash(t, x, disk))
		time.Sleep(2 * time.Hour)
		require.Empty(t, lockedAfterCrash(t, x, disk))
		stop(t, x)
	})
}

// Each payload of a counted key unlocks what it has locked itself, and nothing once
// that is gone.
func TestCountedUnlocksItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		fail := true
		p := &probe{decide: func(_ context.Context, s seen) error {
			if s.values[0] == "key bad" && fail {
				return executor.Cancel(errBoom)
			}
			return nil
		}}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
			Gather: executor.Gather[string]{MaxPayloads: 1}, Merge: executor.MergeKeepAll,
			Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{OnEnqueue: keys("key"), OnRun: keys("ran"), Unlock: keys("key", "ran"), Counted: true, UnlockOnBurial: true},
			},
		})
		enqueue(t, q, "1", "key bad", executor.Score(2))
		enqueue(t, q, "1", "key good", executor.Score(1))
		start(t, x)
		require.Empty(t, lockedAfterCrash(t, x, disk), "the good one has unlocked its own, the bad one was buried with its own")
		require.Len(t, morgue(t, q), 1)
		fail = false
		enqueue(t, q, "2", "key later", executor.In(time.Hour))
		n, err := backOf(x.Inspect().Requeue(t.Context(), inspect.SelectIDs(q.Name(), "1")))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, []string{"key 1"}, lockedAfterCrash(t, x, disk), "of the other job")
		require.Len(t, p.log(), 3)
		stop(t, x)
	})
}

// lossy is a payload that comes back from JSON as another value.
type lossy struct {
	Number any    // an int comes back as a float64
	Note   string `json:"-"`
}

// Enqueue locks what the run unlocks, also where the codec changes the value: keys
// of the value that Enqueue was given would stay locked for ever.
func TestKeysOfAPayloadThatTheCodecChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		key := func(_ string, o lossy) []string { return []string{fmt.Sprintf("%v/%s", o.Number, o.Note)} }
		q := handle(t, x, "q", func(context.Context, executor.Merged[lossy]) error { return nil },
			executor.QueueConfig[lossy]{Conditions: executor.Conditions[lossy]{Locks: executor.Locks[lossy]{OnEnqueue: key, Unlock: key}}})
		_, err := q.Enqueue(t.Context(), "one", lossy{Number: 12_345_678, Note: "lost"})
		require.NoError(t, err)
		_, err = q.EnqueueMany(t.Context(), []executor.Item[lossy]{{ID: "many", Payload: lossy{Number: 12_345_678, Note: "lost"}}})
		require.NoError(t, err)
		locked := lockedKeys(x)
		require.Len(t, locked, 1)
		require.Equal(t, "1.2345678e+07/", locked[0].Key)
		require.NoError(t, x.Start(t.Context()))
		synctest.Wait()
		require.Empty(t, lockedKeys(x))
	})
}

// A queue whose Locks were taken out, under its name or another one: what its payloads have locked
// ends with them, when a person deletes them and when others take their place.
func TestLocksOfAQueueThatHasNoneAnyMore(t *testing.T) {
	for _, name := range []string{"ship", "deliver"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk := new(journal.Memory)
				x := openOn(t, disk, executor.Config{})
				cfg := executor.QueueConfig[string]{Merge: executor.MergeKeepLast}
				cfg.Conditions.Locks = executor.Locks[string]{OnEnqueue: words, Unlock: words}
				q := handle(t, x, "ship", new(probe).handle, cfg)
				enqueue(t, q, "1", "deleted", executor.In(time.Hour))
				enqueue(t, q, "2", "replaced", executor.In(time.Hour))
				stop(t, x)

				x = openOn(t, disk, executor.Config{})
				cfg.Conditions.Locks, cfg.RenamedFrom = executor.Locks[string]{}, []string{"ship"}
				q = handle(t, x, name, new(probe).handle, cfg)
				var p probe
				blocked := handle(t, x, "cancel", p.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{
					Locks: executor.Locks[string]{BlockedBy: words},
				}})
				start(t, x)
				enqueue(t, blocked, "1", "deleted")
				enqueue(t, blocked, "2", "replaced")
				synctest.Wait()
				require.Empty(t, p.log())
				_, err := x.Inspect().Delete(t.Context(), inspect.SelectIDs(name, "1"))
				require.NoError(t, err)
				enqueue(t, q, "2", "replaced", executor.In(time.Hour))
				synctest.Wait()
				require.EqualValues(t, 1, stats(t, q).Merged)
				require.ElementsMatch(t, []string{"1[deleted]", "2[replaced]"}, p.log())
				require.Empty(t, lockedAfterCrash(t, x, disk))
				stop(t, x)
			})
		})
	}
}
