package executor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
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
		require.Zero(t, k.ended, "all wait for those that are put off")
		k.handle = func(queue string, j executor.Job[int]) error { return nil }
		k.requeued = true
		n, err := created.RequeueAll(context.Background())
		require.NoError(t, err)
		require.Equal(t, ids, n)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, k.trace, ids)
		for _, line := range k.trace {
			require.Equal(t, "created 1", line, "the third waits for the second, which is put off")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, 3*ids, k.ended)
		stop(t, x)
	})
}
