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
	"github.com/strandjobs/strand/journal"
)

// requireAge checks the age of a queue, which is exact to a second.
func requireAge[T any](t *testing.T, q *executor.Queue[T], want time.Duration) {
	t.Helper()
	got := stats(t, q).Age
	require.GreaterOrEqual(t, got, want)
	require.Less(t, got, want+time.Second)
}

// Age tells of all that waits long, where Lag does not: of the line of one id, and of what
// is parked, paused, retried, halted or due later.
func TestAgeTellsWhatLagDoesNot(t *testing.T) {
	t.Run("a long line of one id", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			x := open(t, "", executor.Config{})
			q, err := executor.Handle(x, "q", func(context.Context, executor.Job[int]) error {
				time.Sleep(10 * time.Second)
				return nil
			}, executor.QueueConfig[int]{})
			require.NoError(t, err)
			items := make([]executor.Item[int], 1000)
			for i := range items {
				items[i].ID = "hot"
			}
			_, err = q.EnqueueMany(t.Context(), items)
			require.NoError(t, err)
			start(t, x)
			for range 9 {
				time.Sleep(1000 * time.Second)
				require.Zero(t, stats(t, q).Lag)
			}
			requireAge(t, q, 9000*time.Second)
			time.Sleep(1000 * time.Second)
			synctest.Wait()
			require.Zero(t, stats(t, q).Age, "nothing is left")
			stop(t, x)
		})
	})
	waits := map[string]func(t *testing.T, x *executor.Executor, q *executor.Queue[string]){
		"retried": func(t *testing.T, x *executor.Executor, q *executor.Queue[string]) { enqueue(t, q, "retried", "x") },
		"halted":  func(t *testing.T, x *executor.Executor, q *executor.Queue[string]) { enqueue(t, q, "halted", "x") },
		"later": func(t *testing.T, x *executor.Executor, q *executor.Queue[string]) {
			enqueue(t, q, "later", "x", executor.In(100*time.Hour))
		},
		"parked": func(t *testing.T, x *executor.Executor, q *executor.Queue[string]) {
			_, err := x.Inspect().Pause(t.Context(), inspect.SelectIDs(q.Name(), "parked"))
			require.NoError(t, err)
			enqueue(t, q, "parked", "x")
		},
		"paused": func(t *testing.T, x *executor.Executor, q *executor.Queue[string]) {
			require.NoError(t, pauseQueue(t.Context(), q))
			enqueue(t, q, "paused", "x")
		},
		"fresh traffic": func(t *testing.T, x *executor.Executor, q *executor.Queue[string]) {
			enqueue(t, q, "halted", "x")
			for i := range 3600 {
				time.Sleep(time.Second)
				enqueue(t, q, fmt.Sprint(i), "x")
			}
		},
	}
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk := new(journal.Memory)
				life := func() (*executor.Executor, *executor.Queue[string]) {
					x := openOn(t, disk, executor.Config{})
					return x, handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
						return map[string]error{"retried": errBoom, "halted": executor.RetryAfter(time.Second, errBoom)}[job.ID]
					}, executor.QueueConfig[string]{DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedHalt}, MaxRetries: 1, RetryIn: always(24 * time.Hour)})
				}
				x, q := life()
				start(t, x)
				began := time.Now()
				wait(t, x, q)
				time.Sleep(10 * time.Hour)
				requireAge(t, q, time.Since(began))
				require.Equal(t, name == "halted" || name == "fresh traffic", stats(t, q).Halted == 1)
				stop(t, x)
				x, q = life()
				requireAge(t, q, time.Since(began))
				stop(t, x)

				x = openOn(t, disk, executor.Config{}) // nobody registers the queue
				s, err := x.Stats(t.Context())
				require.NoError(t, err)
				require.InDelta(t, time.Since(began), s.Queues[0].Age, float64(time.Second))
				require.Equal(t, s.Age, s.Queues[0].Age)
				stop(t, x)
			})
		})
	}
}

// What is put back from the morgue is as old as that, in the next life, too; what is dead
// is of no age.
func TestAgeOfWhatIsPutBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		x, q := fates(t, disk, executor.QueueConfig[string]{})
		start(t, x)
		enqueue(t, q, "buried", "x")
		time.Sleep(time.Hour)
		require.Zero(t, stats(t, q).Age)
		require.NoError(t, pauseQueue(t.Context(), q))
		_, err := x.Inspect().Requeue(t.Context(), inspect.SelectIDs(q.Name(), "buried"))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		requireAge(t, q, time.Minute)
		stop(t, x)
		x, q = fates(t, disk, executor.QueueConfig[string]{})
		requireAge(t, q, time.Minute)
		stop(t, x)
		x = openOn(t, disk, executor.Config{})
		s, err := x.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.Minute, s.Age)
		stop(t, x)
	})
}

// A state is as old as the first one that is not done: while its target is down Age grows,
// however often it changes.
func TestAgeOfAStateThatChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		m := &mirrors{at: make(map[string]int), down: true}
		q := latest(t, x, m, executor.QueueConfig[int]{RetryIn: always(2500 * time.Millisecond)})
		start(t, x)
		began := time.Now()
		for v := range 40 {
			enqueue(t, q, "a", v)
			time.Sleep(time.Second)
			requireAge(t, q, time.Since(began))
		}
		m.set(false)
		time.Sleep(10 * time.Second)
		require.Zero(t, stats(t, q).Age)
		stop(t, x)
	})
}
