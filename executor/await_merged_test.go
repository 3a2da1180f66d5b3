package executor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// The end of a payload that was merged is that of the one that runs in its stead, also
// for who asks after the merge.
func TestWaitForWhatWasMerged(t *testing.T) {
	for _, merge := range []executor.Merge{executor.MergeKeepFirst, executor.MergeMinScore} {
		t.Run(string(merge), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				fate := executor.Cancel(errors.New("no stock"))
				q := handle(t, x, "q", func(context.Context, executor.Merged[string]) error { return fate }, executor.QueueConfig[string]{Merge: merge})
				start(t, x)
				first := enqueue(t, q, "a", "p", executor.In(time.Hour))
				second := enqueue(t, q, "a", "p")
				require.Equal(t, first.Position, second.MergedInto)
				soon, cancel := context.WithTimeout(t.Context(), time.Minute)
				err := q.Wait(soon, second)
				cancel()
				require.ErrorAs(t, err, new(*executor.PendingError))
				pending, _ := errors.AsType[*executor.PendingError](err)
				require.Equal(t, second, pending.Receipt)

				ends := make(chan error, 1)
				go func() { ends <- q.Wait(t.Context(), second) }()
				synctest.Wait()
				require.Empty(t, ends, "nothing has run")
				time.Sleep(time.Hour)
				for _, err := range []error{<-ends, q.Wait(t.Context(), second)} { // during the run, and from the morgue
					require.ErrorAs(t, err, new(*executor.BuriedError))
					buried, _ := errors.AsType[*executor.BuriedError](err)
					require.Equal(t, first.Position, buried.Position)
				}
				require.ErrorIs(t, q.Wait(t.Context(), executor.Receipt{ID: "a", Position: 1, MergedInto: 99}), executor.ErrInvalidID)
				stop(t, x)
			})
		})
	}
}

// Who waits for a payload that was folded for a run gets what became of the run, also when
// nobody waits for the first payload, which stands for all.
func TestWaitForWhatWasFolded(t *testing.T) {
	for name, test := range map[string]struct {
		fate error
		ends error
	}{"done": {}, "discarded": {executor.Discard(), executor.ErrDiscarded}, "buried": {executor.Cancel(errBoom), errBoom}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x, got := open(t, "", executor.Config{}), 0
				q, err := executor.HandleMerged(x, "q", func(_ context.Context, job executor.Merged[int]) error {
					got = job.Latest()
					return test.fate
				}, executor.QueueConfig[int]{Gather: executor.Gather[int]{Fold: func(a, b int) (int, error) { return a + b, nil }}})
				require.NoError(t, err)
				start(t, x)
				_, err = x.Inspect().Pause(t.Context(), inspect.SelectIDs(q.Name(), "id"))
				require.NoError(t, err)
				enqueue(t, q, "id", 1)
				second, third := make(chan error, 1), make(chan error, 1)
				for i, over := range []chan error{second, third} {
					r := enqueue(t, q, "id", 2<<i)
					go func() { over <- q.Wait(t.Context(), r) }()
				}
				synctest.Wait()
				_, err = x.Inspect().Resume(t.Context(), inspect.SelectIDs(q.Name(), "id"))
				require.NoError(t, err)
				require.ErrorIs(t, <-second, test.ends)
				require.ErrorIs(t, <-third, test.ends)
				require.Equal(t, 7, got)
				stop(t, x)
			})
		})
	}
}
