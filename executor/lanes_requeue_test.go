package executor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// What comes back from the morgue has its old place, before a job of another queue that
// is in back-off. A later one of its own queue does not run in its stead.
func TestSharedLanesAndWhatIsNotBackYet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 4})
		const ids = 50
		k := openKinds(t, x, func(queue string, j executor.Job[int]) error {
			switch {
			case j.Payload == 1 && j.Attempt == 1:
				return executor.Cancel(errors.New("by hand"))
			case j.Payload == 2:
				return executor.Snooze(time.Hour)
			}
			return nil
		}, "created", "paid")
		created, paid := k.queues[0], k.queues[1]
		for i := range ids {
			enqueue(t, created, fmt.Sprint(i), 1)
			enqueue(t, paid, fmt.Sprint(i), 2)
			enqueue(t, created, fmt.Sprint(i), 3)
		}
		start(t, x)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, ids, stats(t, created).Dead)
		require.Empty(t, k.ended(), "all wait for those that are put off")
		k.then(true, func(string, executor.Job[int]) error { return nil })
		n, err := backOf(x.Inspect().Requeue(context.Background(), inspect.SelectQueue(created.Name())))
		require.NoError(t, err)
		require.Equal(t, ids, n)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, slices.Repeat([]string{"created 1"}, ids), k.ended(), "the third waits for the second, which is put off")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, k.ended(), 3*ids)
		stop(t, x)
	})
}

// Two calls that put the same payloads back give them their places once, and neither
// takes away what the other one has given.
func TestSharedLanesAndTwoThatPutBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{Workers: 4})
		const ids = 50
		dies := func(string, executor.Job[int]) error { return executor.Cancel(errBoom) }
		k := openKinds(t, x, dies, "created", "paid")
		created, paid := k.queues[0], k.queues[1]
		for i := range ids {
			enqueue(t, created, fmt.Sprint(i), 1)
		}
		start(t, x)
		synctest.Wait()
		require.Equal(t, ids, stats(t, created).Dead)
		require.NoError(t, pauseAll(t.Context(), x))
		for i := range ids {
			enqueue(t, paid, fmt.Sprint(i), 2)
		}
		k.then(false, func(string, executor.Job[int]) error { return nil })
		ctx := &interrupted{Context: t.Context(), at: 30, do: func() {
			n, err := backOf(x.Inspect().Requeue(t.Context(), inspect.SelectIDs(created.Name(), "0", "1", "2")))
			require.NoError(t, err)
			require.Equal(t, 3, n)
		}}
		n, err := backOf(x.Inspect().Requeue(ctx, inspect.SelectQueue(created.Name())))
		require.NoError(t, err)
		require.Equal(t, ids-3, n)
		_, err = x.Inspect().Pause(t.Context(), inspect.SelectIDs(created.Name(), "0", "1", "2"))
		require.NoError(t, err)
		require.NoError(t, resumeAll(t.Context(), x))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, k.ended(), 2*(ids-3), "what waits for those that are paused")
		stop(t, x)
	})
}
