package executor_test

import (
	"context"
	"fmt"
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

// interrupted is a context that calls do when it is asked for the at-th time: another
// call, in the middle of the one that has the context.
type interrupted struct {
	context.Context
	at int64
	do func()

	asked atomic.Int64
}

func (c *interrupted) Err() error {
	if c.asked.Add(1) == c.at {
		c.do()
	}
	return c.Context.Err()
}

// theDead are dead payloads, each of an id of its own, on a disk in memory, and an
// executor that is paused.
type theDead struct {
	t       *testing.T
	x       *executor.Executor
	q       *executor.Queue[int]
	disk    journal.Memory // that counts its commits
	commits atomic.Int64
}

func buryAll(t *testing.T, n int, locks executor.Locks[int]) *theDead {
	d := &theDead{t: t}
	var alive atomic.Bool
	d.x = openOn(t, &d.disk, executor.Config{})
	q, err := executor.Handle(d.x, "q", func(_ context.Context, job executor.Job[int]) error {
		if alive.Load() {
			return nil
		}
		return executor.Cancel(errBoom)
	}, executor.QueueConfig[int]{Conditions: executor.Conditions[int]{Locks: locks}})
	require.NoError(t, err)
	d.q = q
	items := make([]executor.Item[int], n)
	for i := range items {
		items[i] = executor.Item[int]{ID: fmt.Sprint(i), Payload: i}
	}
	_, err = q.EnqueueMany(t.Context(), items)
	require.NoError(t, err)
	start(t, d.x)
	synctest.Wait()
	require.Equal(t, n, stats(t, q).Dead)
	require.NoError(t, pauseAll(t.Context(), d.x))
	alive.Store(true)
	synctest.Wait()
	d.disk.OnCommit(func() { d.commits.Add(1) })
	return d
}

// verbs are what takes payloads out of the morgue.
func (d *theDead) verbs() map[string]func(context.Context, inspect.Selection) (int, error) {
	i := d.x.Inspect()
	return map[string]func(context.Context, inspect.Selection) (int, error){"requeue": requeueOf(i), "delete": i.DeleteDead}
}

func (d *theDead) first(n int) inspect.Selection {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	return inspect.SelectIDs("q", ids...)
}

// A call that finds its payloads gone, because another one has taken them meanwhile,
// takes what is left of them in one commit, as if they had been all.
func TestTakenMeanwhile(t *testing.T) {
	for _, outer := range []string{"requeue", "delete"} {
		for _, inner := range []string{"requeue", "delete"} {
			t.Run(inner+" in the middle of "+outer, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					const n, taken = 2500, 500
					d := buryAll(t, n, executor.Locks[int]{})
					first := 0
					ctx := &interrupted{Context: t.Context(), at: taken + 200, do: func() {
						var err error
						first, err = d.verbs()[inner](t.Context(), d.first(taken))
						require.NoError(t, err)
					}}
					d.commits.Store(0)
					rest, err := d.verbs()[outer](ctx, inspect.SelectQueue("q"))
					require.NoError(t, err)
					require.Equal(t, taken, first)
					require.Equal(t, n-taken, rest)
					require.LessOrEqual(t, d.commits.Load(), int64(1+3), "one of the call between, and three full ones")
					require.Zero(t, stats(t, d.q).Dead)
					back := map[string]int{inner: first}
					back[outer] += rest
					require.Equal(t, back["requeue"], stats(t, d.q).Jobs)
				})
			})
		}
	}
}

// Calls of all kinds at the same time share the dead: each goes with one of them, and
// together they need few more commits than one alone.
func TestManyEmptyTheMorgue(t *testing.T) {
	const n, callers = 5000, 4
	dir := withDead(t, n, 4)
	x := open(t, dir, executor.Config{})
	raw := executor.QueueConfig[[]byte]{}
	q := handle(t, x, "q", func(context.Context, executor.Merged[[]byte]) error { return nil }, raw)
	before, err := x.Stats(t.Context())
	require.NoError(t, err)
	var back, deleted atomic.Int64
	var group sync.WaitGroup
	for range callers / 2 {
		group.Go(func() {
			did, err := backOf(x.Inspect().Requeue(t.Context(), inspect.SelectQueue("q")))
			assert.NoError(t, err)
			back.Add(int64(did))
		})
		group.Go(func() {
			did, err := x.Inspect().DeleteDead(t.Context(), inspect.SelectQueue("q"))
			assert.NoError(t, err)
			deleted.Add(int64(did))
		})
	}
	group.Wait()
	after, err := x.Stats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, n, back.Load()+deleted.Load())
	require.Zero(t, stats(t, q).Dead)
	require.EqualValues(t, back.Load(), stats(t, q).Jobs)
	commits := after.Journal.Commits - before.Journal.Commits
	t.Logf("%d are back and %d deleted, in %d commits", back.Load(), deleted.Load(), commits)
	require.LessOrEqual(t, commits, uint64(callers*(n/1000+1)), "a step of a call is one commit at most")
}

// What a call wanted to delete and another one has put back keeps what it has locked.
func TestDeleteUnlocksWhatItDeletes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		key := func(id string, _ int) []string { return []string{"key of " + id} }
		d := buryAll(t, 500, executor.Locks[int]{OnEnqueue: key, Unlock: key})
		held := func() int {
			locks, _, err := d.x.Inspect().LockedKeys("", 1000)
			require.NoError(t, err)
			return len(locks)
		}
		require.Equal(t, 500, held())
		ctx := &interrupted{Context: t.Context(), at: 300, do: func() {
			_, err := d.x.Inspect().Requeue(t.Context(), d.first(100))
			require.NoError(t, err)
		}}
		n, err := d.x.Inspect().DeleteDead(ctx, inspect.SelectQueue("q"))
		require.NoError(t, err)
		require.Equal(t, 400, n)
		require.Equal(t, 100, held())
	})
}

// Who waits for the commit of another call waits no longer than its own context.
func TestATurnAtTheMorgue(t *testing.T) {
	for _, verb := range []string{"requeue", "delete"} {
		bubble(t, func(t *testing.T) {
			d := buryAll(t, 500, executor.Locks[int]{})
			goOn, others := make(chan struct{}), make(chan int, 1)
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			ctx := &interrupted{Context: short, at: 300, do: func() {
				d.disk.BeforeCommit(func() { <-goOn })
				go func() {
					n, err := d.verbs()[verb](t.Context(), d.first(100))
					assert.NoError(t, err)
					others <- n
				}()
				synctest.Wait()
			}}
			began := time.Now()
			n, err := d.verbs()[verb](ctx, inspect.SelectQueue("q"))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Zero(t, n)
			require.Equal(t, time.Second, time.Since(began))
			d.disk.BeforeCommit(nil)
			close(goOn)
			require.Equal(t, 100, <-others)
			n, err = d.verbs()[verb](t.Context(), inspect.SelectQueue("q"))
			require.NoError(t, err)
			require.Equal(t, 400, n)
		})
	}
}

// A call that has ended before its commit holds no other one up, and what the commit
// takes is counted by nobody else.
func TestACommitAfterItsCall(t *testing.T) {
	for _, verb := range []string{"requeue", "delete"} {
		bubble(t, func(t *testing.T) {
			d := buryAll(t, 500, executor.Locks[int]{})
			goOn, others := make(chan struct{}), make(chan int, 1)
			ctx := &interrupted{Context: t.Context(), at: 300, do: func() {
				d.disk.BeforeCommit(func() { <-goOn })
				go func() {
					short, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					n, err := d.verbs()[verb](short, d.first(100))
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					others <- n
				}()
				synctest.Wait()
				time.AfterFunc(2*time.Second, func() { close(goOn) })
			}}
			n, err := d.verbs()[verb](ctx, inspect.SelectQueue("q"))
			require.NoError(t, err)
			require.Equal(t, 400, n)
			require.Zero(t, <-others)
			require.Zero(t, stats(t, d.q).Dead)
		})
	}
}

// What a run has locked is unlocked with the payload of that run, when a person deletes it, and
// not with another one of its job; what payloads that are done leave locked is one lock of a key.
func TestDeleteUnlocksWhatARunHasLocked(t *testing.T) {
	open := func(t *testing.T, retries int) (*executor.Executor, *executor.Queue[string]) {
		x := openOn(t, new(journal.Memory), executor.Config{})
		cfg := executor.QueueConfig[string]{MaxRetries: retries, RetryIn: func(int) time.Duration { return time.Hour }}
		cfg.Conditions.Locks = executor.Locks[string]{OnRun: words}
		q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
			if job.Payload == "done" {
				return nil
			}
			return errBoom
		}, cfg)
		require.NoError(t, err)
		start(t, x)
		return x, q
	}
	bubble(t, func(t *testing.T) {
		x, q := open(t, -1)
		first := enqueue(t, q, "a", "x both")
		second := enqueue(t, q, "a", "both")
		synctest.Wait()
		enqueue(t, q, "a", "later", executor.In(time.Hour))
		require.Len(t, locked(x), 2)
		did(t, 1)(x.Inspect().DeleteDead(t.Context(), inspect.SelectIDs("q", "a").At(first.Position)))
		require.Equal(t, []string{"both 1"}, locked(x))
		did(t, 1)(x.Inspect().DeleteDead(t.Context(), inspect.SelectIDs("q", "a").At(second.Position)))
		require.Empty(t, locked(x))
		stop(t, x)
	})
	bubble(t, func(t *testing.T) {
		x, q := open(t, 3)
		first := enqueue(t, q, "a", "x")
		enqueue(t, q, "a", "later")
		synctest.Wait()
		require.Equal(t, []string{"x 1"}, locked(x), "it is in back-off")
		did(t, 1)(x.Inspect().Delete(t.Context(), inspect.SelectIDs("q", "a").At(first.Position)))
		require.NotContains(t, locked(x), "x 1")
		stop(t, x)
	})
	bubble(t, func(t *testing.T) {
		x, q := open(t, 3)
		for range 3 {
			enqueue(t, q, "a", "done")
			synctest.Wait()
		}
		require.Equal(t, []string{"done 1"}, locked(x), "one unlock is enough")
		stop(t, x)
	})
}
