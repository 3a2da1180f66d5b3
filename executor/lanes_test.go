package executor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// kinds are three queues that share their lanes, and what their handlers see of an
// id: one at a time, each position once, larger ones later.
type kinds struct {
	t      *testing.T
	queues []*executor.Queue[int]

	mu       sync.Mutex
	handle   func(queue string, j executor.Job[int]) error // decides after the checks
	requeued bool                                          // something comes back that is older than what ran meanwhile
	running  map[string]string
	last     map[string]uint64 // position that ended
	trace    []string          // queue and payload of what ended
}

func openKinds(t *testing.T, x *executor.Executor, handle func(string, executor.Job[int]) error, names ...string) *kinds {
	k := &kinds{t: t, handle: handle, running: make(map[string]string), last: make(map[string]uint64)}
	for _, name := range names {
		q, err := executor.Handle(x, name, func(_ context.Context, j executor.Job[int]) error {
			handle := k.begin(j)
			err := handle(name, j)
			k.end(j, err)
			return err
		}, executor.QueueConfig[int]{Conditions: executor.Conditions[int]{SharedLanes: "order"}, RetryIn: always(time.Second), MaxRetries: 5})
		require.NoError(t, err)
		k.queues = append(k.queues, q)
	}
	return k
}

func (k *kinds) begin(j executor.Job[int]) (handle func(string, executor.Job[int]) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	assert.Empty(k.t, k.running[j.ID], "%s/%s runs beside another job of its id", j.Queue, j.ID)
	if !k.requeued {
		assert.Greater(k.t, j.Position, k.last[j.ID], "%s/%s has been overtaken", j.Queue, j.ID)
	}
	k.running[j.ID] = j.Queue
	return k.handle
}

func (k *kinds) end(j executor.Job[int], err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.running, j.ID)
	if err == nil {
		k.last[j.ID] = j.Position
		k.trace = append(k.trace, fmt.Sprint(j.Queue, " ", j.Payload))
	}
}

// then changes what handlers do, before something is put back.
func (k *kinds) then(requeued bool, handle func(string, executor.Job[int]) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.handle, k.requeued = handle, requeued
}

// ended is what has ended until now. Time that passes in a bubble orders no memory.
func (k *kinds) ended() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.trace)
}

func (k *kinds) waiting(t *testing.T) (jobs int) {
	for _, q := range k.queues {
		jobs += stats(t, q).Jobs
	}
	return jobs
}

// Payloads of an id run in the order of acceptance over all queues that share its
// lane: while handlers take their time, fail and are tried again, calls come from
// many sides, and the process dies again and again.
func TestSharedLanesKeepTheOrderOfAcceptance(t *testing.T) {
	bubbles(t, 3, 0x1a9e5, func(t *testing.T, rng *rand.Rand) {
		var chance sync.Mutex
		draw := func(n int) int { chance.Lock(); defer chance.Unlock(); return rng.IntN(n) }
		names := []string{"created", "paid", "canceled"}
		disk := new(journal.Memory)
		for range 4 {
			rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			x := openOn(t, disk, executor.Config{Workers: 8})
			k := openKinds(t, x, func(string, executor.Job[int]) error {
				time.Sleep(time.Duration(draw(20)) * time.Millisecond)
				if draw(5) == 0 {
					return errors.New("not yet")
				}
				return nil
			}, names...)
			start(t, x)
			var calls sync.WaitGroup
			for range 3 {
				calls.Go(func() {
					for range 60 {
						q := k.queues[draw(len(k.queues))]
						options := []executor.Option{}
						if draw(10) == 0 {
							options = append(options, executor.In(time.Duration(draw(500))*time.Millisecond))
						}
						_, err := q.Enqueue(t.Context(), fmt.Sprint("id ", draw(4)), draw(1000), options...)
						assert.NoError(t, err)
					}
				})
			}
			calls.Wait()
			time.Sleep(time.Duration(draw(3000)) * time.Millisecond)
			disk = disk.Crash()
			if draw(2) == 0 {
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				require.Zero(t, k.waiting(t), "all have ended")
				require.Equal(t, 0, len(k.running))
			}
			stop(t, x)
		}
	})
}

// A job that fails holds up those behind it, whichever queue they are in, until it
// has succeeded or is buried. What comes back from the morgue has its old place.
func TestSharedLanesWaitForAFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		k := openKinds(t, x, func(queue string, j executor.Job[int]) error {
			if queue == "created" {
				return errors.New("no such customer")
			}
			return nil
		}, "created", "paid", "canceled")
		created, paid, canceled := k.queues[0], k.queues[1], k.queues[2]
		enqueue(t, created, "42", 1)
		enqueue(t, paid, "42", 2)
		enqueue(t, canceled, "42", 3)
		enqueue(t, paid, "43", 4)
		start(t, x)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"paid 4"}, k.ended(), "other ids go on")
		e, err := x.Inspect().Explain(t.Context(), "paid", "42")
		require.NoError(t, err)
		require.Equal(t, "created/42", e.Behind)
		require.Equal(t, inspect.JobWaiting, e.State)
		require.Equal(t, 1, e.Ahead)
		require.True(t, strings.HasSuffix(e.String(), "comes after created/42"), e.String())
		e = explain(t, x, "canceled", "42")
		require.Equal(t, "created/42", e.Behind)
		require.Equal(t, 2, e.Ahead)
		require.True(t, strings.HasSuffix(e.String(), "comes after created/42, behind 2 payloads of other queues"), e.String())

		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"paid 4", "paid 2", "canceled 3"}, k.ended(), "the morgue holds nothing up")

		block := make(chan struct{})
		k.then(true, func(string, executor.Job[int]) error { <-block; return nil })
		enqueue(t, paid, "42", 5)
		synctest.Wait()
		enqueue(t, canceled, "42", 6)
		_, err = x.Inspect().Requeue(t.Context(), inspect.SelectQueue(created.Name()))
		require.NoError(t, err)
		close(block)
		synctest.Wait()
		require.Equal(t, []string{"paid 5", "created 1", "canceled 6"}, k.ended()[3:], "one ran already, the old place of the other is before what waits")
		stop(t, x)
	})
}

// A payload that a full disk refused, or that was merged, holds nothing up.
func TestSharedLanesForgetWhatDoesNotRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x := openOn(t, disk, executor.Config{})
		var got []string
		register := func(name string) *executor.Queue[string] {
			q, err := executor.Handle(x, name, func(_ context.Context, j executor.Job[string]) error {
				got = append(got, name)
				return nil
			}, executor.QueueConfig[string]{Conditions: executor.Conditions[string]{SharedLanes: "order"}, Merge: executor.MergeKeepLast})
			require.NoError(t, err)
			return q
		}
		a, b := register("a"), register("b")
		enqueue(t, a, "id", "same")
		enqueue(t, b, "id", "one")
		enqueue(t, a, "id", "same") // in place of the first
		disk.Limit(1)
		_, err := a.Enqueue(t.Context(), "id", string(make([]byte, 1<<16)))
		require.ErrorIs(t, err, executor.ErrFull)
		disk.Limit(0)
		time.Sleep(2 * time.Second)
		enqueue(t, b, "id", "two")
		start(t, x)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"b", "a", "b"}, got)
		stop(t, x)
	})
}

func TestSharedLanesAreRefused(t *testing.T) {
	x := open(t, "", executor.Config{})
	cfg := executor.QueueConfig[string]{Conditions: executor.Conditions[string]{SharedLanes: "order"}}
	_, err := executor.HandleMerged(x, "merged", func(context.Context, executor.Merged[string]) error { return nil }, cfg)
	require.ErrorIs(t, err, executor.ErrConfig)
	_, err = executor.HandleBatch(x, "batch", func(context.Context, []executor.Merged[string]) error { return nil }, cfg)
	require.ErrorIs(t, err, executor.ErrConfig)
	start(t, x)
	_, err = executor.Handle(x, "late", func(context.Context, executor.Job[string]) error { return nil }, cfg)
	require.ErrorIs(t, err, executor.ErrState)
	stop(t, x)
}

// A handler that waits for a payload of its own id would wait for itself, whichever
// queue of the lanes that is for.
func TestSharedLanesAndDo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		cfg := executor.QueueConfig[int]{Conditions: executor.Conditions[int]{SharedLanes: "order"}}
		paid, err := executor.HandleResult(x, "paid", func(context.Context, executor.Job[int]) (string, error) { return "yes", nil }, cfg)
		require.NoError(t, err)
		var own, other error
		created, err := executor.Handle(x, "created", func(ctx context.Context, j executor.Job[int]) error {
			_, own = paid.Do(ctx, j.ID, 1)
			_, other = paid.Do(ctx, "another", 1)
			return nil
		}, cfg)
		require.NoError(t, err)
		start(t, x)
		enqueue(t, created, "42", 1)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.ErrorIs(t, own, executor.ErrDeadlock)
		require.ErrorContains(t, own, "created/42 waits for the end of paid/42 waits for its turn of created/42")
		require.NotContains(t, own.Error(), "lanes")
		require.NoError(t, other)
		stop(t, x)
	})
}

// A follow-up has its place in the lane from the commit of its job on.
func TestSharedLanesAndFollowUps(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		var got []string
		note := func(j executor.Job[int]) { got = append(got, fmt.Sprint(j.Queue, j.Payload)) }
		cfg := executor.QueueConfig[int]{Conditions: executor.Conditions[int]{SharedLanes: "order"}}
		paid, err := executor.Handle(x, "paid", func(_ context.Context, j executor.Job[int]) error { note(j); return nil }, cfg)
		require.NoError(t, err)
		created, err := executor.Handle(x, "created", func(_ context.Context, j executor.Job[int]) error {
			note(j)
			if j.Payload == 1 {
				return paid.FollowUp(j, j.ID, 3)
			}
			return nil
		}, cfg)
		require.NoError(t, err)
		enqueue(t, created, "42", 1)
		enqueue(t, created, "42", 2)
		start(t, x)
		time.Sleep(time.Second)
		enqueue(t, created, "42", 4)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"created1", "created2", "paid3", "created4"}, got)
		stop(t, x)
	})
}
