package executor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// inquired is a context that calls a function when it is asked why it has ended.
type inquired struct {
	context.Context
	f func()
}

func (a inquired) Err() error {
	a.f()
	return a.Context.Err()
}

// What is accepted after the call of an action is not meant, though the call has not
// come to its job yet.
func TestActionsMeanWhatWasThere(t *testing.T) {
	for name, act := range map[string]func(inspect.Inspector, context.Context) (int, error){
		"cancel": func(i inspect.Inspector, ctx context.Context) (int, error) {
			return i.Cancel(ctx, inspect.SelectQueue("q"), "")
		},
		"delete": func(i inspect.Inspector, ctx context.Context) (int, error) {
			return i.Delete(ctx, inspect.SelectQueue("q"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				var p probe
				q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}})
				const jobs = 1000 // which take several visits
				for i := range jobs {
					enqueue(t, q, fmt.Sprint(i), "early")
				}
				asks := 0
				ctx := inquired{t.Context(), func() {
					if asks++; asks == 4 { // the first visits are over
						require.Less(t, stats(t, q).Jobs, jobs)
						enqueue(t, q, fmt.Sprint(jobs-1), "late")
					}
				}}
				n, err := act(x.Inspect(), ctx)
				require.NoError(t, err)
				require.Equal(t, jobs, n)
				start(t, x)
				synctest.Wait()
				require.Equal(t, []string{fmt.Sprint(jobs-1, "[late]")}, p.log())
				stop(t, x)
			})
		})
	}
}

// A position that an id does not have, because it has ended or is another id's, means no
// job, for RunNow as for Cancel.
func TestRunNowOfPayloads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		var p probe
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{})
		start(t, x)
		a := enqueue(t, q, "a", "x", executor.In(time.Hour))
		b := enqueue(t, q, "b", "x", executor.In(time.Hour))
		n, err := x.Inspect().RunNow(t.Context(), inspect.SelectIDs("q", "a").At(b.Position, b.Position+7))
		require.NoError(t, err)
		require.Zero(t, n)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, p.seen())
		n, err = x.Inspect().RunNow(t.Context(), inspect.SelectIDs("q", "a").At(b.Position, a.Position))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		synctest.Wait()
		require.Len(t, p.seen(), 1)
		stop(t, x)
	})
}

// Ids beside a filter, or beside states, mean those that all of it is true of.
func TestIDsThatAFilterPicks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
			return errors.New(job.Payloads[0].Value)
		}, executor.QueueConfig[string]{MaxRetries: -1, DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedHalt}})
		start(t, x)
		enqueue(t, q, "slow", "it took too long")
		enqueue(t, q, "wrong", "no such customer")
		enqueue(t, q, "new", "x", executor.In(time.Hour))
		synctest.Wait()
		i, ctx, which := x.Inspect(), t.Context(), inspect.SelectIDs("q", "slow", "wrong", "new", "nobody")
		which.Filter.ErrorContains = "too long"
		did(t, 1)(i.Delete(ctx, which))
		require.Equal(t, 2, stats(t, q).Jobs)
		which.Filter, which.States = inspect.JobFilter{}, []inspect.JobState{inspect.JobHalted}
		did(t, 1)(i.RunNow(ctx, which))
		synctest.Wait()
		did(t, 1)(i.Cancel(ctx, which, ""))
		require.Equal(t, []string{"wrongno such customer"}, deadOf(t, q))
		require.Equal(t, 1, stats(t, q).Jobs)
	})
}

// The reason of a person is kept like the text of a failure.
func TestReasonOfACancellation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { return nil }, executor.QueueConfig[string]{})
		start(t, x)
		for _, reason := range []string{strings.Repeat("y", 3000), strings.Repeat("é", 3000) + "\xff"} {
			enqueue(t, q, "a", "x", executor.In(time.Hour))
			n, err := x.Inspect().Cancel(t.Context(), inspect.SelectIDs("q", "a"), reason)
			require.NoError(t, err)
			require.Equal(t, 1, n)
			dead := morgue(t, q)
			require.Len(t, dead, 1)
			full := executor.ErrCanceledByOperator.Error() + ": " + reason
			require.True(t, strings.HasPrefix(full, dead[0].Error))
			require.GreaterOrEqual(t, len(dead[0].Error), min(len(full), 4<<10)-1)
			require.LessOrEqual(t, len(dead[0].Error), 4<<10)
			_, err = x.Inspect().DeleteDead(t.Context(), inspect.SelectIDs("q", "a"))
			require.NoError(t, err)
		}
		stop(t, x)
	})
}

// An id that is paused already takes no place among those that may be.
func TestPausedAgainAtTheMost(t *testing.T) {
	x := open(t, "", executor.Config{})
	q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { return nil }, executor.QueueConfig[string]{})
	start(t, x)
	ids := make([]string, executor.MaxPausedIDs)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	n, err := x.Inspect().Pause(t.Context(), inspect.SelectIDs(q.Name(), ids...))
	require.NoError(t, err)
	require.Len(t, ids, n)
	n, err = x.Inspect().Pause(t.Context(), inspect.SelectIDs(q.Name(), ids[:300]...))
	require.NoError(t, err, "they are paused")
	require.Zero(t, n)
	_, err = x.Inspect().Pause(t.Context(), inspect.SelectIDs(q.Name(), ids[0], "another"))
	require.ErrorIs(t, err, inspect.ErrTooManyPaused)
	stop(t, x)
}

// Four that end the same jobs at the same time hold each other up no more than one: what
// waits is counted by one of them, and what runs by each.
func TestManyEndTheSameJobs(t *testing.T) {
	const n, callers = 1000, 4
	verbs := map[string]func(inspect.Inspector, context.Context, inspect.Selection) (int, error){
		"cancel": func(i inspect.Inspector, ctx context.Context, which inspect.Selection) (int, error) {
			return i.Cancel(ctx, which, "")
		},
		"delete": (inspect.Inspector).Delete, "kill failed": (inspect.Inspector).KillFailed,
		"delete failed": (inspect.Inspector).DeleteFailed,
	}
	for verb, act := range verbs {
		t.Run(verb, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var disk journal.Memory
				x, goOn := openOn(t, &disk, executor.Config{}), make(chan struct{})
				q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[int]) error {
					if job.ID == "runs" {
						<-goOn
					}
					return errBoom
				}, executor.QueueConfig[int]{RetryIn: always(time.Hour)})
				require.NoError(t, err)
				items := make([]executor.Item[int], n)
				for i := range items {
					items[i] = executor.Item[int]{ID: fmt.Sprint(i)}
				}
				_, err = q.EnqueueMany(t.Context(), items)
				require.NoError(t, err)
				enqueue(t, q, "runs", 0)
				start(t, x)
				synctest.Wait()
				require.NoError(t, pauseAll(t.Context(), x))
				var affected, commits atomic.Int64
				disk.OnCommit(func() { commits.Add(1) })
				var group sync.WaitGroup
				for range callers {
					group.Go(func() {
						did, err := act(x.Inspect(), t.Context(), inspect.SelectQueue("q"))
						assert.NoError(t, err)
						affected.Add(int64(did))
					})
				}
				group.Wait()
				want := int64(n)
				if verb == "cancel" || verb == "delete" {
					want += callers
				}
				require.Equal(t, want, affected.Load())
				require.Less(t, commits.Load(), int64(n/10))
				close(goOn)
				synctest.Wait()
				s := stats(t, q)
				require.Equal(t, n+1, s.Jobs+s.Dead+int(s.Deleted))
			})
		})
	}
}
