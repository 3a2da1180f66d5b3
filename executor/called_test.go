package executor_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// A job whose turn has come holds nothing while it waits for a worker, so what is
// enqueued meanwhile closes no cycle with it.
func TestCalledJobHoldsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 1})
		p := &probe{}
		hog := handle(t, x, "hog", (&probe{decide: takes(time.Minute, nil)}).handle, executor.QueueConfig[string]{})
		ship := handle(t, x, "ship", p.handle, executor.QueueConfig[string]{
			Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{OnEnqueue: keys("S"), BlockedBy: keys("C"), Unlock: keys("S")},
			},
		})
		cancel := handle(t, x, "cancel", p.handle, executor.QueueConfig[string]{
			Conditions: executor.Conditions[string]{
				Locks: executor.Locks[string]{BlockedBy: keys("S"), OnRun: keys("C"), Unlock: keys("C")},
			},
		})
		enqueue(t, ship, "ship 1", "", executor.In(2*time.Second))
		start(t, x)
		enqueue(t, cancel, "cancel", "")
		time.Sleep(time.Second)
		require.Equal(t, inspect.JobBlocked, explain(t, x, "cancel", "cancel").State)
		enqueue(t, hog, "hog", "")
		synctest.Wait()
		require.NoError(t, x.KeyLocks().Unlock(t.Context(), "S"))
		synctest.Wait()
		require.Equal(t, inspect.JobReady, explain(t, x, "cancel", "cancel").State)
		require.Empty(t, locked(x), "it is called, and holds nothing")
		enqueue(t, ship, "ship 2", "")
		require.Equal(t, []string{"S 1"}, locked(x))
		time.Sleep(24 * time.Hour)
		require.Len(t, p.log(), 3)
		for _, s := range p.seen() {
			require.Equal(t, -1, s.retry, s.id)
			require.Less(t, time.Since(s.at), 24*time.Hour, s.id)
		}
		require.Zero(t, stats(t, ship).Failed+stats(t, cancel).Failed)
		require.Empty(t, locked(x))
		stop(t, x)
	})
}

// A job whose turn has come for a lease, and which waits for a key by now, lets others have
// the lease.
func TestCalledJobThatWaitsForAnotherThing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 2})
		p := &probe{decide: takes(time.Minute, nil)}
		c := executor.Conditions[string]{Unique: executor.Unique[string]{Key: func(string, string) string { return "u" }}}
		free := handle(t, x, "free", p.handle, executor.QueueConfig[string]{Conditions: c})
		c.Locks.BlockedBy = keys("K")
		bound := handle(t, x, "bound", p.handle, executor.QueueConfig[string]{Conditions: c})
		start(t, x)
		enqueue(t, free, "1", "")
		synctest.Wait()
		enqueue(t, bound, "2", "")
		synctest.Wait()
		require.NoError(t, x.KeyLocks().Lock(t.Context(), "K"))
		time.Sleep(2 * time.Minute)
		enqueue(t, free, "3", "")
		time.Sleep(2 * time.Minute)
		require.Equal(t, []string{"1[]", "3[]"}, p.log())
		require.NoError(t, x.KeyLocks().Unlock(t.Context(), "K"))
		time.Sleep(2 * time.Minute)
		require.Equal(t, []string{"1[]", "3[]", "2[]"}, p.log())
		stop(t, x)
	})
}

// The lease of a unique job lasts from the start of its run. However long all
// workers are busy, the jobs run in the order in which they came.
func TestUniqueKeepsItsLineWhileWorkersAreBusy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 2, Unique: executor.Unique[any]{While: executor.UniqueWhileRunning}})
		p := &probe{decide: takes(time.Minute, nil)}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Share: executor.Share{Shards: 1, Concurrency: 20}})
		hogs := &probe{decide: func(ctx context.Context, s seen) error {
			return takes(map[string]time.Duration{"a": 140 * time.Second, "b": time.Hour}[s.id], nil)(ctx, s)
		}}
		hog := handle(t, x, "hog", hogs.handle, executor.QueueConfig[string]{
			Conditions: executor.Conditions[string]{
				Unique: executor.Unique[string]{While: executor.UniqueNever},
			}, Share: executor.Share{Shards: 1, Concurrency: 20},
		})
		start(t, x)
		var want []string
		for i := range 4 {
			enqueue(t, q, fmt.Sprint("J", i+1), "same")
			synctest.Wait() // it stands in line
			want = append(want, fmt.Sprintf("J%d[same]", i+1))
		}
		// From the end of J1 on both workers are busy for longer than two leases.
		enqueue(t, hog, "a", "")
		enqueue(t, hog, "b", "", executor.In(-time.Hour))
		time.Sleep(24 * time.Hour)
		require.Equal(t, want, p.log())
		stop(t, x)
	})
}

// A state that takes the place of one which waits for its key, and has the same key, keeps that place:
// what came to the line behind it does not overtake it.
func TestUniqueKeepsThePlaceForANewerState(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 4})
		var ran []string
		q, err := executor.HandleLatest(x, "q", func(_ context.Context, job executor.Job[int]) error {
			ran = append(ran, fmt.Sprint(job.ID, job.Payload))
			time.Sleep(time.Minute)
			return nil
		}, executor.QueueConfig[int]{
			Conditions: executor.Conditions[int]{Unique: executor.Unique[int]{Key: func(string, int) string { return "key" }}},
			Share:      executor.Share{Shards: 1, Concurrency: 4},
		})
		require.NoError(t, err)
		start(t, x)
		for i, id := range []string{"first", "second", "third", "second"} {
			enqueue(t, q, id, i)
			synctest.Wait() // it stands in line
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"first0", "second3", "third2"}, ran)
		stop(t, x)
	})
}
