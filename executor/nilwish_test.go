package executor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/journal"
)

// A nil pointer to a wish, which a program with a bug returns, is a failure: it drops
// nothing and buries nothing before its time.
func TestNilWishes(t *testing.T) {
	for _, wish := range []error{(*executor.WishError)(nil), (*executor.FatalError)(nil), (*executor.PanicError)(nil)} {
		for _, returned := range []error{wish, nilInside{wish}} {
			bubble(t, func(t *testing.T) {
				x := openOn(t, new(journal.Memory), executor.Config{})
				q, err := executor.Handle(x, "q", func(_ context.Context, job executor.Job[int]) error {
					if job.Attempt == 1 {
						return returned
					}
					return nil
				}, executor.QueueConfig[int]{RetryIn: always(time.Minute)})
				require.NoError(t, err)
				start(t, x)
				enqueue(t, q, "a", 1)
				synctest.Wait()
				s := stats(t, q)
				require.EqualValues(t, 1, s.Failed, "%T", wish)
				require.Zero(t, s.Discarded+s.Buried)
				require.Equal(t, events.Failed, executor.OutcomeOf(returned))
				time.Sleep(time.Hour)
				synctest.Wait()
				require.EqualValues(t, 1, stats(t, q).Done, "%T", wish)
			})
		}
	}
}

// nilInside wraps a nil pointer, whose methods may panic.
type nilInside struct{ error }

func (nilInside) Error() string   { return "nil inside" }
func (n nilInside) Unwrap() error { return n.error }

// A nil pointer to a panic that Fold returns ends nothing either: each payload runs by itself.
func TestNilPanicOfAFold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := openOn(t, new(journal.Memory), executor.Config{})
		q, err := executor.HandleMerged(x, "q", func(context.Context, executor.Merged[int]) error { return nil },
			executor.QueueConfig[int]{Gather: executor.Gather[int]{Fold: func(int, int) (int, error) { return 0, (*executor.PanicError)(nil) }}})
		require.NoError(t, err)
		enqueue(t, q, "a", 1)
		enqueue(t, q, "a", 2)
		start(t, x)
		synctest.Wait()
		require.EqualValues(t, 2, stats(t, q).Done)
	})
}

// What has no place in a follow-up, or is no key, is refused by its name.
func TestRefusalsNameTheOption(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := openOn(t, new(journal.Memory), executor.Config{})
		l, err := executor.NewLimit(x, "l", executor.LimitConfig{Concurrent: 1})
		require.NoError(t, err)
		keyed, err := executor.Handle(x, "keyed", func(context.Context, executor.Job[int]) error { return nil }, executor.QueueConfig[int]{
			Conditions: executor.Conditions[int]{
				Limits: []executor.LimitOf[int]{{Limit: l, Key: func(string, int) string { return "" }}},
			}})
		require.NoError(t, err)
		_, err = keyed.Enqueue(t.Context(), "a", 1)
		require.ErrorIs(t, err, executor.ErrInvalidKey)
		require.ErrorContains(t, err, "return 1 to 512 bytes")
		var q *executor.Queue[int]
		q, err = executor.Handle(x, "q", func(_ context.Context, job executor.Job[int]) error {
			for want, option := range map[string]executor.Option{
				"IfAbsent()":          executor.IfAbsent(),
				`IdempotencyKey("k")`: executor.IdempotencyKey("k"),
				`FromSource("s", 7)`:  executor.FromSource("s", 7),
			} {
				err := q.FollowUp(job, "b", 1, option)
				require.ErrorIs(t, err, executor.ErrState)
				require.ErrorContains(t, err, want)
			}
			return nil
		}, executor.QueueConfig[int]{})
		require.NoError(t, err)
		start(t, x)
		enqueue(t, q, "a", 1)
		synctest.Wait()
		require.EqualValues(t, 1, stats(t, q).Done)
	})
}
