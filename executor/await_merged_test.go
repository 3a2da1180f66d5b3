package executor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
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
				require.ErrorIs(t, err, executor.ErrPending)
				pending, _ := errors.AsType[*executor.PendingError](err)
				require.Equal(t, second, pending.Receipt)

				ends := make(chan error, 1)
				go func() { ends <- q.Wait(t.Context(), second) }()
				synctest.Wait()
				require.Empty(t, ends, "nothing has run")
				time.Sleep(time.Hour)
				for _, err := range []error{<-ends, q.Wait(t.Context(), second)} { // during the run, and from the morgue
					require.ErrorIs(t, err, executor.ErrBuried)
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
	}{"done": {}, "discarded": {executor.Discard(), executor.ErrDiscarded}, "buried": {executor.Cancel(errBoom), executor.ErrBuried}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := open(t, "", executor.Config{})
				q, err := executor.HandleMergedResult(x, "q", func(_ context.Context, job executor.Merged[int]) (int, error) {
					return job.Latest(), test.fate
				}, executor.QueueConfig[int]{Gather: executor.Gather[int]{Fold: func(a, b int) (int, error) { return a + b, nil }}})
				require.NoError(t, err)
				start(t, x)
				_, err = x.Inspect().Pause(t.Context(), executor.SelectIDs(q.Name(), "id"))
				require.NoError(t, err)
				enqueue(t, q.Queue, "id", 1)
				third := make(chan error, 1)
				type answer struct {
					result int
					err    error
				}
				second := make(chan answer, 1)
				go func() {
					result, err := q.Do(t.Context(), "id", 2)
					second <- answer{result, err}
				}()
				synctest.Wait()
				r := enqueue(t, q.Queue, "id", 4)
				go func() { third <- q.Wait(t.Context(), r) }()
				synctest.Wait()
				_, err = x.Inspect().Resume(t.Context(), executor.SelectIDs(q.Name(), "id"))
				require.NoError(t, err)
				got := <-second
				require.ErrorIs(t, got.err, test.ends)
				require.ErrorIs(t, <-third, test.ends)
				if test.ends == nil {
					require.Equal(t, 7, got.result)
				}
				stop(t, x)
			})
		})
	}
}
