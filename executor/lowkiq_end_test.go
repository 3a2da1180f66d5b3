package executor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// An error that is no job's ends the process in order, whatever the shape of the queue:
// nothing new begins, the others finish, then OnFatal and Run hear of it. The job keeps
// its place, and its failure counts, in the next process.
func TestLowkiq_L27_AFatalErrorStopsInOrder(t *testing.T) {
	fatal := executor.Fatal(errBoom)
	type q = executor.Queue[string]
	type cfg = executor.QueueConfig[string]
	shapes := map[string]func(*executor.Executor, func(id string) error) (*q, error){
		"payload": func(x *executor.Executor, does func(string) error) (*q, error) {
			return executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error { return does(job.ID) }, cfg{Share: executor.Share{Shards: 1}})
		},
		"payload, wrapped": func(x *executor.Executor, does func(string) error) (*q, error) {
			return executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
				if err := does(job.ID); err != nil {
					return fmt.Errorf("wrapped: %w", err)
				}
				return nil
			}, cfg{Share: executor.Share{Shards: 1}})
		},
		"merged": func(x *executor.Executor, does func(string) error) (*q, error) {
			return executor.HandleMerged(x, "q", func(_ context.Context, job executor.Merged[string]) error { return does(job.ID) }, cfg{Share: executor.Share{Shards: 1}})
		},
		"payloads": func(x *executor.Executor, does func(string) error) (*q, error) {
			return executor.HandleMerged(x, "q", func(_ context.Context, job executor.Merged[string]) error {
				if err := does(job.ID); err != nil {
					return executor.PayloadErrors{job.Payloads[0].Position: err}
				}
				return nil
			}, cfg{Share: executor.Share{Shards: 1}})
		},
		"batch": func(x *executor.Executor, does func(string) error) (*q, error) {
			return executor.HandleBatch(x, "q", func(_ context.Context, jobs []executor.Merged[string]) error { return does(jobs[0].ID) }, cfg{Share: executor.Share{Shards: 1}})
		},
		"batch by id": func(x *executor.Executor, does func(string) error) (*q, error) {
			return executor.HandleBatch(x, "q", func(_ context.Context, jobs []executor.Merged[string]) error {
				return executor.BatchErrors{jobs[0].ID: does(jobs[0].ID)}
			}, cfg{Share: executor.Share{Shards: 1}})
		},
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk := new(journal.Memory)
				var mu sync.Mutex // two handlers begin in the same moment
				var steps []string
				begin := time.Now()
				step := func(what ...any) {
					mu.Lock()
					defer mu.Unlock()
					steps = append(steps, fmt.Sprint(time.Since(begin).Seconds(), " ")+fmt.Sprint(what...))
				}
				x := openOn(t, disk, executor.Config{Workers: 2, OnFatal: func(err error) {
					f, ok := errors.AsType[*executor.FatalError](err)
					step("OnFatal ", ok && f.Err == errBoom)
				}})
				jobs, err := shape(x, func(id string) error {
					step("begins ", id)
					if id == "fatal" {
						time.Sleep(time.Second)
						return fatal
					}
					time.Sleep(5 * time.Second)
					step("ends ", id)
					return nil
				})
				require.NoError(t, err)
				ids := []string{"long", "fatal", "next", "after"}
				for i, id := range ids {
					enqueue(t, jobs, id, "", executor.At(begin.Add(time.Duration(i-10)*time.Second)))
				}
				err = x.Run(t.Context())
				require.ErrorIs(t, err, errBoom)
				_, ok := errors.AsType[*executor.FatalError](err)
				require.True(t, ok)
				require.ElementsMatch(t, []string{"0 begins long", "0 begins fatal"}, steps[:2])
				require.Equal(t, []string{"5 ends long", "5 OnFatal true"}, steps[2:])
				_, err = jobs.Enqueue(t.Context(), "late", "")
				require.ErrorIs(t, err, executor.ErrClosed)
				require.ErrorIs(t, x.Stop(t.Context()), errBoom)

				y := openOn(t, disk, executor.Config{})
				again := &probe{}
				handle(t, y, "q", again.handle, cfg{})
				e := explain(t, y, "q", "fatal")
				require.Equal(t, 2, e.Attempt, "it has spent a retry")
				require.Contains(t, e.LastError, "fatal: boom")
				start(t, y)
				synctest.Wait()
				require.ElementsMatch(t, []string{"next[]", "after[]"}, again.log(), "it waits for its retry")
				time.Sleep(time.Hour)
				require.Equal(t, "fatal[]", again.log()[2])
			})
		})
	}
}

// What is in a fatal error says what becomes of the job.
func TestLowkiq_L27_TheJobOfAFatalError(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		attempt int
		dead    int
	}{
		"failure": {executor.RetryAfter(0, errBoom), 2, 0},
		"snooze":  {executor.Snooze(0), 1, 0},
		"cancel":  {executor.Cancel(errBoom), 1, 1},
		"nothing": {nil, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk := new(journal.Memory)
				x := openOn(t, disk, executor.Config{})
				p := &probe{decide: func(context.Context, seen) error { return executor.Fatal(c.err) }}
				q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{})
				enqueue(t, q, "a", "first")
				enqueue(t, q, "b", "", executor.In(time.Nanosecond))
				require.Error(t, x.Run(t.Context()))
				y := openOn(t, disk, executor.Config{})
				after := handle(t, y, "q", p.handle, executor.QueueConfig[string]{})
				require.Equal(t, c.attempt, explain(t, y, "q", "a").Attempt)
				require.Len(t, morgue(t, after), c.dead)
			})
		})
	}
}

// A batch that ends the executor is not tried again in halves: its jobs have failed.
func TestLowkiq_L27_AFatalErrorOfABatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		calls := 0
		q, err := executor.HandleBatch(x, "q", func(_ context.Context, jobs []executor.Merged[string]) error {
			calls++
			require.Len(t, jobs, 4)
			return executor.Fatal(errBoom)
		}, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}, BatchSize: 4})
		require.NoError(t, err)
		for i := range 8 {
			enqueue(t, q, fmt.Sprint(i), "")
		}
		require.ErrorIs(t, x.Run(t.Context()), errBoom)
		require.Equal(t, 1, calls)
	})
}

// It may be the error of one payload, also where all that wait are folded into one.
func TestLowkiq_L27_AFatalErrorOfAPayload(t *testing.T) {
	for name, fold := range map[string]func(a, b string) (string, error){"apart": nil, "folded": join} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				q, err := executor.HandleMerged(x, "q", func(_ context.Context, job executor.Merged[string]) error {
					return executor.PayloadErrors{job.Payloads[0].Position: executor.Fatal(errBoom)}
				}, executor.QueueConfig[string]{Gather: executor.Gather[string]{Fold: fold}})
				require.NoError(t, err)
				enqueue(t, q, "a", "1")
				enqueue(t, q, "a", "2")
				require.ErrorIs(t, x.Run(t.Context()), errBoom)
			})
		})
	}
}

// Handlers that don't return in time are left behind, as by a stop. Without Run the
// executor stops all the same, and OnFatal is how the program hears of it. Many fatal
// errors are one.
func TestLowkiq_L27_AFatalErrorWaitsNoLongerThanAStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		told := make(chan error, 9)
		x := open(t, "", executor.Config{Workers: 4, StopTimeout: time.Minute, OnFatal: func(err error) { told <- err }})
		never := make(chan struct{})
		q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
			if strings.HasPrefix(job.ID, "fatal") {
				return executor.Fatal(errBoom)
			}
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), executor.ErrStopping)
			<-never
			return nil
		}, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}})
		start(t, x)
		enqueue(t, q, "stuck", "")
		synctest.Wait()
		begin := time.Now()
		enqueue(t, q, "fatal 1", "")
		require.ErrorIs(t, <-told, errBoom)
		require.InDelta(t, time.Minute, time.Since(begin), float64(time.Second))
		err := x.Stop(t.Context())
		require.ErrorIs(t, err, errBoom)
		require.ErrorIs(t, err, executor.ErrStuck)
		close(never)
		synctest.Wait()
		require.Empty(t, told)
	})
}

// A queue with more shards is served more often where the scheduler goes round, as in
// Lowkiq; by default Weight says so, whatever the number of shards.
func TestLowkiq_L27_MoreShardsAsPriority(t *testing.T) {
	for name, c := range map[string]struct {
		scheduler executor.Scheduler
		shards    int
		weight    int
		want      int // of 40 runs
	}{
		"Seq, three shards": {executor.RoundRobin(), 3, 1, 30},
		"Seq, one shard":    {executor.RoundRobin(), 1, 3, 20},
		"weight 3":          {nil, 1, 3, 30},
		"weight 1":          {nil, 3, 1, 20},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{Workers: 1, Scheduler: c.scheduler})
				runs := map[string]int{}
				p := func(_ context.Context, job executor.Merged[string]) error {
					runs[job.Queue]++
					time.Sleep(10 * time.Millisecond)
					return nil
				}
				more := handle(t, x, "more", p, executor.QueueConfig[string]{Share: executor.Share{Shards: c.shards, Weight: c.weight}})
				less := handle(t, x, "less", p, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}})
				for i := range 300 {
					enqueue(t, more, fmt.Sprint(i), "")
					enqueue(t, less, fmt.Sprint(i), "")
				}
				start(t, x)
				time.Sleep(405 * time.Millisecond)
				pauseAll(t.Context(), x)
				synctest.Wait()
				require.InDelta(t, c.want, runs["more"], 1, "%v", runs)
				require.InDelta(t, 40-c.want, runs["less"], 1, "%v", runs)
			})
		})
	}
}

// What an old queue still has is done by another worker: the new queue takes it over, in
// order and before what is its own, dead letters as well; or a handler for the old name
// drains it beside the new one.
func TestLowkiq_L27_DrainingAnOldQueue(t *testing.T) {
	old := func(t *testing.T) *journal.Memory {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		q := handle(t, x, "old", func(context.Context, executor.Merged[string]) error { return executor.Cancel(errBoom) }, executor.QueueConfig[string]{})
		enqueue(t, q, "dead", "d")
		start(t, x)
		synctest.Wait()
		stop(t, x)
		x = openOn(t, disk, executor.Config{})
		q = handle(t, x, "old", new(probe).handle, executor.QueueConfig[string]{})
		for i := range 3 {
			enqueue(t, q, "a", fmt.Sprint(i))
		}
		stop(t, x)
		return disk
	}
	t.Run("RenamedFrom", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			x := openOn(t, old(t), executor.Config{Advanced: executor.Advanced{Strict: true}})
			p := &probe{}
			q := handle(t, x, "new", p.handle, executor.QueueConfig[string]{RenamedFrom: []string{"old"}})
			enqueue(t, q, "a", "3")
			start(t, x)
			synctest.Wait()
			require.Equal(t, []string{"a[0 1 2 3]"}, p.log())
			require.Equal(t, "d", morgue(t, q)[0].Payload)
		})
	})
	t.Run("another handler", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			x := openOn(t, old(t), executor.Config{Advanced: executor.Advanced{Strict: true}})
			p := &probe{}
			q := handle(t, x, "new", p.handle, executor.QueueConfig[string]{})
			drains, err := executor.Handle(x, "old", func(ctx context.Context, job executor.Job[string]) error {
				return q.FollowUp(job, job.ID, job.Payload)
			}, executor.QueueConfig[string]{})
			require.NoError(t, err)
			start(t, x)
			synctest.Wait() // until what it has handed on has run, too
			require.Equal(t, []string{"0", "1", "2"}, p.of("a"))
			require.Equal(t, "d", morgue(t, drains)[0].Payload)
		})
	})
}
