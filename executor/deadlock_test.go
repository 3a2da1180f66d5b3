package executor_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
)

// What jobs may wait for each other over: of each kind the configuration of a queue whose
// jobs hold something with a name while they run, and of one whose jobs wait for that.
var deadlockKinds = map[string]func(t *testing.T, x *executor.Executor, name string) (holds, needs executor.QueueConfig[string]){
	"keys": func(_ *testing.T, _ *executor.Executor, name string) (holds, needs executor.QueueConfig[string]) {
		holds.Conditions.Locks = executor.Locks[string]{OnRun: keys(name), Unlock: keys(name), UnlockOnBurial: true}
		needs.Conditions.Locks = executor.Locks[string]{BlockedBy: keys(name)}
		return holds, needs
	},
	"unique": func(_ *testing.T, _ *executor.Executor, name string) (holds, needs executor.QueueConfig[string]) {
		holds.Conditions.Unique = executor.Unique[string]{Key: func(string, string) string { return name }}
		return holds, holds
	},
	"slots": func(t *testing.T, x *executor.Executor, name string) (holds, needs executor.QueueConfig[string]) {
		s, err := executor.NewSlots(x, name, executor.SlotsConfig[int]{Next: func(n int) int { return n }, MaxSteps: 1})
		require.NoError(t, err)
		holds.Conditions.Slots = []executor.SlotSource{s}
		return holds, holds
	},
	"limits": func(t *testing.T, x *executor.Executor, name string) (holds, needs executor.QueueConfig[string]) {
		l, err := executor.NewLimit(x, name, executor.LimitConfig{Concurrent: 1})
		require.NoError(t, err)
		holds.Conditions.Limits = []executor.LimitOf[string]{{Limit: l}}
		return holds, holds
	},
	"lanes": func(_ *testing.T, _ *executor.Executor, name string) (holds, needs executor.QueueConfig[string]) {
		holds.Conditions.SharedLanes = name
		return holds, holds
	},
}

// A handler waits for a job that needs what it holds: over each kind the job that would
// wait is told so, by names, and all end.
func TestDeadlockOfACallAndEachKind(t *testing.T) {
	for kind, configs := range deadlockKinds {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{Workers: 8})
				holds, needs := configs(t, x, "x")
				needer := answers(t, x, "needer", caller(nil, ""), mortal(needs))
				holder := answers(t, x, "holder", caller(&needer, "x"), mortal(holds))
				start(t, x)
				_, err := holder.Do(t.Context(), "x", "")
				require.ErrorContains(t, err, "needer/x")
				require.ErrorContains(t, err, "holder/x")
				require.ErrorContains(t, err, "waits for")
				require.Zero(t, stats(t, holder.Queue).Jobs+stats(t, needer.Queue).Jobs)
				stop(t, x)
			})
		})
	}
}

// Two handlers hold something of two kinds, and each waits for a job that needs what the
// other one holds.
func TestDeadlockOverEachPairOfKinds(t *testing.T) {
	for one, configs1 := range deadlockKinds {
		for two, configs2 := range deadlockKinds {
			t.Run(one+" and "+two, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					x := open(t, "", executor.Config{Workers: 8})
					holds1, needs1 := configs1(t, x, "x")
					holds2, needs2 := configs2(t, x, "y")
					needer1 := answers(t, x, "needer1", caller(nil, ""), mortal(needs1))
					needer2 := answers(t, x, "needer2", caller(nil, ""), mortal(needs2))
					// Each calls for a job with the id of what that needs, for the lanes.
					holder1 := answers(t, x, "holder1", caller(&needer2, "y"), mortal(holds1))
					holder2 := answers(t, x, "holder2", caller(&needer1, "x"), mortal(holds2))
					start(t, x)
					enqueue(t, holder1.Queue, "x", "")
					enqueue(t, holder2.Queue, "y", "")
					time.Sleep(time.Minute)
					synctest.Wait()
					var told strings.Builder
					for _, c := range []*executor.Caller[string, string]{holder1, holder2, needer1, needer2} {
						require.Zero(t, stats(t, c.Queue).Jobs, "%s: %v", c.Name(), explain(t, x, c.Name(), "x"))
						for _, d := range morgue(t, c.Queue) {
							told.WriteString(d.Error + "\n")
						}
					}
					require.NotEmpty(t, told.String())
					for _, name := range []string{"holder1/x", "holder2/y", "needer1/x", "needer2/y"} {
						require.Contains(t, told.String(), name)
					}
					stop(t, x)
				})
			})
		}
	}
}

// caller is a handler that waits for a job after a second, if there is one.
func caller(on **executor.Caller[string, string], id string) func(context.Context, executor.Job[string]) (string, error) {
	return func(ctx context.Context, _ executor.Job[string]) (string, error) {
		if on == nil {
			return "done", nil
		}
		time.Sleep(time.Second)
		got, err := (*on).Do(ctx, id, "")
		if err != nil {
			return "", executor.Cancel(err)
		}
		return got, nil
	}
}

// mortal is a configuration of jobs that are not retried.
func mortal(cfg executor.QueueConfig[string]) executor.QueueConfig[string] {
	cfg.MaxRetries = -1
	return cfg
}

// A job that is first in its lane waits for a key that the next one there has locked when
// it was enqueued: no handler runs, and the one that closes the circle, whichever of them
// that is, fails and names both.
func TestDeadlockOfALaneAndAKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		cfg := executor.QueueConfig[string]{Conditions: executor.Conditions[string]{SharedLanes: "lanes"}}
		cfg.Conditions.Locks.BlockedBy = keys("k")
		first := answers(t, x, "first", caller(nil, ""), cfg)
		cfg.Conditions.Locks = executor.Locks[string]{OnEnqueue: keys("k"), Unlock: keys("k")}
		next := answers(t, x, "next", caller(nil, ""), cfg)
		enqueue(t, first.Queue, "42", "")
		enqueue(t, next.Queue, "42", "")
		start(t, x)
		synctest.Wait()
		failed, other, want := explain(t, x, "first", "42"), explain(t, x, "next", "42"), inspect.JobWaiting
		if other.State == inspect.JobRetrying {
			failed, other, want = other, failed, inspect.JobBlocked
		}
		require.Equal(t, inspect.JobRetrying, failed.State)
		require.Equal(t, want, other.State)
		require.Contains(t, failed.String(), `"first/42" waits for "k" of "next/42"`)
		require.Contains(t, failed.String(), `"next/42" waits for "its turn" of "first/42"`)
		require.NoError(t, x.KeyLocks().Unlock(t.Context(), "k"))
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Zero(t, stats(t, first.Queue).Jobs+stats(t, next.Queue).Jobs)
		stop(t, x)
	})
}

// A job whose earlier run keeps a slot waits for the key of one that waits for the slot.
func TestDeadlockOfAKeptSlotAndAKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		s, err := executor.NewSlots(x, "s", executor.SlotsConfig[int]{Next: func(n int) int { return n }, MaxSteps: 1, TTL: time.Hour, KeepOnFailure: true})
		require.NoError(t, err)
		cfg := executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Slots: []executor.SlotSource{s}}, MaxRetries: 1, RetryIn: func(int) time.Duration { return time.Second }}
		cfg.Conditions.Locks.BlockedBy = keys("k")
		keeper := handle(t, x, "keeper", func(context.Context, executor.Merged[string]) error { return errors.New("no") }, cfg)
		cfg.Conditions.Locks = executor.Locks[string]{OnEnqueue: keys("k"), Unlock: keys("k")}
		p := &probe{}
		waits := handle(t, x, "waits", p.handle, cfg)
		enqueue(t, keeper, "1", "")
		start(t, x)
		synctest.Wait()
		enqueue(t, waits, "2", "")
		time.Sleep(time.Minute)
		synctest.Wait()
		dead := morgue(t, keeper)
		require.Len(t, dead, 1)
		require.Contains(t, dead[0].Error, `"keeper/1" waits for "k" of "waits/2", "waits/2" waits for "s" of "keeper/1"`)
		require.Len(t, p.log(), 1)
		stop(t, x)
	})
}

// A job waits for a slot, or for a place in a limit, which the job has that waits for it, and
// another one, which goes on: that is no circle.
func TestDeadlockIsNoneWhereOneIsEnough(t *testing.T) {
	for name, configs := range map[string]func(t *testing.T, x *executor.Executor) executor.Conditions[string]{
		"slots": func(t *testing.T, x *executor.Executor) (c executor.Conditions[string]) {
			s, err := executor.NewSlots(x, "s", executor.SlotsConfig[int]{Next: func(n int) int { return (n + 1) % 2 }, MaxSteps: 2})
			require.NoError(t, err)
			c.Slots = []executor.SlotSource{s}
			return c
		},
		"limits": func(t *testing.T, x *executor.Executor) (c executor.Conditions[string]) {
			l, err := executor.NewLimit(x, "l", executor.LimitConfig{Concurrent: 2})
			require.NoError(t, err)
			c.Limits = []executor.LimitOf[string]{{Limit: l}}
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				cfg := mortal(executor.QueueConfig[string]{Conditions: configs(t, x)})
				needer := answers(t, x, "needer", caller(nil, ""), cfg)
				holder := answers(t, x, "holder", caller(&needer, "x"), cfg)
				other := answers(t, x, "other", func(context.Context, executor.Job[string]) (string, error) {
					time.Sleep(time.Minute)
					return "", nil
				}, cfg)
				start(t, x)
				enqueue(t, other.Queue, "x", "")
				began := time.Now()
				got, err := holder.Do(t.Context(), "x", "")
				require.NoError(t, err)
				require.Equal(t, "done", got)
				require.Equal(t, time.Minute, time.Since(began))
				stop(t, x)
			})
		})
	}
}

// A job stands in line, and before its shard hears of it another payload of its id locks what the other one waits for: it
// fails, and does not wait where nobody wakes it.
func TestDeadlockThatClosesBeforeAJobIsParked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var once sync.Once
		var close func()
		x, err := executor.OpenWatched(executor.Config{}, func(e events.Event) {
			if e.Kind == events.Parked && e.ID == "j" {
				once.Do(close)
			}
		})
		require.NoError(t, err)
		ok := func(context.Context, executor.Merged[string]) error { return nil }
		first := handle(t, x, "first", ok, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{
			Locks: executor.Locks[string]{OnEnqueue: keys("a"), Unlock: keys("a"), BlockedBy: keys("b")},
		}})
		locks := executor.Locks[string]{BlockedBy: keys("a"), OnEnqueue: func(_, payload string) []string { return strings.Fields(payload) }}
		q := handle(t, x, "q", ok, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: locks}})
		close = func() { enqueue(t, q, "j", "b") }
		require.NoError(t, x.KeyLocks().Lock(t.Context(), "b"))
		start(t, x)
		enqueue(t, first, "l", "")
		synctest.Wait()
		enqueue(t, q, "j", "")
		time.Sleep(time.Second)
		synctest.Wait()
		jobs, err := x.Inspect().Jobs(t.Context(), inspect.JobQuery{Queue: "q"})
		require.NoError(t, err)
		require.Equal(t, []inspect.JobState{inspect.JobRetrying}, []inspect.JobState{jobs.Jobs[0].State})
		require.Contains(t, jobs.Jobs[0].LastError, "first/l")
		stop(t, x)
	})
}

// A job closes a circle when it comes to wait for a limit: its queue only locks keys, when a
// payload is accepted, and its jobs are never asked for any.
func TestDeadlockThatAJobClosesWhichOnlyLocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		l, err := executor.NewLimit(x, "l", executor.LimitConfig{Concurrent: 1})
		require.NoError(t, err)
		limited := mortal(executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Limits: []executor.LimitOf[string]{{Limit: l}}}})
		locks := limited
		locks.Conditions.Locks = executor.Locks[string]{OnEnqueue: keys("k"), UnlockOnBurial: true}
		closer := answers(t, x, "closer", caller(nil, ""), locks)
		blocked := answers(t, x, "blocked", caller(nil, ""), mortal(executor.QueueConfig[string]{Conditions: executor.Conditions[string]{
			Locks: executor.Locks[string]{BlockedBy: keys("k")},
		}}))
		holder := answers(t, x, "holder", caller(&blocked, "x"), limited)
		start(t, x)
		enqueue(t, closer.Queue, "x", "", executor.In(time.Hour))
		got, err := holder.Do(t.Context(), "x", "")
		require.NoError(t, err)
		require.Equal(t, "done", got)
		synctest.Wait()
		dead := morgue(t, closer.Queue)
		require.Len(t, dead, 1)
		for _, name := range []string{"closer/x", "blocked/x", "holder/x"} {
			require.Contains(t, dead[0].Error, name)
		}
		stop(t, x)
	})
}
