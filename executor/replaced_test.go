package executor_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// A payload that another one stands for is told so by its receipt, or counted where
// that was not known yet.
func TestReplacedIsCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		p := &probe{decide: takes(time.Second, errBoom)}
		first := handle(t, x, "first", p.handle, executor.QueueConfig[string]{Merge: executor.MergeKeepFirst})
		last := handle(t, x, "last", p.handle, executor.QueueConfig[string]{Merge: executor.MergeKeepLast})
		score := handle(t, x, "score", p.handle, executor.QueueConfig[string]{Merge: executor.MergeMinScore, RetryIn: always(time.Hour)})
		merged := func(q *executor.Queue[string]) [2]uint64 { s := stats(t, q); return [2]uint64{s.Merged, s.Replaced} }
		for _, q := range []*executor.Queue[string]{first, last} {
			r := enqueue(t, q, "1", "same")
			require.Zero(t, r.MergedInto)
			again := enqueue(t, q, "1", "same")
			if q == first {
				require.Equal(t, r.Position, again.MergedInto)
			} else {
				require.Zero(t, again.MergedInto, "it stands, and has replaced the first one")
			}
		}
		require.Equal(t, [2]uint64{1, 0}, merged(first))
		require.Equal(t, [2]uint64{1, 1}, merged(last))

		enqueue(t, score, "1", "same", executor.Score(2))
		require.Zero(t, enqueue(t, score, "1", "same", executor.Score(1)).MergedInto)
		require.NotZero(t, enqueue(t, score, "1", "same", executor.Score(3)).MergedInto)
		require.Equal(t, [2]uint64{2, 1}, merged(score))
		start(t, x)
		synctest.Wait()
		require.Zero(t, enqueue(t, score, "1", "same", executor.Score(9)).MergedInto, "behind the one that runs")
		time.Sleep(time.Minute)
		require.Equal(t, [2]uint64{3, 2}, merged(score), "they met when it had failed")
		stop(t, x)
	})
}

// What a job, its hook and Explain show is the last error, not the one before it,
// also after a restart and when another payload goes on.
func TestLastErrorIsTheLast(t *testing.T) {
	for _, exhausted := range []executor.OnExhausted{executor.OnExhaustedBuryOldest, executor.OnExhaustedBuryAll, executor.OnExhaustedHalt} {
		t.Run(fmt.Sprint(exhausted), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				n := 0
				var saw, hook []string
				p := &probe{decide: func(_ context.Context, s seen) error {
					saw = append(saw, s.last)
					n++
					return fmt.Errorf("error %d", n)
				}}
				q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{
					MaxRetries: 2, RetryIn: always(time.Second), DeadLetters: executor.DeadLetters[string]{
						OnExhausted: exhausted,
						RetriesExhausted: func(_ context.Context, jobs []executor.Merged[string]) {
							hook = append(hook, jobs[0].LastError)
						},
					},
				})
				enqueue(t, q, "1", "a")
				enqueue(t, q, "1", "b")
				start(t, x)
				time.Sleep(500 * time.Millisecond)
				synctest.Wait()
				require.Equal(t, "error 1", explain(t, x, "q", "1").LastError)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				require.Equal(t, []string{"", "error 1", "error 2"}, saw[:3])
				switch exhausted {
				case executor.OnExhaustedHalt:
					require.Empty(t, hook, "nothing is buried")
					require.Equal(t, "error 3", explain(t, x, "q", "1").LastError)
				default:
					require.Equal(t, "error 3", hook[0], "of the run that was the last")
					require.Equal(t, "error 3", morgue(t, q)[0].Error)
				}
				if exhausted == executor.OnExhaustedBuryOldest {
					require.Equal(t, "error 3", saw[3], "what is left begins anew")
				}
				stop(t, x)
			})
		})
	}
}
