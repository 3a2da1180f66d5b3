package executor_test

import (
	"context"
	"fmt"
	"slices"
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

// pausable are the ways to pause what an id does, typed and by name.
func pausable(x *executor.Executor, q *executor.Queue[string]) map[string][2]func(ctx context.Context) error {
	by := func(s inspect.Selection) [2]func(ctx context.Context) error {
		return [2]func(ctx context.Context) error{
			func(ctx context.Context) error { return noCount(x.Inspect().Pause(ctx, s)) },
			func(ctx context.Context) error { return noCount(x.Inspect().Resume(ctx, s)) },
		}
	}
	return map[string][2]func(ctx context.Context) error{
		"executor": by(inspect.SelectExecutor()), "queue": by(inspect.SelectQueue("q")),
		"id": by(inspect.SelectIDs("q", "a")), `prefix "a"`: by(inspect.SelectPrefix("q", "a")),
	}
}

func noCount(_ int, err error) error { return err }

func pauseAll(ctx context.Context, x *executor.Executor) error {
	return noCount(x.Inspect().Pause(ctx, inspect.SelectExecutor()))
}

func resumeAll(ctx context.Context, x *executor.Executor) error {
	return noCount(x.Inspect().Resume(ctx, inspect.SelectExecutor()))
}

func pauseQueue[T any](ctx context.Context, q *executor.Queue[T]) error {
	return noCount(q.Executor().Inspect().Pause(ctx, inspect.SelectQueue(q.Name())))
}

func resumeQueue[T any](ctx context.Context, q *executor.Queue[T]) error {
	return noCount(q.Executor().Inspect().Resume(ctx, inspect.SelectQueue(q.Name())))
}

// What is paused begins nothing, and goes on where it was: payloads are accepted, RunNow
// does not override it, and Explain and Stats say it.
func TestPause(t *testing.T) {
	for _, name := range []string{"executor", "queue", "id", `prefix "a"`} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				var p probe
				q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{})
				start(t, x)
				how := pausable(x, q)[name]
				require.NoError(t, how[0](t.Context()))
				require.NoError(t, how[0](t.Context()), "again")
				enqueue(t, q, "a", "1")
				enqueue(t, q, "a", "2", executor.In(time.Minute))
				n, err := x.Inspect().RunNow(t.Context(), inspect.SelectIDs(q.Name(), "a"))
				require.NoError(t, err)
				require.Equal(t, 1, n)
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Empty(t, p.log())
				e, err := x.Inspect().Explain(t.Context(), "q", "a")
				require.NoError(t, err)
				require.Equal(t, inspect.JobPaused, e.State)
				scope := strings.TrimSuffix(name, " by name")
				require.Equal(t, []string{scope}, e.Paused)
				require.Contains(t, e.String(), "(pause of the "+scope+")")
				s, err := q.Stats(t.Context())
				require.NoError(t, err)
				whole := scope == "executor" || scope == "queue"
				require.Equal(t, whole, s.Paused)
				require.Equal(t, scope == "id", s.PausedIDs == 1)
				require.Equal(t, !whole && scope != "id", s.PausedPrefixes == 1)
				require.Equal(t, whole, s.Lag == time.Hour)
				parked, err := x.Inspect().Jobs(t.Context(), inspect.JobQuery{Queue: "q", States: []inspect.JobState{inspect.JobParked}})
				require.NoError(t, err)
				require.Equal(t, !whole, len(parked.Jobs) == 1)
				require.NoError(t, how[1](t.Context()))
				synctest.Wait()
				require.Equal(t, []string{"a[1 2]"}, p.log())
				require.NoError(t, how[1](t.Context()), "again")
			})
		})
	}
}

// They are independent: a job runs when none of them is on.
func TestPausesAddUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		var p probe
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{})
		start(t, x)
		all := pausable(x, q)
		for _, name := range []string{"executor", "queue", "id", `prefix "a"`} {
			require.NoError(t, all[name][0](t.Context()))
		}
		enqueue(t, q, "a", "1")
		for _, name := range []string{"queue", `prefix "a"`, "executor"} {
			require.NoError(t, all[name][1](t.Context()))
			synctest.Wait()
			require.Empty(t, p.log())
		}
		require.NoError(t, all["id"][1](t.Context()))
		synctest.Wait()
		require.Equal(t, []string{"a[1]"}, p.log())
	})
}

// When Pause has returned, no call begins: neither of what is behind a payload in hand,
// nor of other ids in the hands of its worker.
func TestPauseTakesBackWhatHasNotBegun(t *testing.T) {
	for name, pause := range map[string]func(*executor.Executor, *executor.Queue[string]) error{
		"executor": func(x *executor.Executor, _ *executor.Queue[string]) error { return pauseAll(context.Background(), x) },
		"queue": func(_ *executor.Executor, q *executor.Queue[string]) error {
			return pauseQueue(context.Background(), q)
		},
		"ids": func(x *executor.Executor, q *executor.Queue[string]) error {
			_, err := x.Inspect().Pause(context.Background(), inspect.SelectIDs(q.Name(), "a", "b", "c"))
			return err
		},
		"prefixes": func(x *executor.Executor, q *executor.Queue[string]) error {
			for _, prefix := range []string{"a", "b", "c"} {
				if _, err := x.Inspect().Pause(context.Background(), inspect.SelectPrefix(q.Name(), prefix)); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{Workers: 1})
				begun, goOn := make(chan string, 10), make(chan bool)
				q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
					begun <- job.ID + job.Payload
					<-goOn
					return nil
				}, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}})
				require.NoError(t, err)
				for _, id := range []string{"warm", "up", "a", "a", "b", "b", "c"} {
					enqueue(t, q, id, "")
				}
				start(t, x)
				for range 2 { // runs get longer
					<-begun
					goOn <- true
				}
				synctest.Wait()
				require.Equal(t, "a", <-begun)
				require.NoError(t, pause(x, q))
				goOn <- true
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Empty(t, begun)
				s, err := q.Stats(t.Context())
				require.NoError(t, err)
				require.Equal(t, []int{3, 4, 0}, []int{s.Jobs, s.Payloads, s.Running})
				close(goOn)
				require.NoError(t, resumeAll(t.Context(), x))
				require.NoError(t, resumeQueue(t.Context(), q))
				_, err = x.Inspect().Resume(t.Context(), inspect.SelectIDs(q.Name(), "a", "b", "c"))
				require.NoError(t, err)
				for _, prefix := range []string{"a", "b", "c"} {
					_, err = x.Inspect().Resume(t.Context(), inspect.SelectPrefix(q.Name(), prefix))
					require.NoError(t, err)
				}
				synctest.Wait()
				require.Len(t, begun, 4)
			})
		})
	}
}

// Nor does a call begin of a job that a worker has taken, and that waits for something else when Pause
// returns: a key function, or its slot on its way to the disk.
func TestPauseMeansWhatHasNoHandlerYet(t *testing.T) {
	for name, pause := range map[string]func(*executor.Executor) error{
		"executor": func(x *executor.Executor) error { return pauseAll(context.Background(), x) },
		"queue": func(x *executor.Executor) error {
			_, err := x.Inspect().Pause(context.Background(), inspect.SelectQueue("q"))
			return err
		},
		"id": func(x *executor.Executor) error {
			_, err := x.Inspect().Pause(context.Background(), inspect.SelectIDs("q", "a"))
			return err
		},
		"prefix": func(x *executor.Executor) error {
			_, err := x.Inspect().Pause(context.Background(), inspect.SelectPrefix("q", "a"))
			return err
		},
	} {
		for _, slots := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,slots=%v", name, slots), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					disk := new(journal.Memory)
					x := openOn(t, disk, executor.Config{})
					var p probe
					cfg := executor.QueueConfig[string]{}
					cfg.Conditions.Locks.BlockedBy = func(string, string) []string { time.Sleep(time.Second); return nil }
					if slots {
						s, err := executor.NewSlots(x, "s", executor.SlotsConfig[int]{Next: func(last int) int { return last + 1 }})
						require.NoError(t, err)
						cfg.Conditions.Slots = []executor.SlotSource{s}
					}
					q := handle(t, x, "q", p.handle, cfg)
					start(t, x)
					enqueue(t, q, "a", "1")
					disk.BeforeCommit(func() { time.Sleep(100 * time.Millisecond) })
					time.Sleep(500 * time.Millisecond) // in the key function
					require.NoError(t, pause(x))
					time.Sleep(time.Minute)
					require.Empty(t, p.log())
					s, err := q.Stats(t.Context())
					require.NoError(t, err)
					require.Equal(t, []int{1, 0, 0}, []int{s.Payloads, s.Running, s.Retrying})
					require.NoError(t, resumeAll(t.Context(), x))
					_, err = x.Inspect().Resume(t.Context(), inspect.SelectQueue("q"))
					require.NoError(t, err)
					_, err = x.Inspect().Resume(t.Context(), inspect.SelectIDs("q", "a"))
					require.NoError(t, err)
					_, err = x.Inspect().Resume(t.Context(), inspect.SelectPrefix("q", "a"))
					require.NoError(t, err)
					time.Sleep(time.Minute)
					require.Equal(t, []string{"a[1]"}, p.log())
				})
			})
		}
	}
}

// Pauses come through a restart and a crash, and go along to a new name of the queue.
func TestPausesSurvive(t *testing.T) {
	disk := new(journal.Memory)
	x := openOn(t, disk, executor.Config{})
	var p probe
	q := handle(t, x, "former", p.handle, executor.QueueConfig[string]{})
	other := handle(t, x, "other", p.handle, executor.QueueConfig[string]{})
	start(t, x)
	n, err := x.Inspect().Pause(t.Context(), inspect.SelectIDs(q.Name(), "a", "b", "a", "no job"))
	require.NoError(t, err)
	require.Equal(t, 3, n)
	n, err = x.Inspect().Resume(t.Context(), inspect.SelectIDs(q.Name(), "b"))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	for _, prefix := range []string{"acme/", "ac", "gone"} {
		did(t, 1)(x.Inspect().Pause(t.Context(), inspect.SelectPrefix("former", prefix)))
	}
	did(t, 1)(x.Inspect().Resume(t.Context(), inspect.SelectPrefix("former", "gone")))
	require.NoError(t, pauseQueue(t.Context(), other))
	require.NoError(t, pauseAll(t.Context(), x))
	for _, id := range []string{"a", "b", "no job", "acme/1", "ac"} {
		enqueue(t, q, id, id)
	}
	enqueue(t, other, "a", "other")
	disk = disk.Crash() // with what Pause has said

	open := func(name string, cfg executor.QueueConfig[string]) {
		x = openOn(t, disk, executor.Config{})
		q, other = handle(t, x, name, p.handle, cfg), handle(t, x, "other", p.handle, executor.QueueConfig[string]{})
		start(t, x)
	}
	open("former", executor.QueueConfig[string]{})
	all, queues := x.Inspect().Paused()
	require.True(t, all)
	require.Equal(t, []string{"other"}, queues)
	require.Equal(t, []string{"a", "no job"}, pausedIDs(t, x, "former"))
	require.NoError(t, resumeAll(t.Context(), x))
	require.Eventually(t, func() bool { return slices.Equal(p.log(), []string{"b[b]"}) }, time.Minute, time.Millisecond)
	require.NoError(t, pauseQueue(t.Context(), q))
	stop(t, x)
	x = openOn(t, disk, executor.Config{})
	start(t, x)
	s, err := x.Stats(t.Context())
	require.NoError(t, err)
	require.Len(t, s.Queues, 2)
	require.True(t, s.Queues[0].Paused && s.Queues[1].Paused, "also of those that are not registered")
	stop(t, x)
	open("new name", executor.QueueConfig[string]{RenamedFrom: []string{"former"}})
	all, queues = x.Inspect().Paused()
	require.False(t, all)
	require.Equal(t, []string{"new name", "other"}, queues)
	require.Equal(t, []string{"a", "no job"}, pausedIDs(t, x, "new name"))
	require.Empty(t, pausedIDs(t, x, "former"))
	require.Equal(t, []string{"ac", "acme/"}, pausedPrefixes(t, x, "new name"))
	require.Empty(t, pausedPrefixes(t, x, "former"))
	require.NoError(t, resumeQueue(t.Context(), q))
	require.NoError(t, resumeQueue(t.Context(), other))
	n, err = x.Inspect().Resume(t.Context(), inspect.SelectIDs(q.Name(), "a", "no job"))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Eventually(t, func() bool { return len(p.log()) == 4 }, time.Minute, time.Millisecond)
	did(t, 1)(x.Inspect().Resume(t.Context(), inspect.SelectPrefix("new name", "ac")))
	require.Eventually(t, func() bool { return len(p.log()) == 5 && p.log()[4] == "ac[ac]" }, time.Minute, time.Millisecond)
	did(t, 1)(x.Inspect().Resume(t.Context(), inspect.SelectPrefix("new name", "acme/")))
	require.Eventually(t, func() bool { return len(p.log()) == 6 }, time.Minute, time.Millisecond)
	stop(t, x)
	open("new name", executor.QueueConfig[string]{RenamedFrom: []string{"former"}})
	all, queues = x.Inspect().Paused()
	require.False(t, all)
	require.Empty(t, queues)
	require.Empty(t, pausedIDs(t, x, "new name"))
	require.Empty(t, pausedPrefixes(t, x, "new name"))
}

func pausedPrefixes(t *testing.T, x *executor.Executor, queue string) (all []string) {
	t.Helper()
	for prefix, err := range x.Inspect().PausedPrefixes(queue) {
		require.NoError(t, err)
		all = append(all, prefix)
	}
	return all
}

func pausedIDs(t *testing.T, x *executor.Executor, queue string) (ids []string) {
	t.Helper()
	for id, err := range x.Inspect().PausedIDs(queue) {
		require.NoError(t, err)
		ids = append(ids, id)
	}
	return ids
}

// A job that is parked for a lock and paused runs when both are over, in either order;
// and while it is paused, it lets others of its key pass.
func TestPauseAndLocks(t *testing.T) {
	for name, of := range map[string]inspect.Selection{"id": inspect.SelectIDs("q", "a"), "prefix": inspect.SelectPrefix("q", "a")} {
		t.Run(name, func(t *testing.T) { pausesAndLocks(t, of) })
	}
}

func pausesAndLocks(t *testing.T, of inspect.Selection) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		var p probe
		key := func(string, string) []string { return []string{"k"} }
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{BlockedBy: key, OnRun: key, Unlock: key}}})
		start(t, x)
		keys := x.KeyLocks()
		for _, resumeFirst := range []bool{true, false} {
			require.NoError(t, keys.Lock(t.Context(), "k"))
			enqueue(t, q, "a", "1")
			synctest.Wait()
			_, err := x.Inspect().Pause(t.Context(), of)
			require.NoError(t, err)
			s, err := q.Stats(t.Context())
			require.NoError(t, err)
			require.Equal(t, []int{0, 1}, []int{s.Parked, s.PausedIDs + s.PausedPrefixes})
			enqueue(t, q, "b", "1")
			synctest.Wait()
			if resumeFirst {
				_, err = x.Inspect().Resume(t.Context(), of)
				require.NoError(t, err)
				synctest.Wait()
				require.NotContains(t, p.log(), "a[1]")
				require.NoError(t, keys.Unlock(t.Context(), "k"))
			} else {
				require.NoError(t, keys.Unlock(t.Context(), "k"))
				synctest.Wait()
				require.Equal(t, []string{"b[1]", "a[1]", "b[1]"}, p.log(), "a lets b pass")
				_, err = x.Inspect().Resume(t.Context(), of)
				require.NoError(t, err)
			}
			synctest.Wait()
		}
		require.Equal(t, []string{"b[1]", "a[1]", "b[1]", "a[1]"}, p.log())
		require.Empty(t, lockedKeys(x))
	})
}

// A job that is paused, or canceled, before its handler is called gives back what it had locked to run.
func TestPauseBeforeTheHandlerUnlocks(t *testing.T) {
	for name, act := range map[string]func(inspect.Inspector, context.Context, inspect.Selection) (int, error){
		"paused": inspect.Inspector.Pause, "deleted": inspect.Inspector.Delete,
		"canceled": func(i inspect.Inspector, ctx context.Context, which inspect.Selection) (int, error) {
			return i.Cancel(ctx, which, "")
		},
	} {
		for _, own := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", own service ", own), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					var service lock.Service
					if own {
						service = new(flags)
					}
					x := open(t, "", executor.Config{})
					var p probe
					key := keys("k")
					cfg := executor.QueueConfig[string]{Conditions: executor.Conditions[string]{
						Locks: executor.Locks[string]{BlockedBy: key, OnRun: key, Unlock: key, Service: service},
					}}
					cfg.Conditions.Limits = []executor.LimitOf[string]{{Limit: must(executor.NewLimit(x, "l", executor.LimitConfig{})), Key: func(id, _ string) string {
						if id == "a" {
							time.Sleep(time.Second)
						}
						return id
					}}}
					q := handle(t, x, "q", p.handle, cfg)
					start(t, x)
					enqueue(t, q, "a", "1")
					time.Sleep(500 * time.Millisecond) // in the key function
					n, err := act(x.Inspect(), t.Context(), inspect.SelectIDs("q", "a"))
					require.NoError(t, err)
					require.Equal(t, 1, n)
					enqueue(t, q, "b", "1")
					time.Sleep(time.Minute)
					require.Equal(t, []string{"b[1]"}, p.log())
					stop(t, x)
				})
			})
		}
	}
}

// A paused queue keeps nobody waiting whose turn would come after that of its jobs.
func TestPausedQueueGivesUpItsTurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 2})
		unique := executor.Unique[string]{Key: func(string, string) string { return "k" }}
		release := make(chan bool)
		var p probe
		first := handle(t, x, "first", func(context.Context, executor.Merged[string]) error { <-release; return nil }, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Unique: unique}})
		paused := handle(t, x, "paused", p.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Unique: unique}})
		free := handle(t, x, "free", p.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Unique: unique}})
		start(t, x)
		enqueue(t, first, "f", "")
		synctest.Wait()
		enqueue(t, paused, "in line", "")
		synctest.Wait()
		enqueue(t, free, "behind", "")
		synctest.Wait()
		require.NoError(t, pauseQueue(t.Context(), paused))
		release <- true
		synctest.Wait()
		require.Equal(t, []string{"behind[]"}, p.log())
		require.NoError(t, resumeQueue(t.Context(), paused))
		synctest.Wait()
		require.Equal(t, []string{"behind[]", "in line[]"}, p.log())
	})
}

// The same when its job needs two keys, and is the first at one that is free.
func TestPausedQueueGivesUpTheKeysThatAreFree(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		cfg := executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Unique: executor.Unique[string]{Key: func(_, payload string) string { return payload }}}}
		release := make(chan bool)
		var p probe
		first := handle(t, x, "first", func(context.Context, executor.Merged[string]) error { <-release; return nil }, cfg)
		paused := handle(t, x, "paused", p.handle, cfg)
		free := handle(t, x, "free", p.handle, cfg)
		start(t, x)
		enqueue(t, first, "f", "taken")
		synctest.Wait()
		_, err := paused.EnqueueMany(t.Context(), []executor.Item[string]{{ID: "both", Payload: "taken"}, {ID: "both", Payload: "free"}})
		require.NoError(t, err)
		synctest.Wait()
		enqueue(t, free, "behind", "free")
		synctest.Wait()
		require.Empty(t, p.log())
		require.NoError(t, pauseQueue(t.Context(), paused))
		synctest.Wait()
		require.Equal(t, []string{"behind[free]"}, p.log())
		release <- true
		stop(t, x)
	})
}

// The same when its turn has come already, and all workers are busy.
func TestPausedQueueGivesUpATurnThatHasCome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 2})
		unique := executor.Unique[string]{Key: func(string, string) string { return "k" }}
		release := make(chan bool)
		wait := func(context.Context, executor.Merged[string]) error { <-release; return nil }
		var p probe
		first := handle(t, x, "first", wait, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Unique: unique}})
		busy := handle(t, x, "busy", wait, executor.QueueConfig[string]{})
		paused := handle(t, x, "paused", p.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Unique: unique}})
		free := handle(t, x, "free", p.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Unique: unique}})
		start(t, x)
		enqueue(t, first, "f", "")
		synctest.Wait()
		enqueue(t, paused, "its turn", "")
		synctest.Wait()
		enqueue(t, free, "behind", "")
		synctest.Wait()
		for _, id := range []string{"1", "2", "3"} {
			enqueue(t, busy, id, "") // the first worker that is free has one of these
		}
		synctest.Wait()
		release <- true
		synctest.Wait()
		require.NoError(t, pauseQueue(t.Context(), paused))
		close(release)
		synctest.Wait()
		require.Equal(t, []string{"behind[]"}, p.log())
	})
}

func TestBadPauses(t *testing.T) {
	x := open(t, "", executor.Config{})
	q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { return nil }, executor.QueueConfig[string]{})
	i := x.Inspect()
	_, err := x.Inspect().Pause(t.Context(), inspect.SelectIDs(q.Name(), "a", ""))
	require.ErrorIs(t, err, executor.ErrInvalidID)
	require.Empty(t, pausedIDs(t, x, "q"))
	for _, s := range []inspect.Selection{
		inspect.SelectIDs("q", "a").At(1), inspect.SelectJobs("q", inspect.JobFilter{Failed: true}),
		{Queue: "q", IDs: []string{"a"}, Filter: inspect.JobFilter{IDPrefix: "a"}},
		inspect.SelectJobs("q", inspect.JobFilter{IDPrefix: "a"}, inspect.JobReady), inspect.SelectPrefix("q", strings.Repeat("x", 513)),
	} {
		require.ErrorIs(t, noCount(i.Pause(t.Context(), s)), inspect.ErrInvalidQuery)
	}
	_, err = i.Pause(t.Context(), inspect.SelectIDs("nobody's", "a"))
	require.ErrorIs(t, err, executor.ErrUnknownQueue)
	require.ErrorIs(t, noCount(i.Pause(t.Context(), inspect.SelectQueue(""))), executor.ErrUnknownQueue)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, pauseAll(ended, x), context.Canceled)
	stop(t, x)
	require.ErrorIs(t, pauseAll(t.Context(), x), executor.ErrClosed)
	_, err = x.Inspect().Resume(t.Context(), inspect.SelectIDs(q.Name(), "a"))
	require.ErrorIs(t, err, executor.ErrClosed)
}

func TestTooManyPausedIDs(t *testing.T) {
	x := open(t, "", executor.Config{})
	q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { return nil }, executor.QueueConfig[string]{})
	ids := make([]string, executor.MaxPausedIDs+1)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	n, err := x.Inspect().Pause(t.Context(), inspect.SelectIDs(q.Name(), ids...))
	require.ErrorIs(t, err, inspect.ErrTooManyPaused)
	require.Equal(t, executor.MaxPausedIDs, n)
	n, err = x.Inspect().Resume(t.Context(), inspect.SelectIDs(q.Name(), ids...))
	require.NoError(t, err)
	require.Equal(t, executor.MaxPausedIDs, n)
}

// A tenant with many jobs and more to come is paused and resumed as one, and holds up no
// other tenant.
func TestPauseOfATenant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 2})
		ran := make(map[string]int)
		q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
			tenant, _, _ := strings.Cut(job.ID, "/")
			ran[tenant]++
			return nil
		}, executor.QueueConfig[string]{MaxConcurrent: 1})
		require.NoError(t, err)
		of := inspect.SelectPrefix("q", "acme/")
		did(t, 1)(x.Inspect().Pause(t.Context(), of))
		did(t, 0)(x.Inspect().Pause(t.Context(), of))
		start(t, x)
		for i := range 1000 {
			for _, tenant := range []string{"acme/", "acme", "other/"} {
				enqueue(t, q, fmt.Sprint(tenant, i), "")
			}
		}
		synctest.Wait()
		require.Equal(t, []int{0, 1000}, []int{ran["acme"], ran["other"]})
		require.Len(t, ran, 1001, "acme0 to acme999 are no ids of acme/")
		did(t, 1)(x.Inspect().Resume(t.Context(), of))
		synctest.Wait()
		require.Equal(t, 1000, ran["acme"])
		did(t, 0)(x.Inspect().Resume(t.Context(), of))
		did(t, 0)(x.Inspect().Resume(t.Context(), inspect.SelectPrefix("q", "")))
	})
}

// A call whose context ends on the way is carried out all the same: what was resumed goes on
// as a whole, and what was paused waits as a whole.
func TestPauseOfATenantThatIsCutShort(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		ran := 0
		q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { ran++; return nil },
			executor.QueueConfig[string]{Share: executor.Share{Shards: 1}, MaxConcurrent: 1})
		const jobs = 3000
		for i := range jobs {
			enqueue(t, q, fmt.Sprint("acme/", i), "")
		}
		of := inspect.SelectPrefix("q", "acme/")
		cut := func(call func(context.Context, inspect.Selection) (int, error)) {
			ctx, cancel := context.WithCancel(t.Context())
			release, failed := x.HoldShards("q"), make(chan error)
			go func() {
				_, err := call(ctx, of)
				failed <- err
			}()
			synctest.Wait()
			cancel()
			err := <-failed
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, executor.ErrUnknown)
			release()
			synctest.Wait()
		}
		cut(x.Inspect().Pause)
		start(t, x)
		synctest.Wait()
		require.Zero(t, ran)
		cut(x.Inspect().Resume)
		require.Equal(t, jobs, ran)
	})
}

// When its context ends, a call says so if what it has begun may hold or not.
func TestPauseThatIsCutShort(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { return nil }, executor.QueueConfig[string]{})
		enqueue(t, q, "a", "", executor.In(time.Hour))
		start(t, x)
		cut := func(call func(context.Context, inspect.Selection) (int, error), which inspect.Selection) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			release := x.HoldShards("q")
			defer release()
			synctest.Wait()
			_, err := call(ctx, which)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, executor.ErrUnknown)
		}
		i := x.Inspect()
		for _, which := range []inspect.Selection{inspect.SelectExecutor(), inspect.SelectQueue("q"), inspect.SelectIDs("q", "a")} {
			cut(i.Pause, which)
			synctest.Wait()
			did(t, 1)(i.Resume(t.Context(), which))
		}
		cut(i.RunNow, inspect.SelectIDs("q")) // it has nothing left to do but to wait
	})
}
