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

// Who waits for room goes on when there is some, however little of the backlog
// ever ends.
func TestBacklogThatHardlyMoves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{MaxBacklog: 100, Overflow: executor.Wait})
		q := handle(t, x, "q", func(context.Context, executor.Merged[int]) error { return nil }, executor.QueueConfig[int]{})
		for i := range 98 {
			enqueue(t, q, fmt.Sprint(i), i, executor.In(365*24*time.Hour))
		}
		enqueue(t, q, "soon", 1, executor.In(time.Second))
		enqueue(t, q, "then", 1, executor.In(time.Minute))
		start(t, x)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for i := range 10 {
			_, err := q.Enqueue(ctx, fmt.Sprint("waits ", i), i)
			require.NoError(t, err)
		}
		stop(t, x)
	})
}

// A call that needs more room than there is waits, at rest, until there is that much.
func TestBacklogManyAtOnceWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := open(t, "", executor.Config{MaxBacklog: 10, Overflow: executor.Wait})
		q := handle(t, x, "q", func(context.Context, executor.Merged[int]) error { return nil }, executor.QueueConfig[int]{})
		for i := range 8 {
			enqueue(t, q, fmt.Sprint(i), i, executor.In(time.Duration(i+1)*time.Second))
		}
		start(t, x)
		begin := time.Now()
		many := make([]executor.Item[int], 5)
		for i := range many {
			many[i].ID = fmt.Sprint("many ", i)
		}
		_, err := q.EnqueueMany(t.Context(), many)
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, time.Since(begin))
		synctest.Wait()
		stop(t, x)
	})
}
