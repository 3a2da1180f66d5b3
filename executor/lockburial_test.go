package executor_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

// lockedAfterCrash is locked, which must be the same on disk.
func lockedAfterCrash(t *testing.T, x *executor.Executor, disk *journal.Memory) []string {
	t.Helper()
	synctest.Wait()
	again := openOn(t, disk.Crash(), executor.Config{})
	require.Equal(t, locked(x), locked(again))
	stop(t, again)
	return locked(x)
}

// With a payload its keys leave, whether its run has locked them or its enqueue.
// What another payload of the job has locked, too, stays.
func TestBurialOfOnePayload(t *testing.T) {
	for name, counted := range map[string]bool{"flags": false, "counters": true} {
		for when, locks := range map[string]executor.Locks[string]{
			"OnEnqueue": {OnEnqueue: words}, "OnRun": {OnRun: words},
		} {
			t.Run(name+" "+when, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					disk := new(journal.Memory)
					x := openOn(t, disk, executor.Config{})
					locks.Counted, locks.UnlockOnBurial = counted, true
					p := &probe{decide: func(context.Context, seen) error { return errBoom }}
					q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
						MaxRetries: 1, RetryIn: always(time.Hour), Conditions: executor.Conditions[string]{Locks: locks},
					})
					enqueue(t, q, "1", "a both")
					enqueue(t, q, "1", "b both")
					start(t, x)
					require.Equal(t, []string{"a 1", "b 1", "both 2"}, lockedAfterCrash(t, x, disk))
					time.Sleep(time.Hour)
					require.Equal(t, []string{"b 1", "both 1"}, lockedAfterCrash(t, x, disk))
					time.Sleep(time.Hour)
					require.Empty(t, lockedAfterCrash(t, x, disk))
					require.Len(t, morgue(t, q), 2)
					stop(t, x)
				})
			})
		}
	}
}

// Of a payload that its handler cancels alone the keys are its dead letter's, though the others of the run are done.
func TestBurialBesidePayloadsThatAreDone(t *testing.T) {
	for name, unlock := range map[string]bool{"UnlockOnBurial": true, "until the dead letter is gone": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk := new(journal.Memory)
				x := openOn(t, disk, executor.Config{})
				q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
					return executor.PayloadErrors{job.Payloads[1].Position: executor.Cancel(errBoom)}
				}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{
					Locks: executor.Locks[string]{OnRun: words, UnlockOnBurial: unlock},
				}})
				enqueue(t, q, "1", "a")
				enqueue(t, q, "1", "b")
				start(t, x)
				if !unlock {
					require.Equal(t, []string{"a 1", "b 1"}, lockedAfterCrash(t, x, disk))
					_, err := x.Inspect().DeleteDead(t.Context(), inspect.SelectQueue("q"))
					require.NoError(t, err)
				}
				require.Equal(t, []string{"a 1"}, lockedAfterCrash(t, x, disk))
				stop(t, x)
			})
		})
	}
}

// A payload that is done leaves its key to its job though others of the run have failed: the next one leaves no more.
func TestPayloadsThatAreDoneBesideOthersLeaveOneLock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
			return executor.PayloadErrors{job.Payloads[0].Position: errBoom}
		}, executor.QueueConfig[string]{RetryIn: always(time.Hour), Merge: executor.MergeKeepAll, Conditions: executor.Conditions[string]{
			Locks: executor.Locks[string]{OnRun: words},
		}})
		enqueue(t, q, "1", "fails")
		start(t, x)
		for range 3 {
			enqueue(t, q, "1", "a")
			time.Sleep(time.Hour)
			synctest.Wait()
		}
		require.EqualValues(t, 3, stats(t, q).Done)
		require.Equal(t, []string{"a 1", "fails 1"}, lockedAfterCrash(t, x, disk))
		stop(t, x)
	})
}

// What a run has locked outlives the payload that a fresh equal one replaces.
func TestMergingKeepsWhatARunHasLocked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		p := &probe{decide: func(context.Context, seen) error { return errBoom }}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
			MaxRetries: 1, RetryIn: always(time.Hour), Merge: executor.MergeKeepLast,
			Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{OnRun: words, TTL: 90 * time.Minute, UnlockOnBurial: true},
			},
		})
		start(t, x)
		enqueue(t, q, "1", "key")
		require.Equal(t, []string{"key 1"}, lockedAfterCrash(t, x, disk))
		for range 3 {
			enqueue(t, q, "1", "key")
			require.Equal(t, []string{"key 1"}, lockedAfterCrash(t, x, disk))
		}
		require.EqualValues(t, 3, stats(t, q).Merged)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, p.log(), 2)
		require.Empty(t, lockedAfterCrash(t, x, disk), "it went to the morgue with the last one")
		stop(t, x)
	})
}

// fading is a codec that after a while can't read what begins with "bad".
type fading struct{ on *atomic.Bool }

func (fading) Encode(v string) ([]byte, error) { return []byte(v), nil }

func (f fading) Decode(data []byte) (string, error) {
	if f.on.Load() && strings.HasPrefix(string(data), "bad") {
		return "", errors.New("unreadable")
	}
	return string(data), nil
}

// A payload that can't be read any more takes the keys of its earlier run along,
// and a job that is left with none has not succeeded: its slot goes back, and it
// unlocks nothing.
func TestBurialOfSpoiledPayloads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		codec := fading{new(atomic.Bool)}
		s := &sold{decide: func(context.Context, executor.Merged[string], int) error { return errBoom }}
		q := s.shop(t, x, executor.SlotsConfig[int]{}, executor.QueueConfig[string]{
			MaxRetries: 9, RetryIn: always(time.Hour), Codec: codec,
			Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{OnRun: words, Unlock: keys("gate"), UnlockOnBurial: true},
			},
		})
		require.NoError(t, x.KeyLocks().Lock(t.Context(), "gate"))
		enqueue(t, q, "alone", "bad1")
		enqueue(t, q, "two", "bad2")
		enqueue(t, q, "two", "good")
		start(t, x)
		require.Equal(t, []string{"bad1 1", "bad2 1", "gate 1", "good 1"}, lockedAfterCrash(t, x, disk))
		codec.on.Store(true)
		time.Sleep(time.Hour)
		require.Equal(t, []string{"gate 1", "good 1"}, lockedAfterCrash(t, x, disk))
		require.EqualValues(t, 2, stats(t, q).Buried)
		require.Empty(t, s.slots.Snapshot().Open)
		s.last(t, 0, true)
		require.Zero(t, stats(t, q).Done)
		stop(t, x)
	})
}

// S06: a service that counts is called for each payload of a job, both ways; to one
// that does not it makes no difference.
func TestLockable_S06_ServiceThatCounts(t *testing.T) {
	for name, service := range map[string]lock.Service{"counters": new(counters), "flags": new(flags)} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				p := &probe{}
				q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
					Conditions: executor.Conditions[string]{
						Locks: executor.Locks[string]{Service: service, OnEnqueue: keys("order"), OnRun: keys("runs"), Unlock: keys("order", "runs")},
					},
				})
				for _, payload := range []string{"a", "b", "c"} {
					enqueue(t, q, "1", payload)
				}
				require.True(t, must(service.Locked(t.Context(), "order")))
				start(t, x)
				synctest.Wait()
				require.Equal(t, []string{"1[a b c]"}, p.log())
				require.Empty(t, morgue(t, q))
				require.False(t, must(service.Locked(t.Context(), "order")))
				require.False(t, must(service.Locked(t.Context(), "runs")))
				stop(t, x)
			})
		})
	}
}
