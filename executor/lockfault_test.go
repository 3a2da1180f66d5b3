package executor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

// Crash at every commit: locks of all kinds, slots, failures and burials. When what
// is left has run, no job waits, and nothing is locked but what a person holds.
func TestLocksAfterACrashAtEveryCommit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		var images []*journal.Memory
		disk.OnCommit(func() { images = append(images, disk.Crash()) })
		liveWithLocks(t, disk, 6)
		disk.OnCommit(nil)
		require.Greater(t, len(images), 30)
		for i, image := range images {
			t.Log("image", i)
			liveWithLocks(t, image, 0)
		}
	})
}

// liveWithLocks enqueues n jobs in each of several queues and runs all that is
// there to its end.
func liveWithLocks(t *testing.T, disk *journal.Memory, n int) {
	x := openOn(t, disk, executor.Config{Workers: 3})
	fails := func(_ context.Context, s seen) error {
		switch {
		case s.id == "2":
			return errBoom // and again, into the morgue
		case s.id == "3" && s.retry < 0:
			return errBoom
		}
		return nil
	}
	byPayload := words
	common := executor.QueueConfig[string]{MaxRetries: 1, RetryIn: always(time.Second), Share: executor.Share{Shards: 2}, Merge: executor.MergeKeepAll}
	var queues []*executor.Queue[string]
	for name, locks := range map[string]executor.Locks[string]{
		"flag":    {OnEnqueue: byPayload, Unlock: byPayload, UnlockOnBurial: true},
		"counter": {OnEnqueue: byPayload, OnRun: keys("ran"), Unlock: func(_, p string) []string { return append(words("", p), "ran") }, Counted: true, UnlockOnBurial: true},
		"alone":   {BlockedBy: keys("alone"), OnRun: keys("alone"), Unlock: keys("alone"), UnlockOnBurial: true},
		"lapses":  {OnEnqueue: keys("lapses"), TTL: time.Minute},
		"waits":   {BlockedBy: func(string, string) []string { return []string{"flag", "counter", "ran", "alone", "lapses"} }},
	} {
		cfg := common
		cfg.Conditions.Locks = locks
		queues = append(queues, handle(t, x, name, (&probe{decide: fails}).handle, cfg))
	}
	s := &sold{decide: func(ctx context.Context, job executor.Merged[string], _ int) error {
		return fails(ctx, seen{id: job.ID, retry: job.Attempt - 2})
	}}
	queues = append(queues, s.shop(t, x, executor.SlotsConfig[int]{KeepOnFailure: true}, common))
	for i := range n {
		for _, q := range queues {
			enqueue(t, q, fmt.Sprint(i%4), q.Name())
		}
	}
	start(t, x)
	time.Sleep(time.Hour)
	synctest.Wait()
	for _, q := range queues {
		if s := stats(t, q); s.Jobs > 0 {
			t.Fatalf("%s has still %+v: %v, %v", q.Name(), s, lockedKeys(x), explain(t, x, q.Name(), "2"))
		}
	}
	require.Empty(t, lockedKeys(x))
	require.Empty(t, s.slots.Snapshot().Open)
	stop(t, x)
	again := openOn(t, disk.Crash(), executor.Config{})
	require.Empty(t, lockedKeys(again), "the same on disk")
	stop(t, again)
}

// A cycle of parked jobs is told to the job that would close it, by names, and all
// of them end.
func TestDeadlockOfParkedJobs(t *testing.T) {
	for name, late := range map[string]bool{"by waiting": false, "by what is enqueued later": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				p := &probe{}
				// A payload "a b" locks a and waits for b.
				q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
					MaxRetries: -1, Merge: executor.MergeKeepAll, DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedBuryAll},
					Conditions: executor.Conditions[string]{
						Locks: executor.Locks[string]{
							OnEnqueue: func(_, p string) []string { return strings.Fields(p)[:1] },
							BlockedBy: func(_, p string) []string { return strings.Fields(p)[1:] },
							Unlock:    func(_, p string) []string { return strings.Fields(p)[:1] }, UnlockOnBurial: true,
						},
					},
				})
				start(t, x)
				if late {
					require.NoError(t, x.KeyLocks().Lock(t.Context(), "b"))
					require.NoError(t, x.KeyLocks().Lock(t.Context(), "a"))
					enqueue(t, q, "1", "x b")
					enqueue(t, q, "2", "y a x")
					synctest.Wait()
					// 1 waits for b, too: no job asks anew. Whether the job is told
					// before this payload has joined it or after, a keeps it from
					// running.
					enqueue(t, q, "2", "b a")
				} else {
					enqueue(t, q, "1", "a b", executor.In(time.Second))
					enqueue(t, q, "2", "b a", executor.In(2*time.Second))
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				dead := morgue(t, q)
				require.NotEmpty(t, dead)
				for _, d := range dead {
					require.Contains(t, d.Error, "deadlock")
					require.Contains(t, d.Error, `"q/1" waits for`)
					require.Contains(t, d.Error, `"q/2" waits for`)
					require.Equal(t, "2", d.ID)
				}
				if late {
					require.NoError(t, x.KeyLocks().Unlock(t.Context(), "b"))
					synctest.Wait()
				}
				require.Len(t, p.log(), 1)
				require.Equal(t, "1", p.seen()[0].id)
				stop(t, x)
			})
		})
	}
}

// A call that waits for the backlog locks nothing meanwhile: what is in the backlog
// may wait for that key.
func TestWaitingForTheBacklogLocksNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 1}, WaitForRoom: true})
		p := &probe{}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{
			Locks: executor.Locks[string]{
				OnEnqueue: func(id, _ string) []string { return map[string][]string{"2": {"key"}}[id] }, BlockedBy: keys("key"), Unlock: keys("key"),
			},
		}})
		enqueue(t, q, "1", "", executor.In(time.Second))
		start(t, x)
		enqueue(t, q, "2", "")
		synctest.Wait()
		require.Equal(t, []string{"1[]", "2[]"}, p.log())
		require.Empty(t, locked(x))
		stop(t, x)
	})
}

// A job that is buried without having run ends what it had locked in an earlier
// run.
func TestBurialOfARefusedJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		p := &probe{decide: func(context.Context, seen) error { return errBoom }}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
			MaxRetries: 1, RetryIn: always(time.Second),
			Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{OnRun: keys("mine"), BlockedBy: keys("gate"), WhenBlocked: lock.Decision{Fail: lock.ErrLocked}, UnlockOnBurial: true},
			},
		})
		enqueue(t, q, "1", "")
		start(t, x)
		synctest.Wait()
		require.Equal(t, []string{"mine 1"}, locked(x))
		require.NoError(t, x.KeyLocks().Lock(t.Context(), "gate"))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, p.log(), 1)
		require.Len(t, morgue(t, q), 1)
		require.Equal(t, []string{"gate 1"}, locked(x))
		stop(t, x)
	})
}

// A lock with a TTL ends by itself, wakes the job that waits, and does not come
// back after a restart that took longer.
func TestLockTTL(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		open := func(disk *journal.Memory, p *probe) (*executor.Executor, *executor.Queue[string]) {
			x := openOn(t, disk, executor.Config{})
			return x, handle(t, x, "q", p.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{
					OnEnqueue: func(id, _ string) []string { return map[string][]string{"sets": {"key"}}[id] },
					BlockedBy: keys("key"), TTL: time.Minute,
				},
			}})
		}
		p := new(probe)
		x, q := open(disk, p)
		enqueue(t, q, "sets", "", executor.In(time.Hour))
		enqueue(t, q, "waits", "")
		start(t, x)
		time.Sleep(59 * time.Second)
		image := disk.Crash()
		require.Empty(t, p.log())
		require.Contains(t, explain(t, x, "q", "waits").String(), `"key" locked by q/sets (1s left)`)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"waits[]"}, p.log())
		stop(t, x)
		for range 2 {
			p = new(probe)
			x, _ = open(image, p)
			require.Empty(t, locked(x), "it has expired while no process ran")
			stop(t, x)
		}
	})
}

// What makes no sense is refused with an error, and changes nothing.
func TestBadLocks(t *testing.T) {
	x := open(t, "", executor.Config{})
	for says, l := range map[string]executor.Locks[string]{
		"Locks.WhenBlocked waits for -1s":      {WhenBlocked: lock.Decision{After: -time.Second}},
		"can't have Counted, UnlockOnBurial":   {Service: new(flags), Counted: true},
		"which can't have Counted, UnlockOnBu": {Service: new(flags), TTL: 1},
	} {
		_, err := executor.HandleMerged(x, "q", (&probe{}).handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: l}})
		require.ErrorIs(t, err, executor.ErrConfig)
		require.ErrorContains(t, err, says)
	}
	_, err := executor.Open("", executor.Config{Unique: executor.Unique[any]{While: "x"}})
	require.ErrorIs(t, err, executor.ErrConfig)

	q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{
		Locks: executor.Locks[string]{OnEnqueue: func(_, p string) []string {
			if p == "panic" {
				panic("no key")
			}
			return []string{"good", p}
		}},
	}})
	for payload, want := range map[string]error{"": lock.ErrEmptyKey, strings.Repeat("k", 513): executor.ErrInvalidKey} {
		_, err = q.Enqueue(t.Context(), "1", payload)
		require.ErrorIs(t, err, want)
	}
	_, err = q.Enqueue(t.Context(), "1", "panic")
	require.ErrorContains(t, err, "no key")
	_, err = enqueueRaw(t.Context(), x, "q", "1", []byte("not JSON"))
	require.Error(t, err)

	all := x.KeyLocks()
	require.ErrorIs(t, all.Lock(t.Context(), ""), lock.ErrEmptyKey)
	require.ErrorIs(t, all.Lock(t.Context(), strings.Repeat("k", 513)), executor.ErrInvalidKey)
	require.ErrorIs(t, all.Unlock(t.Context(), ""), lock.ErrEmptyKey)
	require.ErrorIs(t, all.Unlock(t.Context(), "below zero"), lock.ErrNotLocked)
	_, err = all.Locked(t.Context(), "")
	require.ErrorIs(t, err, lock.ErrEmptyKey)
	require.NoError(t, all.Lock(t.Context(), "k"))
	require.NoError(t, all.Unlock(t.Context(), "k"))
	require.ErrorIs(t, all.Unlock(t.Context(), "k"), lock.ErrNotLocked, "twice")
	require.Empty(t, lockedKeys(x))
	_, err = x.Inspect().Explain(t.Context(), "missing", "1")
	require.ErrorIs(t, err, executor.ErrUnknownQueue)
}

// Explain tells every state.
func TestExplain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		p := &probe{decide: func(ctx context.Context, s seen) error {
			if s.id == "fails" {
				return errBoom
			}
			return takes(time.Minute, nil)(ctx, s)
		}}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
			Share: executor.Share{Shards: 1, Concurrency: 9}, RetryIn: always(time.Hour), MaxRetries: 1, DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedHalt},
			Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{BlockedBy: func(id, _ string) []string { return map[string][]string{"blocked": {"key"}}[id] }},
			},
		})
		require.NoError(t, x.KeyLocks().Lock(t.Context(), "key"))
		start(t, x)
		for _, id := range []string{"fails", "blocked", "later", "running", "ready"} {
			var options []executor.Option
			if id == "later" {
				options = append(options, executor.In(time.Hour))
			}
			enqueue(t, q, id, "", options...)
			synctest.Wait()
		}
		is := func(id string, want inspect.JobState) inspect.Explanation {
			e := explain(t, x, "q", id)
			require.Equal(t, want, e.State, "%s", e)
			require.Equal(t, want == inspect.JobUnknown, e.Payloads == 0 && want != inspect.JobRunning)
			return e
		}
		is("missing", inspect.JobUnknown)
		require.Equal(t, "boom", is("fails", inspect.JobRetrying).LastError)
		require.Equal(t, "key", is("blocked", inspect.JobBlocked).Keys[0].Key)
		is("later", inspect.JobScheduled)
		is("running", inspect.JobRunning)
		is("ready", inspect.JobReady)
		require.NoError(t, x.KeyLocks().Unlock(t.Context(), "key"))
		is("blocked", inspect.JobReady)
		time.Sleep(time.Hour + time.Minute)
		synctest.Wait()
		require.Equal(t, `q/fails is halted, failed 2 times: boom`, is("fails", inspect.JobHalted).String())
		stop(t, x)
		_, err := x.Inspect().Explain(t.Context(), "q", "fails")
		require.ErrorIs(t, err, executor.ErrClosed)
	})
}
