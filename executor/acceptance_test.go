package executor_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// What comes without a score runs in the order of the positions, which is that of
// acceptance, and not in that of the calls: a call that was held up on its way comes
// behind what was accepted meanwhile, whichever way it comes, over a restart, too.
func TestScoreIsInTheOrderOfAcceptance(t *testing.T) {
	past := executor.At(time.Unix(1, 0))
	for name, call := range map[string]func(ctx context.Context, q *executor.Queue[string]) error{
		"Enqueue": func(ctx context.Context, q *executor.Queue[string]) error {
			_, err := q.Enqueue(ctx, "a", "late 1")
			return err
		},
		"EnqueueMany": func(ctx context.Context, q *executor.Queue[string]) error {
			_, err := q.EnqueueMany(ctx, []executor.Item[string]{{ID: "a", Payload: "late 1"}, {ID: "a", Payload: "late 2"}})
			return err
		},
		"due before, with a key": func(ctx context.Context, q *executor.Queue[string]) error {
			_, err := q.Enqueue(ctx, "a", "late 1", past, executor.IdempotencyKey("k"))
			return err
		},
	} {
		for _, durability := range []executor.Durability{executor.DurabilitySync, executor.DurabilityAsync} {
			t.Run(fmt.Sprintf("%s, %v", name, durability), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					disk, held := new(journal.Memory), func(ctx context.Context, _ *executor.EnqueueCall, next func(context.Context) error) error {
						if ctx.Value(heldKey{}) != nil {
							time.Sleep(time.Minute)
						}
						return next(ctx)
					}
					cfg := executor.QueueConfig[string]{Defaults: executor.Defaults[string]{Durability: durability}, Middleware: []executor.Middleware{{Enqueue: held}}}
					x := openOn(t, disk, executor.Config{})
					q := handle(t, x, "q", (&probe{}).handle, cfg)
					time.Sleep(time.Millisecond) // a clock is hardly ever at a whole second
					begun := time.Now()
					go func() { assert.NoError(t, call(context.WithValue(context.Background(), heldKey{}, true), q)) }()
					time.Sleep(30 * time.Second)
					enqueue(t, q, "a", "early", past)
					time.Sleep(time.Minute)
					stop(t, x)

					x = openOn(t, disk, executor.Config{})
					var ran []executor.Payload[string]
					q = handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
						ran = append(ran, job.Payloads...)
						return nil
					}, cfg)
					enqueue(t, q, "a", "last")
					start(t, x)
					time.Sleep(time.Second)
					synctest.Wait()
					var order []string
					for _, p := range ran {
						order = append(order, p.Value)
					}
					require.Equal(t, append([]string{"early", "late 1", "late 2"}[:len(order)-1], "last"), order)
					require.WithinDuration(t, begun.Add(time.Minute), ran[1].EnqueuedAt, time.Microsecond, "accepted when it came to the journal")
					stop(t, x)
				})
			})
		}
	}
}

type heldKey struct{}

// A follow-up is accepted behind all that was accepted for its id until then, although
// its handler had returned before.
func TestScoreOfAFollowUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := openOn(t, new(journal.Memory), executor.Config{})
		next := newTail(t, x, "next", executor.QueueConfig[string]{})
		finish := make(chan struct{})
		jobs, err := executor.Handle(x, "jobs", func(_ context.Context, job executor.Job[int]) error {
			<-finish
			return next.FollowUp(job, "a", "follow-up")
		}, executor.QueueConfig[int]{})
		require.NoError(t, err)
		require.NoError(t, pauseQueue(t.Context(), next.Queue))
		start(t, x)
		enqueue(t, jobs, "j", 1)
		synctest.Wait()
		release := x.HoldShards("jobs")
		synctest.Wait()
		close(finish)
		time.Sleep(time.Minute)
		enqueue(t, next.Queue, "a", "enqueued")
		release()
		time.Sleep(time.Second)
		require.NoError(t, resumeQueue(t.Context(), next.Queue))
		time.Sleep(time.Second)
		require.Equal(t, []string{"a=enqueued", "a=follow-up"}, next.all())
		stop(t, x)
	})
}

// Many callers at a time, and follow-ups among what they enqueue, for one id.
func TestScoreUnderManyCallers(t *testing.T) {
	for name, dir := range map[string]string{"in memory": "", "on disk": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			x := open(t, dir, executor.Config{Workers: 4})
			var mu sync.Mutex
			var ran []uint64
			q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[string]) error {
				mu.Lock()
				defer mu.Unlock()
				ran = append(ran, job.Position)
				return nil
			}, executor.QueueConfig[string]{})
			require.NoError(t, err)
			parents, err := executor.Handle(x, "parents", func(_ context.Context, job executor.Job[int]) error {
				return q.FollowUp(job, "a", "follow-up")
			}, executor.QueueConfig[int]{})
			require.NoError(t, err)
			require.NoError(t, pauseQueue(t.Context(), q))
			start(t, x)
			var callers sync.WaitGroup
			for i := range 16 {
				callers.Go(func() {
					for n := range 50 {
						var err error
						switch {
						case i%4 == 0:
							_, err = parents.Enqueue(t.Context(), fmt.Sprint(i, n), n)
						case n%10 == 0:
							_, err = q.EnqueueMany(t.Context(), []executor.Item[string]{{ID: "a"}, {ID: "a"}})
						default:
							_, err = q.Enqueue(t.Context(), "a", "")
						}
						assert.NoError(t, err)
					}
				})
			}
			callers.Wait()
			drained(t, parents)
			require.NoError(t, resumeQueue(t.Context(), q))
			drained(t, q)
			mu.Lock()
			defer mu.Unlock()
			require.Len(t, ran, 16*50+12*5)
			require.True(t, slices.IsSorted(ran), "%v", ran)
			stop(t, x)
		})
	}
}
