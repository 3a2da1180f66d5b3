package executor_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

var alone = executor.Config{Unique: executor.Unique[any]{While: executor.UniqueWhileRunning}}

// takes returns a decision that takes some (virtual) time and then returns err.
func takes(d time.Duration, err error) func(context.Context, seen) error {
	return func(ctx context.Context, _ seen) error {
		select {
		case <-time.After(d):
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// most counts how many are at something together.
type most struct {
	mu       sync.Mutex
	now, max int
}

func (m *most) do(f func()) {
	m.mu.Lock()
	m.now++
	m.max = max(m.max, m.now)
	m.mu.Unlock()
	f()
	m.mu.Lock()
	m.now--
	m.mu.Unlock()
}

func (m *most) peak() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.max
}

// R01: a lock on the key is taken before a job runs; the key is the whole payload,
// or what a function makes of it.
func TestLocket_R01_KeyOfAJob(t *testing.T) {
	type order struct{ Item, At string }
	for name, test := range map[string]struct {
		unique executor.Unique[order]
		want   int // at a time
	}{
		"no lock":    {executor.Unique[order]{While: executor.UniqueNever}, 4},
		"payload":    {executor.Unique[order]{}, 3},
		"a function": {executor.Unique[order]{Key: func(_ string, o order) string { return o.Item }}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", alone)
				var together most
				q := handle(t, x, "q", func(_ context.Context, job executor.Merged[order]) error {
					together.do(func() { time.Sleep(time.Second) })
					return nil
				}, executor.QueueConfig[order]{Conditions: executor.Conditions[order]{Unique: test.unique}, Share: executor.Share{Shards: 1, Concurrency: 4}})
				enqueue(t, q, "1", order{"tea", "noon"})
				enqueue(t, q, "2", order{"tea", "noon"})
				enqueue(t, q, "3", order{"tea", "midnight"})
				enqueue(t, q, "4", order{"milk", "noon"})
				start(t, x)
				time.Sleep(time.Minute)
				settled(t, q)
				require.Equal(t, test.want, together.peak())
				require.EqualValues(t, 4, stats(t, q).Done)
				stop(t, x)
			})
		})
	}
}

// R02: which queues take part is configured, for all or for each. Queues with a key
// function of their own share the keys.
func TestLocket_R02_WhichQueues(t *testing.T) {
	byPayload := func(_, payload string) string { return payload }
	for name, test := range map[string]struct {
		all  executor.Uniqueness
		a, b executor.Unique[string]
		want int // at a time, of two jobs in each queue
	}{
		"none by default": {"", executor.Unique[string]{}, executor.Unique[string]{}, 4},
		"all":             {executor.UniqueWhileRunning, executor.Unique[string]{}, executor.Unique[string]{}, 2},
		"all but one":     {executor.UniqueWhileRunning, executor.Unique[string]{}, executor.Unique[string]{While: executor.UniqueNever}, 3},
		"only one":        {"", executor.Unique[string]{While: executor.UniqueWhileRunning}, executor.Unique[string]{}, 3},
		"across queues":   {executor.UniqueWhileRunning, executor.Unique[string]{Key: byPayload}, executor.Unique[string]{Key: byPayload}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{Unique: executor.Unique[any]{While: test.all}})
				var together most
				handler := func(context.Context, executor.Merged[string]) error {
					together.do(func() { time.Sleep(time.Second) })
					return nil
				}
				for name, unique := range map[string]executor.Unique[string]{"a": test.a, "b": test.b} {
					q := handle(t, x, name, handler, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Unique: unique}, Share: executor.Share{Shards: 1, Concurrency: 4}})
					enqueue(t, q, "1", "same")
					enqueue(t, q, "2", "same")
				}
				start(t, x)
				time.Sleep(time.Minute)
				require.Equal(t, test.want, together.peak())
				stop(t, x)
			})
		})
	}
}

// R03: while the job runs a heartbeat extends the lock: 35 s every 30 s, or as
// configured, no sooner and no later; what makes no sense is refused.
func TestLocket_R03_Heartbeat(t *testing.T) {
	for name, test := range map[string]struct {
		unique    executor.Unique[string]
		ttl, beat time.Duration
	}{
		"default":  {executor.Unique[string]{}, 35 * time.Second, 30 * time.Second},
		"own":      {executor.Unique[string]{TTL: 3 * time.Second, Heartbeat: 2 * time.Second}, 3 * time.Second, 2 * time.Second},
		"own TTL":  {executor.Unique[string]{TTL: 7 * time.Minute}, 7 * time.Minute, 6 * time.Minute},
		"own beat": {executor.Unique[string]{Heartbeat: time.Second}, 35 * time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", alone)
				var together most
				q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
					together.do(func() { watchBeats(t, job, test.ttl, test.beat) })
					if !job.Lease().Held() || ctx.Err() != nil {
						t.Error("the lease was lost")
					}
					return nil
				}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Unique: test.unique}})
				enqueue(t, q, "1", "same")
				enqueue(t, q, "2", "same") // after having waited for it
				start(t, x)
				time.Sleep(24 * time.Hour)
				require.Equal(t, 1, together.peak())
				require.EqualValues(t, 2, stats(t, q).Done)
				stop(t, x)
			})
		})
	}
	x := open(t, "", alone)
	for says, unique := range map[string]executor.Unique[string]{
		"Unique.Heartbeat is -1ns": {Heartbeat: -1},
		"Unique.Heartbeat is 35s":  {Heartbeat: 35 * time.Second},
		"below the TTL of 1s":      {TTL: time.Second, Heartbeat: time.Second},
		"Unique.TTL is -1s":        {TTL: -time.Second},
		`Unique.While is "x", it must be one of ["Never" "WhileRunning"]`: {While: "x"},
	} {
		_, err := executor.HandleMerged(x, "q", (&probe{}).handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Unique: unique}})
		require.ErrorIs(t, err, executor.ErrConfig)
		require.ErrorContains(t, err, says)
	}
}

// watchBeats watches ten heartbeats of a job that has just begun to run.
func watchBeats(t *testing.T, job executor.Merged[string], ttl, beat time.Duration) {
	left := func() time.Duration {
		held, ok := job.Lease().Record()
		require.True(t, ok)
		require.Equal(t, ttl, held.TTL)
		return time.Until(held.Until)
	}
	require.Equal(t, ttl, left())
	for range 10 {
		time.Sleep(beat - 1)
		require.Equal(t, ttl-beat+1, left(), "too soon")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Equal(t, ttl, left(), "too late")
	}
}

// R04: the lock goes with the run, whatever becomes of it.
func TestLocket_R04_LockGoesWithTheRun(t *testing.T) {
	for name, end := range map[string]func() error{
		"done":    func() error { return nil },
		"failed":  func() error { return errBoom },
		"panic":   func() error { panic("boom") },
		"Goexit":  func() error { runtime.Goexit(); return nil },
		"snoozed": func() error { return executor.Snooze(time.Hour) },
		"morgue":  func() error { return executor.Cancel(errBoom) },
		"discard": func() error { return executor.Discard() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", alone)
				p := &probe{decide: func(_ context.Context, s seen) error {
					if s.id == "first" {
						time.Sleep(time.Second)
						return end()
					}
					return nil
				}}
				q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Share: executor.Share{Concurrency: 2}, RetryIn: always(time.Hour)})
				start(t, x)
				enqueue(t, q, "first", "same")
				synctest.Wait()
				enqueue(t, q, "second", "same")
				synctest.Wait()
				require.Len(t, p.log(), 1)
				time.Sleep(time.Second)
				synctest.Wait() // no more time passes
				require.Equal(t, []string{"first[same]", "second[same]"}, p.log())
				stop(t, x)
			})
		})
	}
}

// R04: a holder that stood still has lost its lock, hears of it, and spends no
// retry.
func TestLocket_R04_LostLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", alone)
		runs := 0
		var second bool
		q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
			if job.ID == "second" {
				second = true
				return nil
			}
			if runs++; runs == 1 {
				require.NoError(t, job.Lease().Unlock()) // by hand: a process that stands still can't be had here
				require.False(t, job.Lease().Held())
				return errBoom
			}
			require.Equal(t, 1, job.Attempt)
			return nil
		}, executor.QueueConfig[string]{})
		enqueue(t, q, "first", "same")
		enqueue(t, q, "second", "same")
		start(t, x)
		synctest.Wait()
		require.Equal(t, 2, runs)
		require.True(t, second)
		require.Zero(t, stats(t, q).Failed)
		stop(t, x)
	})
}

// R04: the lock of a holder that vanishes, here because nothing beats any more,
// expires after the TTL, not before, and the next one has it. The old one hears of
// it; its error spends no retry.
func TestLocket_R04_ExpiresWhenTheHolderVanishes(t *testing.T) {
	for name, unique := range map[string]executor.Unique[string]{
		"default": {}, "own": {TTL: 3 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", alone)
				ttl := cmp.Or(unique.TTL, 35*time.Second)
				p := new(probe)
				var cause error
				q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
					p.enter(seen{id: job.ID, retry: job.Attempt - 2, at: time.Now()})
					defer p.leave(job.ID)
					if job.ID == "first" && cause == nil {
						executor.StopHeart(job)
						<-ctx.Done()
						cause = context.Cause(ctx)
						require.False(t, job.Lease().Held())
						return errBoom
					}
					return nil
				}, executor.QueueConfig[string]{Share: executor.Share{Shards: 1, Concurrency: 2}, Conditions: executor.Conditions[string]{Unique: unique}})
				start(t, x)
				enqueue(t, q, "first", "same")
				synctest.Wait()
				enqueue(t, q, "second", "same")
				time.Sleep(ttl - 1)
				require.Equal(t, []string{"first"}, ids(p))
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				require.Equal(t, []string{"first", "second", "first"}, ids(p))
				require.ErrorIs(t, cause, lock.ErrLockLost)
				require.Equal(t, -1, p.seen()[2].retry)
				require.Zero(t, stats(t, q).Failed)
				require.EqualValues(t, 2, stats(t, q).Done)
				stop(t, x)
			})
		})
	}
}

// R04: a lock does not outlive its process: after a crash the next job need not
// wait.
func TestLocket_R04_ACrashEndsTheLock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, alone)
		var tokens []uint64
		hang := func(ctx context.Context, job executor.Merged[string]) error {
			tokens = append(tokens, job.Lease().Token())
			<-ctx.Done()
			return context.Cause(ctx)
		}
		q := handle(t, x, "q", hang, executor.QueueConfig[string]{})
		start(t, x)
		enqueue(t, q, "first", "same")
		synctest.Wait()
		enqueue(t, q, "second", "same")
		y := openOn(t, disk.Crash(), alone)
		begin := time.Now()
		q = handle(t, y, "q", func(_ context.Context, job executor.Merged[string]) error {
			tokens = append(tokens, job.Lease().Token())
			return nil
		}, executor.QueueConfig[string]{})
		start(t, y)
		synctest.Wait()
		require.EqualValues(t, 2, stats(t, q).Done)
		require.Equal(t, begin, time.Now())
		require.Len(t, tokens, 3)
		require.True(t, slices.IsSorted(tokens), "tokens grow: %v", tokens)
		stop(t, y)
	})
}

// R05: a job whose lock is held is neither lost nor failed: it keeps its place, and
// the jobs run in the order in which they came.
func TestLocket_R05_BlockedJobsKeepTheirPlace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Unique: executor.Unique[any]{While: executor.UniqueWhileRunning}, Workers: 3})
		p := &probe{decide: takes(time.Minute, nil)}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 1, Concurrency: 20}})
		start(t, x)
		var want []string
		for id := range strings.SplitSeq("abcdefghij", "") {
			enqueue(t, q, id, "same")
			synctest.Wait() // it stands in line
			want = append(want, id+"[same]")
		}
		e, err := x.Inspect().Explain(t.Context(), "q", "c")
		require.NoError(t, err)
		require.Equal(t, inspect.JobWaiting, e.State)
		require.Regexp(t, `^q/c is waiting; q#[0-9a-f]+: held by q/a \(token \d+\) for 0s, 35s left; waiting: q/b for 0s, q/c for`, e.String())
		time.Sleep(time.Hour)
		require.Equal(t, want, p.log())
		s := stats(t, q)
		require.EqualValues(t, 10, s.Done)
		require.Zero(t, s.Failed)
		for _, s := range p.seen() {
			require.Equal(t, -1, s.retry)
		}
		stop(t, x)
	})
}

// R05: nothing is lost while it waits, neither what comes for its id meanwhile nor
// in a crash: it runs in order, and its retries are as they were.
func TestLocket_R05_NothingIsLostWhileItWaits(t *testing.T) {
	for _, crash := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			disk := new(journal.Memory)
			first := true
			p := &probe{decide: func(_ context.Context, s seen) error {
				if s.id == "holder" && first {
					first = false
					time.Sleep(time.Hour)
				}
				if s.id == "failed" && s.retry < 0 {
					return errBoom
				}
				return nil
			}}
			cfg := executor.QueueConfig[string]{
				Share: executor.Share{Shards: 1, Concurrency: 9}, RetryIn: always(time.Minute),
				Conditions: executor.Conditions[string]{
					Unique: executor.Unique[string]{Key: func(id, _ string) string {
						if id == "failed" && len(p.of("failed")) == 0 {
							return "its own"
						}
						return "same"
					}},
				},
			}
			x := openOn(t, disk, alone)
			q := handle(t, x, "q", p.handle, cfg)
			start(t, x)
			enqueue(t, q, "failed", "1")
			synctest.Wait()
			enqueue(t, q, "holder", "1")
			synctest.Wait()
			enqueue(t, q, "waits", "2", executor.Score(2))
			time.Sleep(2 * time.Minute) // the retry has to wait, too
			enqueue(t, q, "waits", "1", executor.Score(1))
			require.Equal(t, []string{"failed[1]", "holder[1]"}, p.log())
			for _, id := range []string{"waits", "failed"} {
				require.Equal(t, inspect.JobWaiting, explain(t, x, "q", id).State)
			}
			runs := p
			if crash {
				runs = &probe{decide: p.decide}
				x = openOn(t, disk.Crash(), alone)
				q = handle(t, x, "q", runs.handle, cfg)
				start(t, x)
			}
			time.Sleep(2 * time.Hour)
			settled(t, q)
			var ran []string
			for _, s := range runs.seen() {
				if s.retry >= 0 || s.id == "waits" {
					ran = append(ran, fmt.Sprintf("%v %d %s", s, s.retry, s.last))
				}
			}
			require.ElementsMatch(t, []string{"waits[1 2] -1 ", "failed[1] 0 boom"}, ran)
			require.Zero(t, stats(t, q).Jobs)
			require.Empty(t, morgue(t, q))
			stop(t, x)
		})
	}
}

// R06: a queue all of whose jobs are locked, by a key or by a job that runs, costs
// no worker and keeps no other job waiting. When one is released, it goes before
// what is behind it.
func TestLocket_R06_LockedQueueStarvesNoOther(t *testing.T) {
	for name, high := range map[string]executor.QueueConfig[string]{
		"a key": {Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{BlockedBy: keys("gate")}}},
		"a job": {Conditions: executor.Conditions[string]{Unique: executor.Unique[string]{While: executor.UniqueWhileRunning, Key: func(string, string) string { return "gate" }}}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{Workers: 2, Scheduler: executor.RegistrationOrder()})
				goOn := map[string]chan struct{}{"holder": make(chan struct{}), "low 4": make(chan struct{})}
				p := &probe{decide: func(_ context.Context, s seen) error {
					time.Sleep(2 * time.Millisecond) // runs of one
					if c := goOn[s.id]; c != nil {
						<-c
					}
					return nil
				}}
				cfg := high
				cfg.Share.Shards, cfg.Share.Concurrency = 1, 9
				// The one that holds the key is a job, and takes one of the
				// workers.
				holds := executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Unique: high.Conditions.Unique, Locks: executor.Locks[string]{OnRun: high.Conditions.Locks.BlockedBy, Unlock: high.Conditions.Locks.BlockedBy}}}
				holder := handle(t, x, "holder", p.handle, holds)
				first := handle(t, x, "high", p.handle, cfg)
				middle := handle(t, x, "middle", p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}})
				low := handle(t, x, "low", p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 1, Concurrency: 9}})
				start(t, x)
				enqueue(t, holder, "holder", "")
				synctest.Wait()
				for _, n := range []string{"1", "2", "3"} {
					enqueue(t, first, "high "+n, "")
				}
				synctest.Wait() // they stand in line
				for _, n := range []string{"1", "2", "3"} {
					enqueue(t, low, "low "+n, "")
					enqueue(t, middle, "middle "+n, "")
				}
				time.Sleep(time.Minute)
				require.ElementsMatch(t, []string{"middle 1", "middle 2", "middle 3", "low 1", "low 2", "low 3"}, ids(p)[1:])
				require.Equal(t, 1, must(x.Stats(t.Context())).Busy, "those that wait take no worker")

				// Now both workers are busy, and there is more for both queues.
				enqueue(t, low, "low 4", "")
				synctest.Wait()
				for _, n := range []string{"5", "6", "7"} {
					enqueue(t, low, "low "+n, "")
				}
				time.Sleep(time.Minute)
				close(goOn["holder"])
				time.Sleep(time.Minute)
				// One job may have been granted in the instant of the release.
				require.Contains(t, []string{
					"high 1 high 2 high 3 low 5 low 6 low 7", "low 5 high 1 high 2 high 3 low 6 low 7",
				}, strings.Join(after(ids(p), "low 4"), " "))
				close(goOn["low 4"])
				synctest.Wait()
				stop(t, x)
			})
		})
	}
}

// after returns what follows the first v of a list.
func after(list []string, v string) []string { return list[slices.Index(list, v)+1:] }

// R06: queue order is the priority, whichever job has waited longer.
func TestLocket_R06_QueuesInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1, Scheduler: executor.RegistrationOrder()})
		p := &probe{}
		var queues []*executor.Queue[string]
		for _, name := range []string{"z", "m", "a"} { // their order, not that of the alphabet
			queues = append(queues, handle(t, x, name, p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 3}}))
		}
		for i := range 6 { // the last queue's are the oldest
			time.Sleep(time.Second)
			q := queues[2-i/2]
			enqueue(t, q, q.Name()+string(rune('1'+i%2)), "")
		}
		start(t, x)
		synctest.Wait()
		require.Equal(t, []string{"z1[]", "z2[]", "m1[]", "m2[]", "a1[]", "a2[]"}, p.log())
		stop(t, x)
	})
}

// A job that waits for its lease and then for a key gives the lease away: it holds
// nothing while it waits.
func TestLocket_ParkedJobHoldsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", alone)
		p := &probe{decide: takes(time.Second, nil)}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{
			Locks: executor.Locks[string]{
				BlockedBy: func(id, _ string) []string { return []string{"key of " + id} },
			},
		}})
		start(t, x)
		for _, id := range []string{"a", "b", "c"} {
			enqueue(t, q, id, "same")
			synctest.Wait()
		}
		require.NoError(t, x.KeyLocks().Lock(t.Context(), "key of b")) // while it waits for a
		time.Sleep(5 * time.Second)
		require.Equal(t, []string{"a[same]", "c[same]"}, p.log())
		require.NoError(t, x.KeyLocks().Unlock(t.Context(), "key of b"))
		time.Sleep(5 * time.Second)
		require.Equal(t, "b[same]", p.log()[2])
		stop(t, x)
	})
}

// A key function that panics, ends its goroutine, or returns an empty key, but only
// when the job is to run, fails its own job only and leaves nothing locked.
func TestLocket_BadKeyFunction(t *testing.T) {
	for name, key := range map[string]func() string{
		"panic":  func() string { panic("no key") },
		"Goexit": func() string { runtime.Goexit(); return "" },
		"empty":  func() string { return "" },
		"long":   func() string { return strings.Repeat("k", 513) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{Workers: 1})
				p, accepted := &probe{}, false
				q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
					Share: executor.Share{Shards: 1}, MaxRetries: -1,
					Conditions: executor.Conditions[string]{
						Unique: executor.Unique[string]{While: executor.UniqueWhileRunning, Key: func(id, _ string) string {
							if id == "bad" && accepted {
								return key()
							}
							return "one"
						}},
					},
				})
				for _, id := range []string{"a", "bad", "b"} {
					enqueue(t, q, id, "")
				}
				accepted = true
				start(t, x)
				synctest.Wait()
				require.Equal(t, []string{"a[]", "b[]"}, p.log())
				dead := morgue(t, q)
				require.Len(t, dead, 1)
				require.Equal(t, "bad", dead[0].ID)
				stop(t, x)
			})
		})
	}
}

// The ids of a batch exclude each other, too; one that waits fails no other.
func TestLocket_Batch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Unique: executor.Unique[any]{While: executor.UniqueWhileRunning}, Workers: 1})
		var batches []string
		q, err := executor.HandleBatch(x, "q", func(_ context.Context, jobs []executor.Merged[string]) error {
			var ids []string
			errs := executor.BatchErrors{}
			for _, job := range jobs {
				if ids = append(ids, job.ID); job.ID == "c" && job.Attempt == 1 {
					errs[job.ID] = executor.RetryAfter(0, errBoom)
				}
			}
			batches = append(batches, strings.Join(ids, ""))
			if len(errs) > 0 {
				return errs
			}
			return nil
		}, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}, BatchSize: 4})
		require.NoError(t, err)
		for id, payload := range map[string]string{"a": "same", "b": "same", "c": "other", "d": "another"} {
			enqueue(t, q, id, payload, executor.At(time.Unix(int64(id[0]), 0)))
		}
		start(t, x)
		synctest.Wait()
		require.Equal(t, "acd", batches[0])
		require.Contains(t, strings.Join(batches[1:], ""), "b")
		s := stats(t, q)
		require.EqualValues(t, 4, s.Done)
		require.EqualValues(t, 1, s.Failed)
		stop(t, x)
	})
}

// A stop in the middle of it all leaves nothing behind; a stuck handler keeps no
// lease alive.
func TestLocket_Stop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", alone)
		p := &probe{decide: takes(time.Hour, nil)}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{})
		enqueue(t, q, "a", "same")
		enqueue(t, q, "b", "same")
		start(t, x)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, x.Stop(ctx))
		require.Len(t, p.log(), 1)
	})
	bubble(t, func(t *testing.T) {
		x := open(t, "", alone)
		release := make(chan struct{})
		var lease lock.Lease
		q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
			lease = job.Lease()
			<-release
			return nil
		}, executor.QueueConfig[string]{})
		enqueue(t, q, "a", "same")
		start(t, x)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.True(t, errors.Is(x.Stop(ctx), executor.ErrStuck))
		time.Sleep(time.Minute)
		require.False(t, lease.Held(), "nothing extends it")
		close(release)
	})
}
