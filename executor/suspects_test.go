package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/quarantine"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
	"github.com/strandjobs/strand/shard"
)

// runs are the ids that ran, with the seconds after the start.
type runs struct {
	mu    sync.Mutex
	start time.Time
	of    []string
}

func (r *runs) note(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of = append(r.of, fmt.Sprintf("%s %v", id, time.Since(r.start).Round(100*time.Millisecond)))
}

// suspected starts an executor that suspects its jobs, each of which takes as long
// as its payload says.
func suspected(t *testing.T, cfg QueueConfig[time.Duration], limit int, jobs map[string]time.Duration, s journal.Suspicion) (*Queue[time.Duration], *runs) {
	x, err := OpenOn(new(journal.Memory), Config{Workers: 8, Crash: Crash{Limit: limit}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = x.Stop(context.Background()) })
	ran := &runs{start: time.Now()}
	cfg.Share.Shards, cfg.Gather.MaxPayloads = 1, 1
	q, err := HandleMerged(x, "q", func(_ context.Context, job Merged[time.Duration]) error {
		ran.note(job.ID)
		time.Sleep(job.Payloads[0].Value)
		return nil
	}, cfg)
	require.NoError(t, err)
	for id, d := range jobs {
		receipt, err := q.Enqueue(t.Context(), id, d)
		require.NoError(t, err)
		one := q.q.Suspects.New(s, id, journal.Position(receipt.Position))
		if one.Held() || one.GivenUp() {
			require.NoError(t, q.q.Shards.All[0].Do(t.Context(), func(c *shard.Core) { c.Hold(id, shard.HoldSuspect) }))
		}
		q.q.Suspects.Admit(one)
	}
	require.NoError(t, x.Start(t.Context()))
	return q, ran
}

func (r *runs) sorted() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(slices.Values(r.of))
}

// Strong suspects are held, and then run one after the other. One that lasts keeps
// the next one waiting for a bounded time; others run beside them.
func TestStrongSuspectsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		twice := journal.Suspicion{Deaths: 2, Age: time.Second} // held for 10 s, alone for 2 s
		q, ran := suspected(t, QueueConfig[time.Duration]{}, 3, map[string]time.Duration{"a": time.Hour, "b": time.Hour, "c": time.Hour}, twice)
		_, err := q.Enqueue(t.Context(), "other", time.Minute)
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		e, err := q.q.x.Inspect().Explain(t.Context(), "q", "b")
		require.NoError(t, err)
		require.Equal(t, inspect.JobSuspected, e.State)
		time.Sleep(time.Minute)
		var at []string
		for _, run := range ran.sorted() {
			at = append(at, run[len(run)-3:])
		}
		slices.Sort(at)
		require.Equal(t, []string{" 0s", "10s", "12s", "14s"}, at)
		time.Sleep(2 * time.Hour)
		require.Empty(t, q.q.x.quarantine.Named(), "all have ended")
	})
}

// A refusal is no run: who is refused when its turn comes stays suspected, and the next one has its turn.
func TestARefusedSuspectIsNotAcquitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		twice := journal.Suspicion{Deaths: 2, Age: time.Second}
		locks := Locks[time.Duration]{BlockedBy: func(id string, _ time.Duration) []string { return []string{id} }, WhenBlocked: lock.Decision{After: time.Second}}
		q, ran := suspected(t, QueueConfig[time.Duration]{Conditions: Conditions[time.Duration]{Locks: locks}}, 3,
			map[string]time.Duration{"a": time.Second, "b": time.Hour}, twice)
		require.NoError(t, q.q.x.KeyLocks().Lock(t.Context(), "b"))
		time.Sleep(15 * time.Second)
		require.Equal(t, []string{"a 10s"}, ran.sorted())
		named := q.q.x.quarantine.Named()
		require.Len(t, named, 1, "it has not run")
		require.Contains(t, named[0], "q/b ")
		require.NoError(t, q.q.x.KeyLocks().Unlock(t.Context(), "b"))
		time.Sleep(2 * time.Hour)
		require.Len(t, ran.sorted(), 2)
		require.Empty(t, q.q.x.quarantine.Named())
	})
}

// What is suspected and ends without a run, because a condition says so, is suspected no more.
func TestARefusedSuspectThatEnds(t *testing.T) {
	for name, blocked := range map[string]lock.Decision{"skipped": {Skip: true}, "failed": {Fail: lock.ErrLocked}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				locks := Locks[time.Duration]{BlockedBy: func(id string, _ time.Duration) []string { return []string{id} }, WhenBlocked: blocked}
				cfg := QueueConfig[time.Duration]{MaxRetries: -1, Conditions: Conditions[time.Duration]{Locks: locks}}
				q, ran := suspected(t, cfg, 3, map[string]time.Duration{"a": time.Second}, journal.Suspicion{Deaths: 2, Age: time.Second})
				require.NoError(t, q.q.x.KeyLocks().Lock(t.Context(), "a"))
				time.Sleep(time.Minute)
				require.Empty(t, ran.sorted())
				require.Empty(t, q.q.x.quarantine.Named())
				require.NoError(t, q.q.x.KeyLocks().Unlock(t.Context(), "a"))
				_, err := q.Enqueue(t.Context(), "a", time.Second)
				require.NoError(t, err)
				synctest.Wait()
				require.Len(t, ran.sorted(), 1)
			})
		})
	}
}

// Short ones follow each other at once.
func TestASuspectThatEndsIsAcquitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		twice := journal.Suspicion{Deaths: 2, Age: time.Second}
		_, ran := suspected(t, QueueConfig[time.Duration]{}, 3, map[string]time.Duration{"a": 100 * time.Millisecond, "b": 100 * time.Millisecond}, twice)
		time.Sleep(time.Minute)
		var at []string
		for _, run := range ran.sorted() {
			at = append(at, run[2:])
		}
		slices.Sort(at)
		require.Equal(t, []string{"10.1s", "10s"}, at)
	})
}

// One that a person ends is suspected no more: what comes for its id after that is not held in its place.
func TestASuspectThatAPersonEnds(t *testing.T) {
	for _, act := range []string{"delete", "cancel"} {
		t.Run(act, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				twice := journal.Suspicion{Deaths: 2, Age: time.Second}
				q, ran := suspected(t, QueueConfig[time.Duration]{}, 3, map[string]time.Duration{"a": time.Hour}, twice)
				did, err := q.q.x.Inspect().Act(t.Context(), act, inspect.SelectIDs("q", "a"), "")
				require.NoError(t, err)
				require.Equal(t, 1, did.Back)
				synctest.Wait()
				s, err := q.Stats(t.Context())
				require.NoError(t, err)
				require.Equal(t, []int{0, 0}, []int{s.Jobs, s.Parked})
				_, err = q.Enqueue(t.Context(), "a", time.Second)
				require.NoError(t, err)
				synctest.Wait()
				require.Equal(t, []string{"a 0s"}, ran.sorted())
				require.Empty(t, q.q.x.quarantine.Named())
			})
		})
	}
}

// One death, a limit below zero, and an end that is proved but below the limit hold
// no job up.
func TestWeakSuspectsRunAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		limit int
		s     journal.Suspicion
	}{
		"one death":       {3, journal.Suspicion{Deaths: 1, Age: time.Hour}},
		"no limit":        {-1, journal.Suspicion{Deaths: 7, Age: time.Hour}},
		"no limit, cause": {-1, journal.Suspicion{Deaths: 7, Odds: 1e9}},
		"below the limit": {5, journal.Suspicion{Deaths: 4, Odds: 1e9}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, ran := suspected(t, QueueConfig[time.Duration]{}, c.limit, map[string]time.Duration{"a": time.Second, "b": time.Second}, c.s)
				time.Sleep(time.Minute)
				require.Equal(t, []string{"a 0s", "b 0s"}, ran.sorted())
			})
		})
	}
}

// OnExhausted decides what becomes of a job that is given up.
func TestWhoIsGivenUp(t *testing.T) {
	cause := journal.Suspicion{Deaths: 3, Odds: 1e9}
	for policy, want := range map[OnExhausted]struct{ buried, halted, ran int }{
		OnExhaustedBuryOldest: {1, 0, 0}, OnExhaustedBuryAll: {1, 0, 0}, OnExhaustedHalt: {0, 1, 0},
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q, ran := suspected(t, QueueConfig[time.Duration]{DeadLetters: DeadLetters[time.Duration]{OnExhausted: policy}}, 3, map[string]time.Duration{"a": time.Second}, cause)
				time.Sleep(time.Minute)
				s, err := q.Stats(t.Context())
				require.NoError(t, err)
				require.EqualValues(t, want.buried, s.Buried)
				require.EqualValues(t, want.halted, s.Halted)
				require.Empty(t, ran.sorted())
				if policy != OnExhaustedHalt {
					return
				}
				e, err := q.q.x.Inspect().Explain(t.Context(), q.Name(), "a")
				require.NoError(t, err)
				reason := "crashed the process: it was running each of the last 3 times that the process died, and is the cause"
				require.Equal(t, []string{reason, "q/a is halted: " + reason}, []string{e.LastError, e.Text})
				n, err := q.q.x.Inspect().RunNow(t.Context(), inspect.SelectIDs(q.Name(), "a"))
				require.NoError(t, err)
				require.Equal(t, 1, n)
				synctest.Wait()
				require.Len(t, ran.sorted(), 1, "a person has decided")
			})
		})
	}
}

// What takes the place of a suspect that is held is the suspect from then on: it waits for
// the turn, its handler is told of the crashes, and its end acquits the id.
func TestTheHeirOfASuspectIsOne(t *testing.T) {
	for name, gather := range map[string]QueueConfig[time.Duration]{
		"newest": {Merge: MergeSupersede},
		"equal":  {Merge: MergeKeepLast},
		"folded": {Gather: Gather[time.Duration]{Fold: func(_, next time.Duration) (time.Duration, error) { return next, nil }}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, err := OpenOn(new(journal.Memory), Config{})
				require.NoError(t, err)
				t.Cleanup(func() { _ = x.Stop(context.Background()) })
				got := make(chan Merged[time.Duration], 10)
				q, err := HandleMerged(x, "q", func(_ context.Context, job Merged[time.Duration]) error {
					got <- job
					return nil
				}, gather)
				require.NoError(t, err)
				receipt, err := q.Enqueue(t.Context(), "a", time.Second)
				require.NoError(t, err)
				in := q.q.Shards.Of("a")
				s := q.q.Suspects.New(journal.Suspicion{Deaths: 2, Age: time.Second}, "a", journal.Position(receipt.Position))
				require.NoError(t, in.Do(t.Context(), func(c *shard.Core) { c.Hold("a", shard.HoldSuspect) }))
				q.q.Suspects.Admit(s)
				require.NoError(t, x.Start(t.Context()))
				_, err = q.Enqueue(t.Context(), "a", time.Second)
				require.NoError(t, err)
				time.Sleep(9 * time.Second)
				require.Empty(t, got)
				if q.q.Folder == nil {
					keys := 0
					for kv, err := range x.log.Keys("suspect/", "") {
						require.NoError(t, err)
						require.Equal(t, s.Set(journal.Position(receipt.Position+1)).Key, kv.Key)
						keys++
					}
					require.Equal(t, 1, keys)
				}
				time.Sleep(time.Minute)
				require.Len(t, got, 1)
				require.Equal(t, 2, (<-got).Crashes)
				require.Empty(t, x.quarantine.Named())
				for kv := range x.log.Keys("suspect/", "") {
					t.Error("it is still suspected:", kv.Key)
				}
			})
		})
	}
}

// Under OnExhaustedHalt what takes the place of a payload that killed the process is halted
// with it, also after a restart, until a person has it run; then any newer one runs.
func TestTheHeirOfAHaltedStateIsHalted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := new(journal.Memory)
		var x *Executor
		var q *Queue[string]
		var ran []string
		open := func(limit int) {
			var err error
			x, err = OpenOn(disk, Config{Crash: Crash{Limit: limit}})
			require.NoError(t, err)
			q, err = HandleLatest(x, "q", func(_ context.Context, job Job[string]) error {
				ran = append(ran, job.Payload)
				return nil
			}, QueueConfig[string]{DeadLetters: DeadLetters[string]{OnExhausted: OnExhaustedHalt}})
			require.NoError(t, err)
		}
		change := func(to string) journal.Position {
			receipt, err := q.Enqueue(t.Context(), "a", to)
			require.NoError(t, err)
			synctest.Wait()
			return journal.Position(receipt.Position)
		}
		halted := func() {
			synctest.Wait()
			e, err := x.Inspect().Explain(t.Context(), "q", "a")
			require.NoError(t, err)
			require.Equal(t, inspect.JobHalted, e.State)
			require.Empty(t, ran)
		}
		open(3)
		in := q.q.Shards.Of("a")
		s := q.q.Suspects.New(journal.Suspicion{Deaths: 3, Odds: 1e9}, "a", change("1"))
		require.NoError(t, in.Do(t.Context(), func(c *shard.Core) { c.Hold("a", shard.HoldSuspect) }))
		q.q.Suspects.Admit(s)
		require.NoError(t, x.Start(t.Context()))
		halted()
		change("2")
		halted()
		for _, to := range []string{"3", "4"} {
			require.NoError(t, x.Stop(t.Context()))
			open(3)
			require.NoError(t, x.Start(t.Context()))
			halted()
			change(to)
			halted()
		}
		n, err := x.Inspect().RunNow(t.Context(), inspect.SelectIDs("q", "a"))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		synctest.Wait()
		require.Equal(t, []string{"4"}, ran)
		change("5")
		require.Equal(t, []string{"4", "5"}, ran)
		require.NoError(t, x.Stop(t.Context()))
	})
}

// Where no crash counts any more, what is newer than a payload that was given up runs.
func TestAnHeirWhereNoCrashCounts(t *testing.T) {
	for _, policy := range []OnExhausted{OnExhaustedHalt, OnExhaustedBuryOldest} {
		synctest.Test(t, func(t *testing.T) {
			disk := new(journal.Memory)
			for _, limit := range []int{3, -1} {
				x, err := OpenOn(disk, Config{Crash: Crash{Limit: limit}})
				require.NoError(t, err)
				defer func() { _ = x.Stop(context.Background()) }()
				ran := 0
				q, err := HandleLatest(x, "q", func(context.Context, Job[string]) error { ran++; return nil },
					QueueConfig[string]{DeadLetters: DeadLetters[string]{OnExhausted: policy}})
				require.NoError(t, err)
				receipt, err := q.Enqueue(t.Context(), "a", fmt.Sprint(limit))
				require.NoError(t, err)
				if in := q.q.Shards.Of("a"); limit > 0 {
					s := q.q.Suspects.New(journal.Suspicion{Deaths: 3, Odds: 1e9}, "a", journal.Position(receipt.Position))
					require.NoError(t, in.Do(t.Context(), func(c *shard.Core) { c.Hold("a", shard.HoldSuspect) }))
					q.q.Suspects.Admit(s)
				}
				require.NoError(t, x.Start(t.Context()))
				synctest.Wait()
				require.Equal(t, max(0, -limit), ran)
				require.NoError(t, x.Stop(t.Context()))
			}
		})
	}
}

// An error of a handler that says what a dead letter of a crash says is an error: the next
// payload of its id runs, also after a restart.
func TestAnErrorThatSpeaksOfACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := new(journal.Memory)
		said := (&quarantine.Suspect{Suspicion: journal.Suspicion{Deaths: 3}}).Reason()
		for life := range 2 {
			x, err := OpenOn(disk, Config{})
			require.NoError(t, err)
			defer func() { _ = x.Stop(context.Background()) }()
			var ran []string
			q, err := HandleLatest(x, "q", func(_ context.Context, job Job[string]) error {
				ran = append(ran, job.Payload)
				return errors.New(said)
			}, QueueConfig[string]{MaxRetries: -1})
			require.NoError(t, err)
			require.NoError(t, x.Start(t.Context()))
			_, err = q.Enqueue(t.Context(), "a", fmt.Sprint("state ", life))
			require.NoError(t, err)
			synctest.Wait()
			require.Equal(t, []string{fmt.Sprint("state ", life)}, ran)
			s, err := q.Stats(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, s.Dead)
			require.NoError(t, x.Stop(t.Context()))
		}
	})
}

// One that is given up while a full disk has no room for that is held until it has, and that is
// what is said of it.
func TestGivenUpOnAFullDisk(t *testing.T) {
	for policy, over := range map[OnExhausted]string{
		OnExhaustedBuryOldest: `msg="job went to the morgue" queue=q id=poison position=1 error="crashed the process: it was`,
		OnExhaustedHalt:       `msg="job is halted: its id runs again after RunNow" queue=q id=poison attempt=1 error="crashed the process: it was`,
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { givenUpOnAFullDisk(t, policy, over) })
		})
	}
}

func givenUpOnAFullDisk(t *testing.T, policy OnExhausted, over string) {
	disk := new(journal.Memory)
	disk.Limit(1 << 20)
	var log bytes.Buffer
	x, err := OpenOn(disk, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	q, err := Handle(x, "q", func(context.Context, Job[string]) error { return nil },
		QueueConfig[string]{DeadLetters: DeadLetters[string]{OnExhausted: policy}})
	require.NoError(t, err)
	receipt, err := q.Enqueue(t.Context(), "poison", strings.Repeat("x", 50_000))
	for n := 0; err == nil; n++ {
		_, err = q.Enqueue(t.Context(), fmt.Sprint(n), strings.Repeat("x", 1000), In(time.Hour))
	}
	require.ErrorIs(t, err, ErrFull)
	in := q.q.Shards.Of("poison")
	require.NoError(t, in.Do(t.Context(), func(c *shard.Core) { c.Hold("poison", shard.HoldSuspect) }))
	q.q.Suspects.Admit(q.q.Suspects.New(journal.Suspicion{Deaths: 3, Odds: 1e9}, "poison", journal.Position(receipt.Position)))
	require.Equal(t, []string{"q/poison was running at 3 deaths and is the cause: held until the disk has room to give it up"}, x.quarantine.Named())
	require.NoError(t, x.Start(t.Context()))
	time.Sleep(time.Minute)
	synctest.Wait()
	require.Zero(t, x.DeadOnDisk())
	require.NotContains(t, log.String(), over)
	require.Equal(t, 1, strings.Count(log.String(), `msg="job is held: the disk has no room for its dead letter, or to halt it" queue=q id=poison`))
	e, err := x.Inspect().Explain(t.Context(), "q", "poison")
	require.NoError(t, err)
	require.Equal(t, inspect.JobSuspected, e.State)
	require.Contains(t, e.Text, "q/poison is suspected: held until the disk has room to give it up: crashed the process: it was running each of the last 3 times")

	disk.Limit(0)
	time.Sleep(time.Second)
	synctest.Wait()
	require.Equal(t, 1, strings.Count(log.String(), over))
	require.Equal(t, []string{"q/poison was running at 3 deaths and is the cause: given up"}, x.quarantine.Named())
	e, err = x.Inspect().Explain(t.Context(), "q", "poison")
	require.NoError(t, err)
	require.Contains(t, e.LastError, "crashed the process: it was running each of the last 3 times that the process died, and is the cause")
	require.Equal(t, policy == OnExhaustedHalt, e.State == inspect.JobHalted)
	require.Equal(t, policy != OnExhaustedHalt, x.DeadOnDisk() == 1)
	require.NoError(t, x.Stop(t.Context()))
}

// What is newer than a dead letter that was given up, and was accepted while its id had none, is
// given up at the start: when all shards of the queue are there.
func TestAnHeirThatTheStartFinds(t *testing.T) {
	for range 10 { // the shards begin beside each other
		cfg := QueueConfig[string]{Share: Share{Shards: 8}}
		synctest.Test(t, func(t *testing.T) {
			disk := new(journal.Memory)
			handler := func(context.Context, Job[string]) error { return errors.New("it has run") }
			x, err := OpenOn(disk, Config{})
			require.NoError(t, err)
			q, err := HandleLatest(x, "q", handler, cfg)
			require.NoError(t, err)
			guilty(t, q)
			require.NoError(t, x.Start(t.Context()))
			synctest.Wait()
			require.NoError(t, x.Stop(t.Context()))

			log, err := journal.OpenMemory(disk, journal.Config{Deliver: func(d *journal.Delivery) { d.Done() }})
			require.NoError(t, err)
			ticket, err := log.Append(t.Context(), []journal.Entry{{Queue: q.q.Number, ID: []byte("a"), Payload: []byte(`"2"`), Score: 1e12}}, nil)
			require.NoError(t, err)
			require.NoError(t, ticket.Wait(t.Context()))
			require.NoError(t, log.Close())

			x, err = OpenOn(disk, Config{})
			require.NoError(t, err)
			q, err = HandleLatest(x, "q", handler, cfg)
			require.NoError(t, err)
			require.NoError(t, x.Start(t.Context()))
			synctest.Wait()
			s, err := q.Stats(t.Context())
			require.NoError(t, err)
			require.Equal(t, []int{0, 1}, []int{int(s.Failed), s.Dead})
			require.NoError(t, x.Stop(t.Context()))
		})
	}
}
