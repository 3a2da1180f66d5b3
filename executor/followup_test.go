package executor_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// tail is a queue for follow-ups, and what came there: values by id, in order.
type tail struct {
	*executor.Queue[string]
	mu  sync.Mutex
	ran map[string][]string
}

func newTail(t *testing.T, x *executor.Executor, name string, cfg executor.QueueConfig[string]) *tail {
	l := &tail{ran: make(map[string][]string)}
	q, err := executor.Handle(x, name, func(_ context.Context, job executor.Job[string]) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ran[job.ID] = append(l.ran[job.ID], job.Payload)
		return nil
	}, cfg)
	require.NoError(t, err)
	l.Queue = q
	return l
}

// all lists id=value for all that ran.
func (l *tail) all() (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(l.ran)) {
		for _, v := range l.ran[id] {
			list = append(list, id+"="+v)
		}
	}
	return list
}

// A follow-up lands with the success of its job, and is dropped with every other
// outcome, and with each attempt that fails.
func TestFollowUpLandsWithTheSuccess(t *testing.T) {
	outcomes := map[string]func(ctx context.Context) error{
		"nil":     func(context.Context) error { return nil },
		"error":   func(context.Context) error { return errBoom },
		"cancel":  func(context.Context) error { return executor.Cancel(errBoom) },
		"discard": func(context.Context) error { return executor.Discard() },
		"snooze":  func(context.Context) error { return executor.Snooze(time.Hour) },
		"after":   func(context.Context) error { return executor.RetryAfter(time.Hour, errBoom) },
		"panic":   func(context.Context) error { panic("boom") },
		"exit":    func(context.Context) error { runtime.Goexit(); return nil },
		"timeout": func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
	}
	for name, outcome := range outcomes {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := openOn(t, new(journal.Memory), executor.Config{})
				next := newTail(t, x, "next", executor.QueueConfig[string]{})
				attempt := 0
				jobs, err := executor.Handle(x, "jobs", func(ctx context.Context, job executor.Job[int]) error {
					attempt++
					if err := next.FollowUp(job, job.ID, fmt.Sprint("attempt ", attempt)); err != nil {
						return err
					}
					if attempt == 1 {
						return outcome(ctx)
					}
					return nil
				}, executor.QueueConfig[int]{Timeout: time.Minute, RetryIn: always(time.Hour)})
				require.NoError(t, err)
				start(t, x)
				enqueue(t, jobs, "a", 1)
				time.Sleep(30 * time.Minute)
				synctest.Wait()
				first := next.all()
				time.Sleep(time.Hour)
				synctest.Wait()
				switch name {
				case "nil":
					require.Equal(t, []string{"a=attempt 1"}, first)
				case "cancel", "discard":
					require.Empty(t, next.all())
				default:
					require.Empty(t, first)
					require.Equal(t, []string{"a=attempt 2"}, next.all())
				}
			})
		})
	}
}

// It works from every shape, to every shape, in memory and on disk, and to the job's
// own queue and id.
func TestFollowUpOfEveryShape(t *testing.T) {
	for _, dir := range []string{"", "disk"} {
		if dir != "" {
			dir = filepath.Join(t.TempDir(), "journal")
		}
		x := open(t, dir, executor.Config{Durability: executor.DurabilityAsync})
		done := make(chan string, 10)
		end := handle(t, x, "end", func(_ context.Context, job executor.Merged[string]) error {
			done <- job.ID + "=" + job.Latest()
			return nil
		}, executor.QueueConfig[string]{})
		batch, err := executor.HandleBatch(x, "batch", func(_ context.Context, jobs []executor.Merged[int]) error {
			for _, job := range jobs {
				if err := end.FollowUp(job, job.ID, "batch"); err != nil {
					return err
				}
			}
			return nil
		}, executor.QueueConfig[int]{BatchSize: 4})
		require.NoError(t, err)
		merged := handle(t, x, "merged", func(_ context.Context, job executor.Merged[int]) error {
			return batch.FollowUp(job, job.ID, job.Latest())
		}, executor.QueueConfig[int]{})
		var each *executor.Queue[int]
		each, err = executor.Handle(x, "each", func(_ context.Context, job executor.Job[int]) error {
			if job.Payload > 0 {
				return each.FollowUp(job, job.ID, job.Payload-1)
			}
			return merged.FollowUp(job, job.ID, job.Payload)
		}, executor.QueueConfig[int]{})
		require.NoError(t, err)
		start(t, x)
		enqueue(t, each, "a", 3)
		require.Equal(t, "a=batch", await(t, done))
		require.EqualValues(t, 4, drained(t, each).Done)
		stop(t, x)
		require.Empty(t, done)
	}
}

// Of a batch that is halved, the follow-ups of the last call of each job count; of one
// that names who failed, those of the others.
func TestFollowUpsOfABatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := openOn(t, new(journal.Memory), executor.Config{Workers: 1})
		next := newTail(t, x, "next", executor.QueueConfig[string]{})
		calls, named := 0, false
		var left []executor.Merged[string]
		jobs, err := executor.HandleBatch(x, "jobs", func(_ context.Context, jobs []executor.Merged[string]) error {
			calls++
			var errs error
			for _, job := range jobs {
				require.NoError(t, next.FollowUp(job, job.ID, fmt.Sprint("call ", calls)))
				if job.Latest() == "bad" && named {
					errs = executor.BatchErrors{job.ID: errBoom}
				} else if job.Latest() == "bad" {
					errs = errBoom
				}
			}
			for _, job := range left {
				require.ErrorIs(t, next.FollowUp(job, job.ID, "late"), executor.ErrReturned, "a job of a former call")
			}
			left = append(left, jobs...)
			return errs
		}, executor.QueueConfig[string]{BatchSize: 4, Share: executor.Share{Shards: 1}, RetryIn: always(time.Hour)})
		require.NoError(t, err)
		for i, id := range []string{"a", "b", "c", "d"} {
			enqueue(t, jobs, id, []string{"good", "bad", "good", "good"}[i])
		}
		start(t, x)
		synctest.Wait()
		require.Equal(t, 5, calls, "four, two, one, one, two")
		require.Equal(t, []string{"a=call 3", "c=call 5", "d=call 5"}, next.all())
		left = nil

		named = true
		calls = 0
		enqueue(t, jobs, "e", "good", executor.In(time.Hour))
		enqueue(t, jobs, "f", "good", executor.In(time.Hour))
		time.Sleep(90 * time.Minute)
		synctest.Wait()
		require.NotContains(t, strings.Join(next.all(), " "), "b=")
		require.Contains(t, next.all(), "e=call 1")
		require.Contains(t, next.all(), "f=call 1")
	})
}

// Payloads of an id that run together land theirs with their own ends: those that are
// done when a later one is slow have landed by then.
func TestFollowUpsOfATakenApartRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{Workers: 2})
		next := newTail(t, x, "next", executor.QueueConfig[string]{})
		failed := false
		jobs, err := executor.Handle(x, "jobs", func(_ context.Context, job executor.Job[int]) error {
			if err := next.FollowUp(job, "a", fmt.Sprint(job.Payload)); err != nil {
				return err
			}
			switch {
			case job.Payload == 900:
				time.Sleep(time.Hour) // a slow one
			case job.Payload == 950 && !failed:
				failed = true
				return errBoom
			}
			return nil
		}, executor.QueueConfig[int]{RetryIn: always(time.Minute)})
		require.NoError(t, err)
		var want []string
		for n := range 1000 {
			enqueue(t, jobs, "a", n)
			want = append(want, fmt.Sprint("a=", n))
		}
		start(t, x)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, want[:900], next.all(), "what is done is not held up by the slow one")
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.Equal(t, want, next.all(), "each once, in order")
	})
}

// What an enqueue would refuse is refused at once, and so is what has no place in a
// commit. Nothing of it lands.
func TestFollowUpRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := openOn(t, new(journal.Memory), executor.Config{Advanced: executor.Advanced{MaxPayloadBytes: 5 << 20}})
		y := openOn(t, new(journal.Memory), executor.Config{})
		next := newTail(t, x, "next", executor.QueueConfig[string]{})
		foreign := newTail(t, y, "next", executor.QueueConfig[string]{})
		served := newTail(t, x, "served", executor.QueueConfig[string]{Conditions: executor.Conditions[string]{
			Locks: executor.Locks[string]{
				OnEnqueue: func(id string, _ string) []string { return []string{id} }, Service: x.KeyLocks(),
			},
		}})
		keyed := newTail(t, x, "keyed", executor.QueueConfig[string]{Conditions: executor.Conditions[string]{
			Locks: executor.Locks[string]{
				OnEnqueue: func(string, string) []string { return []string{""} },
			},
		}})
		unencodable, err := executor.Handle(x, "unencodable", func(context.Context, executor.Job[chan int]) error { return nil }, executor.QueueConfig[chan int]{})
		require.NoError(t, err)
		var kept executor.Job[int]
		var late error
		after := make(chan struct{})
		jobs, err := executor.Handle(x, "jobs", func(_ context.Context, job executor.Job[int]) error {
			kept = job
			large := strings.Repeat("x", executor.MaxFollowUpBytes)
			for want, err := range map[string]error{
				"executor: invalid id":                next.FollowUp(job, "", "x"),
				"executor: payload does not encode":   unencodable.FollowUp(job, "a", nil),
				"executor: invalid item: the score":   next.FollowUp(job, "a", "x", executor.Score(math.NaN())),
				"executor: invalid item: a key":       next.FollowUp(job, "a", "x", executor.Metadata(map[string]string{"": "x"})),
				"executor: invalid key":               keyed.FollowUp(job, "a", "x"),
				`IdempotencyKey("k"): what is in the`: next.FollowUp(job, "a", "x", executor.IdempotencyKey("k")),
				`FromSource("s", 1): what is in the`:  next.FollowUp(job, "a", "x", executor.FromSource("s", 1)),
				"of another executor":                 foreign.FollowUp(job, "a", "x"),
				"kept by a Service":                   served.FollowUp(job, "a", "x"),
				"was not made by an executor":         next.FollowUp(executor.Job[int]{}, "a", "x"),
				"not made by an executor":             next.FollowUp(nil, "a", "x"),
				"not made by Handle, HandleMerged or": (*executor.Queue[int])(nil).FollowUp(job, "a", 1),
				"the limit is":                        next.FollowUp(job, "a", large+large),
			} {
				require.ErrorContains(t, err, want)
			}
			if job.Payload == 1 {
				require.NoError(t, next.FollowUp(job, "large", large))
				require.ErrorIs(t, next.FollowUp(job, "a", "x"), executor.ErrTooLarge)
				return errBoom
			}
			for range executor.MaxFollowUps {
				require.NoError(t, next.FollowUp(job, "many", "x"))
			}
			require.ErrorIs(t, next.FollowUp(job, "many", "x"), executor.ErrTooLarge)
			go func() { // is left behind
				<-after
				late = next.FollowUp(job, "a", "late")
			}()
			return nil
		}, executor.QueueConfig[int]{MaxRetries: -1})
		require.NoError(t, err)
		start(t, x)
		enqueue(t, jobs, "a", 1)
		enqueue(t, jobs, "a", 2)
		synctest.Wait()
		close(after)
		synctest.Wait()
		require.ErrorIs(t, late, executor.ErrReturned)
		require.ErrorIs(t, next.FollowUp(kept, "a", "x"), executor.ErrReturned)
		require.Len(t, next.all(), executor.MaxFollowUps)
		require.Empty(t, served.all())
		require.Empty(t, keyed.all())
		stop(t, x)
		require.ErrorIs(t, next.FollowUp(kept, "a", "x"), executor.ErrReturned)
	})
}

// What a goroutine stages that its handler has left behind is refused, also if the
// handler has staged nothing.
func TestFollowUpOfAHandlerThatStagesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		next := handle(t, x, "next", (&probe{}).handle, executor.QueueConfig[string]{})
		after, late := make(chan struct{}), make(chan error, 1)
		jobs := handle(t, x, "jobs", func(_ context.Context, job executor.Merged[string]) error {
			go func() {
				<-after
				late <- next.FollowUp(job, "a", "late")
			}()
			return nil
		}, executor.QueueConfig[string]{})
		start(t, x)
		enqueue(t, jobs, "a", "x")
		synctest.Wait()
		close(after)
		require.ErrorIs(t, <-late, executor.ErrReturned)
		stop(t, x)
	})
}

// What the call and the queue leave open is of the time when the handler has returned:
// so a follow-up stands behind all that was accepted for its id meanwhile.
func TestFollowUpStandsBehindWhatCameBefore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := openOn(t, new(journal.Memory), executor.Config{})
		type run struct {
			payload  string
			score    float64
			at       time.Time
			accepted time.Time
			meta     string
		}
		var runs []run
		next, err := executor.Handle(x, "next", func(_ context.Context, job executor.Job[string]) error {
			runs = append(runs, run{job.Payload, job.Score, time.Now(), job.EnqueuedAt, job.Metadata["k"]})
			return nil
		}, executor.QueueConfig[string]{
			Defaults: executor.Defaults[string]{
				ID:    func(p string) string { return p[:1] },
				Score: func(p string) float64 { return map[string]float64{"a computed": 7}[p] },
				Due: func(p string) time.Time {
					if p == "a computed" {
						return time.Now().Add(5 * time.Hour)
					}
					return time.Time{}
				},
			},
		})
		require.NoError(t, err)
		plain := newTail(t, x, "plain", executor.QueueConfig[string]{})
		var metadata = map[string]string{"k": "v"}
		jobs, err := executor.Handle(x, "jobs", func(_ context.Context, job executor.Job[int]) error {
			require.NoError(t, plain.FollowUp(job, "id", "staged first"))
			require.NoError(t, next.FollowUp(job, "", "a computed"))
			require.NoError(t, next.FollowUp(job, "b", "b put off", executor.In(4*time.Hour), executor.Score(3), executor.Metadata(metadata)))
			clear(metadata)
			time.Sleep(time.Hour)
			return nil
		}, executor.QueueConfig[int]{})
		require.NoError(t, err)
		start(t, x)
		begin := time.Now()
		enqueue(t, jobs, "a", 1)
		time.Sleep(30 * time.Minute)
		enqueue(t, plain.Queue, "id", "enqueued meanwhile", executor.In(90*time.Minute))
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"id=enqueued meanwhile", "id=staged first"}, plain.all())
		require.Len(t, runs, 2)
		put, computed := runs[0], runs[1]
		require.Equal(t, "b put off", put.payload)
		require.Equal(t, 3.0, put.score)
		require.Equal(t, "v", put.meta)
		require.Equal(t, 4*time.Hour, put.at.Sub(begin))
		require.Equal(t, time.Hour, put.accepted.Sub(begin).Round(time.Millisecond), "accepted with the end of its job")
		require.Equal(t, 7.0, computed.score)
		require.Equal(t, 5*time.Hour, computed.at.Sub(begin))
	})
}

// Any goroutine of the handler may stage, at the same time as others.
func TestFollowUpsOfManyGoroutines(t *testing.T) {
	x := open(t, "", executor.Config{})
	next := newTail(t, x, "next", executor.QueueConfig[string]{})
	jobs, err := executor.Handle(x, "jobs", func(_ context.Context, job executor.Job[int]) error {
		errs := make([]error, 8)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() {
				for range 10 {
					errs[i] = errors.Join(errs[i], next.FollowUp(job, fmt.Sprint(i), "x"))
				}
			})
		}
		all.Wait()
		return errors.Join(errs...)
	}, executor.QueueConfig[int]{})
	require.NoError(t, err)
	start(t, x)
	for i := range 20 {
		enqueue(t, jobs, fmt.Sprint(i), i)
	}
	for begin := time.Now(); stats(t, next.Queue).Done < 20*80; {
		require.Less(t, time.Since(begin), time.Minute)
	}
	require.EqualValues(t, 20, stats(t, jobs).Done)
}

// The keys that a follow-up locks are locked from the commit of its job on, after what
// that unlocks: no job that waits for such a key comes between.
func TestFollowUpLocksWhatItsJobUnlocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		var log shared[[]string]
		say := func(words ...any) { log.set(append(log.get(), fmt.Sprint(words...))) }
		byID := func(id string, _ string) []string { return []string{"key of " + id} }
		var next *executor.Queue[string]
		jobs, err := executor.Handle(x, "jobs", func(_ context.Context, job executor.Job[string]) error {
			say("job")
			time.Sleep(time.Minute)
			return next.FollowUp(job, job.ID, "x")
		}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{OnEnqueue: byID, Unlock: byID}}})
		require.NoError(t, err)
		next, err = executor.Handle(x, "next", func(context.Context, executor.Job[string]) error {
			time.Sleep(time.Minute)
			say("next")
			return nil
		}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{OnEnqueue: byID, Unlock: byID}}})
		require.NoError(t, err)
		waits, err := executor.Handle(x, "waits", func(context.Context, executor.Job[string]) error { say("waits"); return nil },
			executor.QueueConfig[string]{Conditions: executor.Conditions[string]{Locks: executor.Locks[string]{BlockedBy: byID}}})
		require.NoError(t, err)
		start(t, x)
		enqueue(t, jobs, "a", "x")
		enqueue(t, waits, "a", "x")
		time.Sleep(90 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"job"}, log.get())
		require.Len(t, lockedKeys(x), 1)
		require.Equal(t, "next/a", lockedKeys(x)[0].Locks[0].By)
		_, locked := tokens(t, disk.Crash())
		require.Equal(t, 1, locked, "it is on disk, too")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"job", "next", "waits"}, log.get())
		require.Empty(t, lockedKeys(x))
	})
}

// Follow-ups count in the backlog from the end of their job on, are let in, and leave
// it when they are over.
func TestFollowUpsCountInTheBacklog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := openOn(t, new(journal.Memory), executor.Config{MaxBacklog: executor.BacklogLimit{Payloads: 1}})
		next := newTail(t, x, "next", executor.QueueConfig[string]{MaxBacklog: executor.BacklogLimit{Payloads: 1}, Defaults: executor.Defaults[string]{Due: func(string) time.Time { return time.Now().Add(time.Hour) }}})
		jobs, err := executor.Handle(x, "jobs", func(_ context.Context, job executor.Job[int]) error {
			return errors.Join(next.FollowUp(job, "a", "x"), next.FollowUp(job, "b", "x"))
		}, executor.QueueConfig[int]{})
		require.NoError(t, err)
		enqueue(t, jobs, "a", 1)
		start(t, x)
		synctest.Wait()
		s, err := x.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, s.Backlog.Payloads)
		require.Equal(t, 2, stats(t, next.Queue).Backlog.Payloads)
		_, err = jobs.Enqueue(t.Context(), "b", 2)
		require.ErrorIs(t, err, executor.ErrFull, "calls from outside are kept out")
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		s, err = x.Stats(t.Context())
		require.NoError(t, err)
		require.Zero(t, s.Backlog.Payloads)
		require.Zero(t, s.Backlog.Bytes)
		require.Len(t, next.all(), 2)
	})
}

// A follow-up for the job's own queue and id runs when the job is over, and merges into
// an equal payload that waits there.
func TestFollowUpOfItsOwnJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := openOn(t, new(journal.Memory), executor.Config{Workers: 1})
		var ran []string
		var jobs *executor.Queue[string]
		jobs, err := executor.HandleMerged(x, "jobs", func(_ context.Context, job executor.Merged[string]) error {
			ran = append(ran, fmt.Sprint(len(job.Payloads), " ", job.Latest()))
			if job.Latest() == "again" {
				return nil
			}
			enqueue(t, jobs, "a", "again", executor.In(time.Hour))
			return jobs.FollowUp(job, "a", "again")
		}, executor.QueueConfig[string]{Merge: executor.MergeKeepFirst})
		require.NoError(t, err)
		start(t, x)
		enqueue(t, jobs, "a", "first")
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"1 first", "1 again"}, ran)
		require.EqualValues(t, 1, stats(t, jobs).Merged)
	})
}
