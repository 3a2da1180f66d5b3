package executor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
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

// once counts the successes of payloads.
type once struct {
	calm  atomic.Bool // every run succeeds
	still atomic.Bool // every run comes to nothing

	mu    sync.Mutex
	done  map[int]int
	wrong []string
}

func (o *once) handle(_ context.Context, job executor.Merged[int]) error {
	values := make([]int, len(job.Payloads))
	for i, p := range job.Payloads {
		values[i] = p.Value
	}
	time.Sleep(rand.N(time.Millisecond)) // for people to come in between
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.IsSorted(values) {
		o.wrong = append(o.wrong, fmt.Sprintf("%s: %v", job.ID, values))
	}
	if o.still.Load() {
		return executor.Snooze(time.Minute)
	}
	switch fate := rand.IntN(6); {
	case o.calm.Load() || fate == 0:
		for _, v := range values {
			o.done[v]++
		}
		return nil
	case fate == 1:
		return executor.Cancel(errBoom)
	case fate == 2:
		return executor.Snooze(time.Millisecond)
	}
	return errBoom
}

// People put back what is dead, and have run at once what waits or is halted, while
// all of it runs, fails and is buried. Each payload succeeds once, in its order,
// and what left the morgue is what was put there; over restarts, too.
func TestControlsRaceExecution(t *testing.T) {
	t.Parallel()
	slow(t)
	const ids, lives = 6, 8
	for _, exhausted := range []executor.OnExhausted{executor.OnExhaustedBuryOldest, executor.OnExhaustedBuryAll, executor.OnExhaustedHalt} {
		t.Run(string(exhausted), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk, o := new(journal.Memory), &once{done: make(map[int]int)}
				var put, requeued, buried atomic.Int64
				for life := range lives {
					x := openOn(t, disk, executor.Config{Workers: 4})
					q := handle(t, x, "q", o.handle, executor.QueueConfig[int]{
						Share: executor.Share{Shards: 1 + life}, Merge: executor.MergeKeepAll, Gather: executor.Gather[int]{MaxPayloads: 3}, MaxRetries: 1,
						RetryIn: always(2 * time.Millisecond), DeadLetters: executor.DeadLetters[int]{OnExhausted: exhausted},
					})
					start(t, x)
					control := func(f func(id string) error) func() {
						return func() {
							for range 100 {
								assert.NoError(t, f(fmt.Sprint(rand.IntN(ids))))
								time.Sleep(rand.N(time.Millisecond))
							}
						}
					}
					back := func(n int, err error) error { requeued.Add(int64(n)); return err }
					var people sync.WaitGroup
					people.Go(control(func(id string) error {
						_, err := q.Enqueue(context.Background(), id, int(put.Add(1)))
						return err
					}))
					people.Go(control(func(id string) error {
						return back(backOf(x.Inspect().Requeue(context.Background(), inspect.SelectIDs(q.Name(), id))))
					}))
					people.Go(control(func(string) error {
						return back(backOf(x.Inspect().Requeue(context.Background(), inspect.SelectQueue(q.Name()))))
					}))
					people.Go(control(func(id string) error {
						_, err := x.Inspect().RunNow(context.Background(), inspect.SelectIDs(q.Name(), id))
						return err
					}))
					people.Wait()
					if life == lives-1 {
						o.calm.Store(true)
						for range 3 * ids { // what runs meanwhile is left alone
							require.NoError(t, back(backOf(x.Inspect().Requeue(t.Context(), inspect.SelectQueue(q.Name())))))
							for id := range ids {
								_, err := x.Inspect().RunNow(t.Context(), inspect.SelectIDs(q.Name(), fmt.Sprint(id)))
								require.NoError(t, err)
							}
							time.Sleep(time.Second)
						}
						synctest.Wait()
						s := stats(t, q)
						require.Zero(t, s.Jobs+s.Dead, "%+v", s)
					}
					o.still.Store(true) // a stop buries nothing that is not counted
					time.Sleep(time.Second)
					buried.Add(int64(stats(t, q).Buried))
					stop(t, x)
					o.still.Store(false)
					time.Sleep(time.Minute)
				}
				require.Empty(t, o.wrong)
				require.Len(t, o.done, int(put.Load()))
				for v, n := range o.done {
					require.Equal(t, 1, n, "payload %d", v)
				}
				require.Equal(t, buried.Load(), requeued.Load())
				require.NotZero(t, buried.Load())
			})
		})
	}
}
