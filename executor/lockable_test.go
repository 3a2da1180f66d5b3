package executor_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

// keys returns a function of payloads that gives always the same keys.
func keys(keys ...string) func(string, string) []string {
	return func(string, string) []string { return keys }
}

// words gives the words of a payload as keys.
func words(_, payload string) []string { return strings.Fields(payload) }

// lockedKeys are those of an executor that has not stopped, and no more than a page has.
func lockedKeys(x *executor.Executor) []inspect.KeyLockStatus {
	page, more, err := x.Inspect().LockedKeys("", brief.MaxRows)
	if err != nil || more > 0 {
		panic(fmt.Sprintf("the keys that are locked, but for %d: %v", more, err))
	}
	return page
}

// locked lists the locked keys, with how often each is.
func locked(x *executor.Executor) (list []string) {
	for _, k := range lockedKeys(x) {
		list = append(list, fmt.Sprint(k.Key, " ", len(k.Locks)))
	}
	return list
}

func explain(t testing.TB, x *executor.Executor, queue, id string) inspect.Explanation {
	t.Helper()
	e, err := x.Inspect().Explain(context.Background(), queue, id)
	require.NoError(t, err)
	return e
}

// S01: keys are locked when the payload is accepted; one, many, or none. What is
// refused or merged into an equal payload locks nothing.
func TestLockable_S01_LockedOnEnqueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 4}})
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{
			Merge: executor.MergeMinScore, Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{OnEnqueue: words}},
		})
		enqueue(t, q, "none", "")
		require.Empty(t, locked(x))
		enqueue(t, q, "one", "a")
		enqueue(t, q, "many", "b c b")
		require.Equal(t, []string{"a 1", "b 1", "c 1"}, locked(x))
		require.NotZero(t, enqueue(t, q, "one", "a").MergedInto)
		require.Equal(t, []string{"a 1", "b 1", "c 1"}, locked(x))
		enqueue(t, q, "last", "d")

		_, err := q.Enqueue(t.Context(), "too much", "e")
		require.ErrorIs(t, err, executor.ErrFull)
		_, err = q.EnqueueMany(t.Context(), []executor.Item[string]{{ID: "1", Payload: "f"}, {ID: "2", Payload: "g"}})
		require.ErrorIs(t, err, executor.ErrFull)
		_, err = q.Enqueue(t.Context(), "with a key", "h", executor.IdempotencyKey("key"))
		require.ErrorIs(t, err, executor.ErrFull)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = q.Enqueue(ended, "no time", "i")
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, []string{"a 1", "b 1", "c 1", "d 1"}, locked(x))
		stop(t, x)
	})
}

// S01: with Key and FromSource, and under DurabilityAsync, it is the same.
func TestLockable_S01_LockedOnEveryWayIn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		cfg := executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{OnEnqueue: words}}}
		q := handle(t, x, "q", (&probe{}).handle, cfg)
		cfg.Defaults.Durability = executor.DurabilityAsync
		async := handle(t, x, "async", (&probe{}).handle, cfg)
		enqueue(t, q, "1", "key", executor.IdempotencyKey("k"))
		enqueue(t, q, "1", "key again", executor.IdempotencyKey("k"))
		enqueue(t, q, "2", "once", executor.FromSource("mark", 1))
		_, err := q.Enqueue(t.Context(), "3", "stale", executor.FromSource("mark", 1))
		require.ErrorAs(t, err, new(*executor.StaleError))
		_, err = enqueueRaw(t.Context(), x, "q", "4", []byte(`"name"`))
		require.NoError(t, err)
		enqueue(t, async, "5", "async")
		want := []string{"async 1", "key 1", "name 1", "once 1"}
		require.Equal(t, want, locked(x))
		stop(t, x)
		x = openOn(t, disk.Crash(), executor.Config{})
		require.Equal(t, want, locked(x))
		stop(t, x)
	})
}

// S02: keys are locked when the job is about to run, once however often it runs.
func TestLockable_S02_LockedOnRun(t *testing.T) {
	for _, counted := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			x := open(t, "", executor.Config{})
			var during [][]string
			p := &probe{decide: func(_ context.Context, s seen) error {
				during = append(during, locked(x))
				if s.retry < 1 {
					return errBoom
				}
				return nil
			}}
			q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
				RetryIn: always(time.Second), Conditions: executor.Conditions[string]{
					Locks: executor.Locks[string]{OnRun: words, Counted: counted},
				},
			})
			enqueue(t, q, "1", "a b")
			require.Empty(t, locked(x))
			start(t, x)
			time.Sleep(time.Minute)
			synctest.Wait()
			once := []string{"a 1", "b 1"}
			require.Equal(t, [][]string{once, once, once}, during)
			require.Equal(t, once, locked(x), "no job has unlocked them")
			stop(t, x)
		})
	}
}

// S02: not before it runs: a job that is not due, or waits for a worker, locks
// nothing, whatever is listed; from when its handler begins the keys are locked,
// one or many of all its payloads, on disk, too.
func TestLockable_S02_NotBeforeItRuns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{Workers: 1})
		goOn := make(chan struct{})
		var during []string
		var images []*journal.Memory
		p := &probe{decide: func(_ context.Context, s seen) error {
			switch s.id {
			case "busy":
				<-goOn
			case "locks":
				during = append(during, locked(x)...)
				images = append(images, disk.Crash())
			}
			return nil
		}}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}, Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{OnRun: words}}})
		waits := handle(t, x, "waits", p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}, Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{BlockedBy: words}}})
		enqueue(t, q, "locks", "a", executor.In(time.Hour))
		enqueue(t, q, "locks", "b c")
		enqueue(t, q, "none", "", executor.In(time.Hour))
		start(t, x)
		enqueue(t, waits, "not due", "a b c")
		synctest.Wait()
		require.Equal(t, []string{"not due[a b c]"}, p.log())
		enqueue(t, waits, "busy", "")
		time.Sleep(2 * time.Hour)
		require.Empty(t, locked(x), "it is due, and waits for a worker")
		close(goOn)
		synctest.Wait()
		require.Equal(t, []string{"a 1", "b 1", "c 1"}, during)
		require.Len(t, images, 1)
		enqueue(t, waits, "late", "c")
		synctest.Wait()
		require.Equal(t, inspect.JobBlocked, explain(t, x, "waits", "late").State)
		after := disk.Crash()
		stop(t, x)
		y := openOn(t, after, executor.Config{})
		require.Equal(t, []string{"a 1", "b 1", "c 1"}, locked(y))
		stop(t, y)
		// They are in one commit with the run or an earlier one; the job runs
		// again.
		y = openOn(t, images[0], executor.Config{})
		again := new(probe)
		handle(t, y, "q", again.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{OnRun: words}}})
		start(t, y)
		synctest.Wait()
		require.Contains(t, again.log(), "locks[a b c]")
		require.Equal(t, []string{"a 1", "b 1", "c 1"}, locked(y))
		stop(t, y)
	})
}

// S03: a job whose keys are locked does not run; what becomes of it is said by
// WhenBlocked. Lockable's own answer is an error and the normal retry.
func TestLockable_S03_Blocked(t *testing.T) {
	for name, test := range map[string]struct {
		blocked lock.Decision
		state   inspect.JobState // while the key is locked
		failed  uint64           // after 25 s
		ran     bool             // once it is unlocked
	}{
		"park":    {lock.Decision{}, inspect.JobBlocked, 0, true},
		"error":   {lock.Decision{Fail: lock.ErrLocked}, inspect.JobRetrying, 3, true},
		"my own":  {lock.Decision{Fail: errBoom}, inspect.JobRetrying, 3, true},
		"requeue": {lock.Decision{After: 10 * time.Second}, inspect.JobScheduled, 0, true},
		"skip":    {lock.Decision{Skip: true}, inspect.JobUnknown, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				p := &probe{}
				q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
					RetryIn: always(10 * time.Second),
					Conditions: executor.Conditions[string]{
						Locks: executor.Locks[string]{BlockedBy: words, Unlock: keys("mine"), WhenBlocked: test.blocked},
					},
				})
				require.NoError(t, x.KeyLocks().Lock(t.Context(), "b"))
				require.NoError(t, x.KeyLocks().Lock(t.Context(), "mine"))
				enqueue(t, q, "1", "a b c")
				start(t, x)
				time.Sleep(25 * time.Second)
				synctest.Wait()
				require.Empty(t, p.log())
				require.Equal(t, []string{"b 1", "mine 1"}, locked(x))
				e := explain(t, x, "q", "1")
				require.Equal(t, test.state, e.State)
				require.Equal(t, test.failed, stats(t, q).Failed)
				switch name {
				case "park":
					require.Equal(t, `q/1 is blocked; "b" locked by a person; waiting: q/1`, e.String())
				case "error":
					require.Contains(t, e.LastError, `"b" is held by "a person"`)
				case "my own":
					require.Equal(t, "boom", e.LastError)
				}
				require.NoError(t, x.KeyLocks().Unlock(t.Context(), "b"))
				synctest.Wait()
				if name == "park" {
					require.Len(t, p.log(), 1, "at once")
				}
				time.Sleep(time.Minute)
				require.Equal(t, test.ran, len(p.log()) == 1)
				require.Equal(t, test.ran, len(locked(x)) == 0)
				stop(t, x)
			})
		})
	}
}

// S03: any of its keys keeps a job from running, the first one and the last one and
// each as long as it is locked; keys that it does not name don't, and locks of its
// own id neither.
func TestLockable_S03_AnyKeyBlocks(t *testing.T) {
	for _, order := range []string{"a", "b", "c", "a b", "c a", "b c", "c b a", "a b c"} {
		bubble(t, func(t *testing.T) {
			x := open(t, "", executor.Config{})
			p := new(probe)
			q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
				Conditions: executor.Conditions[string]{
					Locks: executor.Locks[string]{OnEnqueue: keys("its own"), BlockedBy: func(_, payload string) []string {
						return append(words("", payload), "its own")
					}, Unlock: keys("its own")},
				},
			})
			for _, key := range append(strings.Fields(order), "another") {
				require.NoError(t, x.KeyLocks().Lock(t.Context(), key))
			}
			enqueue(t, q, "1", "a b")
			enqueue(t, q, "1", "c") // the keys of all its payloads count
			start(t, x)
			for key := range strings.FieldsSeq(order) {
				time.Sleep(time.Hour)
				require.Empty(t, p.log(), "%s of %s", key, order)
				require.Equal(t, inspect.JobBlocked, explain(t, x, "q", "1").State)
				require.NoError(t, x.KeyLocks().Unlock(t.Context(), key))
			}
			synctest.Wait()
			require.Equal(t, []string{"1[a b c]"}, p.log())
			require.Equal(t, []string{"another 1"}, locked(x))
			stop(t, x)
		})
	}
}

// S03: the error is a failure like any other: it backs off, spends its retries, and
// ends in the morgue with what blocked it.
func TestLockable_S03_ErrorSpendsRetries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		p := new(probe)
		var exhausted shared[string]
		var pauses shared[[]int]
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
			MaxRetries: 2,
			RetryIn:    func(n int) time.Duration { pauses.set(append(pauses.get(), n)); return time.Minute },
			DeadLetters: executor.DeadLetters[string]{
				RetriesExhausted: func(_ context.Context, jobs []executor.Merged[string]) {
					exhausted.set(jobs[0].LastError)
				},
			},
			Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{BlockedBy: words, OnRun: keys("mine"), WhenBlocked: lock.Decision{Fail: lock.ErrLocked}},
			},
		})
		require.NoError(t, x.KeyLocks().Lock(t.Context(), "b"))
		enqueue(t, q, "1", "a b")
		start(t, x)
		begin := time.Now()
		time.Sleep(time.Hour)
		require.Empty(t, p.log())
		require.EqualValues(t, 3, stats(t, q).Failed)
		require.Equal(t, []int{0, 1}, pauses.get()[:2])
		dead := morgue(t, q)
		require.Len(t, dead, 1)
		require.Equal(t, 2*time.Minute, dead[0].At.Sub(begin))
		require.Contains(t, dead[0].Error, `"b" is held by "a person"`)
		require.Equal(t, dead[0].Error, exhausted.get())
		require.Equal(t, []string{"b 1"}, locked(x), "what did not run has locked nothing")
		stop(t, x)
	})
}

// S03: jobs that wait for one key run in the order in which they came to it, one
// after the other if they lock it themselves.
func TestLockable_S03_FirstComeFirstServed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		p := &probe{decide: takes(time.Second, nil)}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
			Share: executor.Share{Shards: 1, Concurrency: 20}, Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{BlockedBy: words, OnRun: words, Unlock: words},
			},
		})
		start(t, x)
		var want []string
		for i := range 10 {
			enqueue(t, q, fmt.Sprint(i), "key")
			synctest.Wait()
			want = append(want, fmt.Sprint(i, "[key]"))
		}
		require.Len(t, p.log(), 1)
		time.Sleep(time.Minute)
		require.Equal(t, want, p.log())
		stop(t, x)
	})
}

// S04: keys are unlocked when the job has succeeded, and only then, whichever job
// has locked them.
func TestLockable_S04_UnlockedBySuccess(t *testing.T) {
	for name, test := range map[string]struct {
		end  func() error
		free bool
	}{
		"done":      {func() error { return nil }, true},
		"discarded": {func() error { return executor.Discard() }, true},
		"failed":    {func() error { return errBoom }, false},
		"panic":     {func() error { panic("boom") }, false},
		"Goexit":    {func() error { runtime.Goexit(); return nil }, false},
		"snoozed":   {func() error { return executor.Snooze(time.Hour) }, false},
		"morgue":    {func() error { return executor.Cancel(errBoom) }, false},
	} {
		for _, own := range []bool{false, true} { // a service of the queue's own
			t.Run(fmt.Sprint(name, ", own service ", own), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					x := open(t, "", executor.Config{})
					var service lock.Service = x.KeyLocks()
					locks, unlocks := executor.Locks[string]{OnEnqueue: words}, executor.Locks[string]{Unlock: words}
					if own {
						service = new(flags)
						locks.Service, unlocks.Service = service, service
						require.NoError(t, x.KeyLocks().Lock(t.Context(), "a")) // another one
					}
					locker := handle(t, x, "locker", (&probe{}).handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: locks}})
					q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { return test.end() },
						executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: unlocks}})
					enqueue(t, locker, "1", "a", executor.In(time.Hour))
					require.NoError(t, service.Lock(t.Context(), "b"))
					enqueue(t, q, "1", "a b unknown")
					start(t, x)
					synctest.Wait()
					for _, key := range []string{"a", "b"} {
						require.Equal(t, test.free, !must(service.Locked(t.Context(), key)), key)
					}
					if own {
						require.Equal(t, []string{"a 1"}, locked(x))
					}
					stop(t, x)
				})
			})
		}
	}
}

// S04: a discard whose service can't unlock is none, as a success is none.
func TestLockable_S04_ServiceThatCannotUnlock(t *testing.T) {
	for name, end := range map[string]error{"done": nil, "discarded": executor.Discard()} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				service := new(brittle)
				p := &probe{decide: func(context.Context, seen) error { return end }}
				q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{RetryIn: always(time.Second), Conditions: executor.Conditions[string]{
					Locks: executor.Locks[string]{OnEnqueue: words, Unlock: words, Service: service},
				}})
				start(t, x)
				enqueue(t, q, "1", "a")
				synctest.Wait()
				require.EqualValues(t, 1, stats(t, q).Failed)
				time.Sleep(time.Minute)
				require.Len(t, p.log(), 2)
				require.Equal(t, `lock service: unlock "a": boom`, p.seen()[1].last)
				require.False(t, must(service.Locked(t.Context(), "a")))
				require.Zero(t, stats(t, q).Jobs)
				stop(t, x)
			})
		})
	}
}

// S04: a service is asked to unlock what it has not locked: the executor kept the keys when the
// payload was accepted, or the last process died with the key unlocked and the success not yet
// written down. The run is a success all the same, and nothing stays locked.
func TestLockable_S04_ServiceThatHasNotLocked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		locks := executor.Locks[string]{OnEnqueue: words, Unlock: words}
		q := handle(t, x, "q", new(probe).handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: locks}})
		enqueue(t, q, "1", "a", executor.In(time.Hour))
		stop(t, x)

		x = openOn(t, disk, executor.Config{})
		locks.Service = new(counters)
		q = handle(t, x, "q", new(probe).handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: locks}})
		start(t, x)
		require.Equal(t, []string{"a 1"}, locked(x))
		time.Sleep(time.Hour)
		synctest.Wait()
		done := stats(t, q)
		require.Equal(t, []uint64{1, 0}, []uint64{done.Done, done.Failed})
		require.Empty(t, lockedAfterCrash(t, x, disk))
		stop(t, x)
	})
}

// brittle is a service whose first Unlock fails, after a time.
type brittle struct {
	flags
	after time.Duration
	broke bool
}

func (b *brittle) Unlock(ctx context.Context, key string) error {
	if !b.broke {
		time.Sleep(b.after)
		b.broke = true
		return errBoom
	}
	return b.flags.Unlock(ctx, key)
}

// S04: not before the success: while the job runs and between its retries the keys
// stay locked, and then all go at once, whether they were locked on enqueue or on
// run, by its own queue, by another one, or by a person.
func TestLockable_S04_NotBeforeItHasSucceeded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		all := []string{"by hand 1", "enqueued 1", "mine 1", "ran 1"}
		var during [][]string
		p := &probe{decide: func(_ context.Context, s seen) error {
			during = append(during, locked(x))
			if s.retry < 1 {
				return errBoom
			}
			return nil
		}}
		others := new(probe)
		enqueued := handle(t, x, "enqueued", others.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{OnEnqueue: keys("enqueued")}}})
		ran := handle(t, x, "ran", others.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{OnRun: keys("ran")}}})
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
			RetryIn: always(time.Minute),
			Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{OnEnqueue: keys("mine"), Unlock: keys("mine", "enqueued", "ran", "by hand", "not locked")},
			},
		})
		waits := handle(t, x, "waits", others.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{BlockedBy: words}}})
		require.NoError(t, x.KeyLocks().Lock(t.Context(), "by hand"))
		enqueue(t, enqueued, "1", "", executor.In(time.Hour))
		enqueue(t, ran, "1", "")
		start(t, x)
		synctest.Wait()
		enqueue(t, q, "1", "x")
		enqueue(t, waits, "1", "mine")
		for range 2 {
			synctest.Wait()
			require.Equal(t, all, locked(x), "it has failed")
			time.Sleep(time.Minute - 1)
			require.Equal(t, all, locked(x), "it waits for its retry")
			time.Sleep(time.Nanosecond)
		}
		synctest.Wait()
		require.Equal(t, [][]string{all, all, all}, during)
		require.Empty(t, locked(x))
		require.Equal(t, []string{"1[]", "1[mine]"}, others.log())
		y := openOn(t, disk.Crash(), executor.Config{})
		require.Empty(t, locked(y), "in the commit of the success")
		stop(t, y)
		stop(t, x)
	})
}

// S04: of a batch only those unlock that have succeeded.
func TestLockable_S04_OfABatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		q, err := executor.HandleBatch(x, "q", func(_ context.Context, jobs []executor.Merged[string]) error {
			require.Len(t, jobs, 4)
			return executor.BatchErrors{"fails": errBoom, "cancels": executor.Cancel(errBoom), "discards": executor.Discard()}
		}, executor.QueueConfig[string]{
			Share: executor.Share{Shards: 1}, BatchSize: 4, RetryIn: always(time.Hour), Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{OnEnqueue: words, Unlock: words},
			},
		})
		require.NoError(t, err)
		for _, id := range []string{"fails", "cancels", "discards", "done"} {
			enqueue(t, q, id, id)
		}
		start(t, x)
		synctest.Wait()
		require.Equal(t, []string{"cancels 1", "fails 1"}, locked(x))
		stop(t, x)
	})
}

// S05: a flag is unlocked by one unlock; a counter by as many as it was locked, in
// one job of many payloads, too, and it never goes below zero.
func TestLockable_S05_FlagsAndCounters(t *testing.T) {
	for _, counted := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			x := open(t, "", executor.Config{})
			setter := handle(t, x, "setter", (&probe{}).handle, executor.QueueConfig[string]{
				Merge: executor.MergeKeepAll, Conditions: executor.Conditions[string]{
					Locks: executor.Locks[string]{OnEnqueue: words, Counted: counted},
				},
			})
			q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{
				Merge: executor.MergeKeepAll, Conditions: executor.Conditions[string]{
					Locks: executor.Locks[string]{Unlock: words, Counted: counted},
				},
			})
			start(t, x)
			for range 3 {
				enqueue(t, setter, "1", "key", executor.In(time.Hour))
			}
			require.Equal(t, []string{"key 3"}, locked(x))
			enqueue(t, q, "1", "key")
			synctest.Wait()
			if !counted {
				require.Empty(t, locked(x))
			} else {
				require.Equal(t, []string{"key 2"}, locked(x))
				for range 2 { // merged into one run
					enqueue(t, q, "2", "key", executor.In(time.Second))
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Empty(t, locked(x))
			}
			enqueue(t, q, "1", "key") // below zero
			synctest.Wait()
			enqueue(t, setter, "2", "key", executor.In(time.Hour))
			require.Equal(t, []string{"key 1"}, locked(x))
			stop(t, x)
		})
	}
}

// S05: a flag that three have locked is free after one unlock; a counter is locked
// while it is above zero: what waits for it runs after the third, not before. So it
// is for the executor's own keys and for services. Which of the two it is the queue says
// that unlocks, and no other.
func TestLockable_S05_LockedWhileAboveZero(t *testing.T) {
	one, all := new(flags), new(counters)
	for name, test := range map[string]struct {
		unlocks int
		locks   executor.Locks[string] // of the queue that unlocks
		others  executor.Locks[string] // of the queue that locks, and of the one that waits
	}{
		"flags":              {1, executor.Locks[string]{}, executor.Locks[string]{}},
		"counters":           {3, executor.Locks[string]{Counted: true}, executor.Locks[string]{Counted: true}},
		"flags, unlocked":    {1, executor.Locks[string]{}, executor.Locks[string]{Counted: true}},
		"counters, unlocked": {3, executor.Locks[string]{Counted: true}, executor.Locks[string]{}},
		"service, flags":     {1, executor.Locks[string]{Service: one}, executor.Locks[string]{Service: one}},
		"service, counters":  {3, executor.Locks[string]{Service: all}, executor.Locks[string]{Service: all}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				p := new(probe)
				sets, unlocks, waits := test.others, test.locks, test.others
				sets.OnEnqueue, unlocks.Unlock, waits.BlockedBy = words, words, words
				setter := handle(t, x, "setter", p.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: sets}})
				unlocker := handle(t, x, "unlocker", (&probe{}).handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: unlocks}})
				waiter := handle(t, x, "waiter", p.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: waits}})
				for _, id := range []string{"1", "2", "3"} {
					enqueue(t, setter, id, "key", executor.In(time.Hour))
				}
				enqueue(t, unlocker, "too early", "other") // not locked
				enqueue(t, waiter, "waiter", "key")
				start(t, x)
				for i := range test.unlocks {
					time.Sleep(time.Minute)
					require.Empty(t, p.log(), "after %d unlocks", i)
					enqueue(t, unlocker, fmt.Sprint(i), "key")
					synctest.Wait()
				}
				require.Equal(t, []string{"waiter[key]"}, p.log(), "at once")
				stop(t, x)
			})
		})
	}
}

// S05: the payloads of one job lock and unlock for themselves.
func TestLockable_S05_CountedPayloadsOfOneJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		fails := 1
		p := &probe{decide: func(context.Context, seen) error {
			if fails--; fails >= 0 {
				return errBoom
			}
			return nil
		}}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
			Merge: executor.MergeKeepAll, RetryIn: always(time.Second),
			Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{OnEnqueue: keys("enqueued"), OnRun: keys("ran"), Unlock: keys("enqueued", "ran"), Counted: true},
			},
		})
		for range 3 {
			enqueue(t, q, "1", "")
		}
		start(t, x)
		synctest.Wait()
		require.Equal(t, []string{"enqueued 3", "ran 3"}, locked(x))
		enqueue(t, q, "1", "")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, p.log(), 2)
		require.Empty(t, locked(x))
		stop(t, x)
	})
}

// S05: of a key that a payload does not lock itself it unlocks a lock of its own job, and
// the oldest of another job only where there is none.
func TestLockable_S05_OwnJobsLocksFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		after := func(verb string) func(string, string) []string {
			return func(_, payload string) []string {
				if key, ok := strings.CutPrefix(payload, verb); ok {
					return []string{key}
				}
				return nil
			}
		}
		q := handle(t, x, "q", (&probe{}).handle, executor.QueueConfig[string]{
			Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{OnEnqueue: after("lock "), Unlock: after("unlock "), Counted: true},
			},
		})
		owners := func() (all []string) {
			for _, key := range lockedKeys(x) {
				for _, held := range key.Locks {
					all = append(all, held.By)
				}
			}
			return all
		}
		for _, id := range []string{"older", "mine", "younger"} {
			enqueue(t, q, id, "lock key")
		}
		require.Equal(t, []string{"q/older", "q/mine", "q/younger"}, owners())
		start(t, x)
		for _, left := range [][]string{{"q/older", "q/younger"}, {"q/younger"}} {
			enqueue(t, q, "mine", "unlock key")
			synctest.Wait()
			require.Equal(t, left, owners())
		}
		stop(t, x)
	})
}

// asking is a service that can't wake a job and says itself what becomes of it.
type asking struct {
	*counters
	decide func(ctx context.Context, job lock.Job, keys []string) lock.Decision
}

func (a asking) Watch() {} // hides the one that it has

func (a asking) HandleLockedBy(ctx context.Context, job lock.Job, keys []string) lock.Decision {
	return a.decide(ctx, job, keys)
}

// S06: a queue may bring its own service, which also decides what becomes of a job
// that is blocked.
func TestLockable_S06_OwnService(t *testing.T) {
	for name, test := range map[string]struct {
		service func(lock.Decision) lock.Service
		blocked lock.Decision
		ran     int
		at      time.Duration
	}{
		"wakes":   {func(lock.Decision) lock.Service { return new(counters) }, lock.Decision{}, 1, 30 * time.Second},
		"asks":    {nil, lock.Decision{}, 1, 30 * time.Second},
		"requeue": {nil, lock.Decision{After: 7 * time.Second}, 1, 35 * time.Second},
		"swallow": {nil, lock.Decision{Skip: true}, 0, 0},
		"fail":    {nil, lock.Decision{Fail: errBoom}, 1, 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				begin := time.Now()
				if test.service == nil {
					test.service = func(d lock.Decision) lock.Service {
						return asking{new(counters), func(_ context.Context, _ lock.Job, keys []string) lock.Decision {
							require.Equal(t, []string{"gate"}, keys)
							return d
						}}
					}
				}
				service := test.service(test.blocked)
				x := open(t, "", executor.Config{})
				p := &probe{}
				q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
					RetryIn: always(10 * time.Second),
					Conditions: executor.Conditions[string]{
						Locks: executor.Locks[string]{Service: service, OnEnqueue: words, BlockedBy: keys("free", "gate"), OnRun: keys("run"), Unlock: words},
					},
				})
				require.NoError(t, service.Lock(t.Context(), "gate"))
				enqueue(t, q, "1", "mine")
				isLocked := func(key string) bool { return must(service.Locked(t.Context(), key)) }
				require.True(t, isLocked("mine"))
				require.Empty(t, locked(x), "they are not the executor's")
				start(t, x)
				time.Sleep(30 * time.Second)
				synctest.Wait()
				require.Empty(t, p.log())
				require.False(t, isLocked("run"))
				require.NoError(t, service.Unlock(t.Context(), "gate"))
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Len(t, p.log(), test.ran)
				if test.ran > 0 {
					require.WithinDuration(t, begin.Add(test.at), p.seen()[0].at, time.Second)
				}
				require.Equal(t, test.ran == 0, isLocked("mine"))
				require.Equal(t, test.ran == 1, isLocked("run"))
				stop(t, x)
			})
		})
	}
}

// S06: a service that decides hears of all keys that are locked, in their order,
// and of none that is free.
func TestLockable_S06_HearsOfAllLockedKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var heard [][]string
		service := asking{new(counters), func(_ context.Context, _ lock.Job, keys []string) lock.Decision {
			heard = append(heard, keys)
			return lock.Decision{After: time.Minute}
		}}
		x := open(t, "", executor.Config{})
		p := new(probe)
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
			Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{Service: service, BlockedBy: words},
			},
		})
		for _, key := range []string{"b", "d", "e", "z"} {
			require.NoError(t, service.Lock(t.Context(), key))
		}
		enqueue(t, q, "1", "a b c d e")
		start(t, x)
		for _, key := range []string{"d", "b", "e"} {
			synctest.Wait()
			require.NoError(t, service.Unlock(t.Context(), key))
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		require.Equal(t, [][]string{{"b", "d", "e"}, {"b", "e"}, {"e"}}, heard)
		require.Len(t, p.log(), 1)
		stop(t, x)
	})
}

// S06: a service that decides gets the job, with its queue, id, payloads and attempt, and
// may let it fail, come back after a delay, enqueue another, and drop it, one after the
// other.
func TestLockable_S06_GetsTheJob(t *testing.T) {
	type order struct{ Item string }
	for name, single := range map[string]bool{"Handle": true, "HandleMerged": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 2}})
				var heard []lock.Job
				var at []time.Duration
				begin := time.Now()
				instead := new(probe)
				others := handle(t, x, "others", instead.handle, executor.QueueConfig[string]{})
				service := asking{new(counters), func(ctx context.Context, job lock.Job, keys []string) lock.Decision {
					heard, at = append(heard, job), append(at, time.Since(begin))
					switch len(heard) {
					case 1:
						return lock.Decision{Fail: errBoom}
					case 2:
						return lock.Decision{After: time.Hour}
					case 3:
						item := job.Payloads[0].(order).Item
						_, err := others.Enqueue(ctx, job.ID, "instead of "+item) // though the backlog is full
						require.NoError(t, err)
					}
					return lock.Decision{Skip: true}
				}}
				cfg := executor.QueueConfig[order]{
					RetryIn: always(time.Minute),
					Conditions: executor.Conditions[order]{
						Locks: executor.Locks[order]{Service: service, BlockedBy: func(string, order) []string { return []string{"gate"} }},
					},
				}
				var q *executor.Queue[order]
				var err error
				if single {
					q, err = executor.Handle(x, "orders", func(context.Context, executor.Job[order]) error { return errBoom }, cfg)
				} else {
					q, err = executor.HandleMerged(x, "orders", func(context.Context, executor.Merged[order]) error { return errBoom }, cfg)
				}
				require.NoError(t, err)
				require.NoError(t, service.Lock(t.Context(), "gate"))
				enqueue(t, q, "7", order{"tea"})
				enqueue(t, q, "7", order{"milk"})
				start(t, x)
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				payloads := []any{order{"tea"}, order{"milk"}}
				want := []lock.Job{{Queue: "orders", ID: "7", Attempt: 1}, {Queue: "orders", ID: "7", Attempt: 2}, {Queue: "orders", ID: "7", Attempt: 2}}
				for i := range want {
					want[i].Payloads = payloads
				}
				if single { // each alone: the second one when the first is dropped
					for i := range want {
						want[i].Payloads = payloads[:1]
					}
					want = append(want, lock.Job{Queue: "orders", ID: "7", Attempt: 1, Payloads: payloads[1:]})
				}
				require.Equal(t, want, heard)
				require.Equal(t, []time.Duration{0, time.Minute, time.Minute + time.Hour}, at[:3])
				require.Equal(t, []string{"7[instead of tea]"}, instead.log())
				require.EqualValues(t, 2, stats(t, q).Discarded)
				require.Zero(t, stats(t, q).Jobs)
				stop(t, x)
			})
		})
	}
}

// failing is a service in which nothing works.
type failing struct{ flags }

func (*failing) Lock(context.Context, string) error   { return errBoom }
func (*failing) Unlock(context.Context, string) error { panic("boom") }

// S06: an error of the service fails the call or the run, and loses nothing.
func TestLockable_S06_ServiceThatFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 1}})
		p := &probe{}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
			MaxRetries: 2, RetryIn: always(time.Second), Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{Service: new(failing), OnEnqueue: words, Unlock: keys("x")},
			},
		})
		_, err := q.Enqueue(t.Context(), "1", "key")
		require.ErrorIs(t, err, errBoom)
		require.ErrorContains(t, err, `lock "key"`)
		enqueue(t, q, "1", "")
		start(t, x)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, p.log(), 3)
		require.Len(t, morgue(t, q), 1)
		require.Contains(t, morgue(t, q)[0].Error, `unlock "x"`)

		flags := new(counters)
		q = handle(t, x, "refused", p.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{Service: flags, OnEnqueue: words}}})
		enqueue(t, q, "1", "", executor.In(time.Hour))
		_, err = q.Enqueue(t.Context(), "2", "key")
		require.ErrorIs(t, err, executor.ErrFull)
		require.False(t, must(flags.Locked(t.Context(), "key")), "nothing was accepted")
		stop(t, x)
	})
}

// S06: what a service has locked for a run that waits for something else is
// unlocked again.
func TestLockable_S06_ServiceOfAJobThatWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		counters := new(counters)
		x := open(t, "", alone)
		p := &probe{decide: takes(time.Second, nil)}
		byID := func(id, _ string) []string { return []string{id} }
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
			Share: executor.Share{Shards: 1, Concurrency: 2}, Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{Service: counters, BlockedBy: byID, OnRun: byID, Unlock: byID},
			},
		})
		start(t, x)
		enqueue(t, q, "a", "same")
		synctest.Wait()
		enqueue(t, q, "b", "same")
		synctest.Wait()
		require.True(t, must(counters.Locked(t.Context(), "a")))
		require.False(t, must(counters.Locked(t.Context(), "b")))
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"a[same]", "b[same]"}, p.log())
		require.False(t, must(counters.Locked(t.Context(), "b")))
		stop(t, x)
	})
}

// S07: what was shipped is dealt with before the rest is cancelled, though both
// came independently of each other.
func TestLockable_S07_ShippedBeforeCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		p := &probe{decide: func(_ context.Context, s seen) error {
			if s.id == "webhook 1" && s.retry < 0 {
				return errBoom
			}
			return nil
		}}
		shipped := handle(t, x, "shipped", p.handle, executor.QueueConfig[string]{
			RetryIn: always(time.Second), Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{OnEnqueue: words, Unlock: words},
			},
		})
		cancel := handle(t, x, "cancel", p.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{BlockedBy: words}}})
		enqueue(t, shipped, "webhook 1", "order-7")
		enqueue(t, cancel, "webhook 2", "order-7")
		enqueue(t, cancel, "webhook 3", "order-8")
		start(t, x)
		synctest.Wait()
		require.ElementsMatch(t, []string{"webhook 1[order-7]", "webhook 3[order-8]"}, p.log())
		require.Equal(t, `cancel/webhook 2 is blocked; "order-7" locked by shipped/webhook 1; waiting: cancel/webhook 2`,
			explain(t, x, "cancel", "webhook 2").String())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"webhook 1[order-7]", "webhook 2[order-7]"}, p.log()[2:])
		require.Empty(t, locked(x))
		stop(t, x)
	})
}
