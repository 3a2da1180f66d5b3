package executor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

func TestLowkiq_L06_MergeWithAWaitingJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		var ran shared[executor.Merged[string]]
		q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error { ran.set(job); return nil }, executor.QueueConfig[string]{Merge: executor.MergeMinScore})
		start(t, x)
		due := time.Now().Add(time.Hour)
		enqueue(t, q, "a", "x", executor.Score(5), executor.At(due))
		enqueue(t, q, "a", "y", executor.Score(4), executor.At(due.Add(-time.Minute)))
		lower := enqueue(t, q, "a", "x", executor.Score(3))
		assert.Zero(t, lower.MergedInto, "it has taken the place of the first one")
		higher := enqueue(t, q, "a", "x", executor.Score(9))
		assert.Equal(t, lower.Position, higher.MergedInto)
		time.Sleep(59 * time.Minute)
		assert.Empty(t, ran.get().ID, "the due time of the waiting job stays")
		time.Sleep(2 * time.Minute)
		got := ran.get()
		require.Equal(t, "a", got.ID)
		require.Len(t, got.Payloads, 2)
		assert.Equal(t, executor.Payload[string]{Value: "x", Score: 3, Position: lower.Position, EnqueuedAt: got.Payloads[0].EnqueuedAt}, got.Payloads[0])
		assert.Equal(t, "y", got.Payloads[1].Value)
		assert.True(t, due.Equal(got.Due))
		assert.Equal(t, 1, got.Attempt)
		assert.EqualValues(t, 2, stats(t, q).Merged)
	})
}

// By default each accepted payload counts.
func TestLowkiq_L06_PolicyOfEqualPayloads(t *testing.T) {
	for policy, want := range map[executor.Merge][]float64{
		"":                      {1, 2, 3},
		executor.MergeMinScore:  {1},
		executor.MergeKeepFirst: {2},
		executor.MergeKeepLast:  {3},
		executor.MergeKeepAll:   {1, 2, 3},
	} {
		t.Run(string(policy), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				var got shared[[]float64]
				q := handle(t, x, "q", func(_ context.Context, job executor.Merged[string]) error {
					var scores []float64
					for _, p := range job.Payloads {
						scores = append(scores, p.Score)
					}
					got.set(scores)
					return nil
				}, executor.QueueConfig[string]{Merge: policy})
				for _, score := range []float64{2, 1, 3} {
					enqueue(t, q, "a", "same", executor.Score(score))
				}
				start(t, x)
				synctest.Wait()
				assert.Equal(t, want, got.get())
			})
		})
	}
}

// A state that comes back stands where it first stood under MinScore, and behind the
// others under KeepLast. The retries of the job that waits stay with it.
func TestLowkiq_L06_AStateThatComesBack(t *testing.T) {
	for policy, want := range map[executor.Merge][]string{
		"":                     {"open", "closed", "open"},
		executor.MergeMinScore: {"open", "closed"},
		executor.MergeKeepLast: {"closed", "open"},
	} {
		t.Run(string(policy), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				p := &probe{}
				p.decide = func(_ context.Context, s seen) error {
					if s.retry < 0 {
						return errBoom
					}
					return nil
				}
				q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{Merge: policy, RetryIn: always(time.Hour)})
				start(t, x)
				enqueue(t, q, "door", "open")
				synctest.Wait()
				for _, state := range []string{"closed", "open"} {
					time.Sleep(time.Minute)
					enqueue(t, q, "door", state)
				}
				time.Sleep(2 * time.Hour)
				runs := p.seen()
				require.Len(t, runs, 2)
				assert.Equal(t, want, runs[1].values)
				assert.Zero(t, runs[1].retry, "the count of the waiting job")
			})
		})
	}
}

func TestLowkiq_L07_MergeOfAFailedJobWithAFreshOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		p := &probe{}
		p.decide = func(_ context.Context, s seen) error {
			time.Sleep(time.Minute)
			if s.retry < 0 {
				return errBoom
			}
			return nil
		}
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{RetryIn: always(time.Hour)})
		start(t, x)
		begin := time.Now()
		enqueue(t, q, "a", "failed", executor.Score(2))
		synctest.Wait()
		enqueue(t, q, "a", "while it ran", executor.Score(1))
		time.Sleep(2 * time.Minute)
		enqueue(t, q, "a", "while it waited", executor.Score(3))
		time.Sleep(2 * time.Hour)
		runs := p.seen()
		require.Len(t, runs, 2)
		assert.Equal(t, []string{"while it ran", "failed", "while it waited"}, runs[1].values)
		assert.Equal(t, 0, runs[1].retry, "the count of the failed one")
		assert.Equal(t, 61*time.Minute, runs[1].at.Sub(begin), "the due time of the failed one")
		assert.Equal(t, "boom", runs[1].last)
	})
}

func TestLowkiq_L08_MergeOutOfTheMorgue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{})
		fate := map[string]error{"dead": executor.Cancel(errBoom), "failed": errBoom}
		p := &probe{}
		p.decide = func(_ context.Context, s seen) error { return fate[s.values[0]] }
		q := handle(t, x, "q", p.handle, executor.QueueConfig[string]{RetryIn: always(time.Hour)})
		start(t, x)
		for _, id := range []string{"alone", "waiting", "other"} {
			enqueue(t, q, id, "dead", executor.Score(1))
		}
		synctest.Wait()
		enqueue(t, q, "waiting", "failed", executor.Score(2))
		synctest.Wait()
		require.Len(t, morgue(t, q), 3)
		time.Sleep(time.Minute)
		fate = nil
		n, err := backOf(x.Inspect().Requeue(t.Context(), inspect.SelectIDs(q.Name(), "alone", "waiting", "missing")))
		require.NoError(t, err)
		assert.Equal(t, 2, n)
		synctest.Wait()
		runs := p.seen()[4:]
		require.Len(t, runs, 2, "both are due now")
		for _, run := range runs {
			assert.Equal(t, -1, run.retry)
		}
		assert.Equal(t, []string{"dead"}, p.of("alone")[1:])
		assert.Equal(t, []string{"dead", "failed"}, p.of("waiting")[2:], "back in its place")
		require.Len(t, morgue(t, q), 1)
		n, err = backOf(x.Inspect().Requeue(t.Context(), inspect.SelectQueue(q.Name())))
		require.NoError(t, err)
		assert.Equal(t, 1, n)
		assert.Empty(t, morgue(t, q))
	})
}
