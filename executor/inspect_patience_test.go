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

// besideOthers is an executor at work with many jobs and dead letters, of which others look
// at something all the time: who looks gets a turn each 40 ms.
func besideOthers(t *testing.T, jobs, dead int) (*executor.Executor, context.CancelFunc) {
	x := openOn(t, new(journal.Memory), executor.Config{Workers: 1})
	executor.NothingIdle(x)
	q := handle(t, x, "q", func(ctx context.Context, job executor.Merged[string]) error {
		if job.Latest() == "dies" {
			return executor.Cancel(errBoom)
		}
		<-ctx.Done()
		return ctx.Err()
	}, executor.QueueConfig[string]{Share: executor.Share{Shards: 1}})
	start(t, x)
	var items []executor.Item[string]
	for i := range dead {
		items = append(items, executor.Item[string]{ID: fmt.Sprintf("dead-%04d", i*7%dead), Payload: "dies"})
	}
	for i := range jobs {
		items = append(items, executor.Item[string]{ID: fmt.Sprintf("id-%04d", i*7%jobs), Due: time.Now().Add(time.Hour)})
	}
	_, err := q.EnqueueMany(t.Context(), items)
	require.NoError(t, err)
	synctest.Wait()
	enqueue(t, q, "runs", "runs")
	synctest.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, executor.LookFor(ctx, x, 10*time.Second)) // the burst is used up
	go func() {
		for executor.LookFor(ctx, x, 40*time.Millisecond) == nil {
		}
	}()
	time.Sleep(10 * time.Second)
	return x, cancel
}

// A page is there when its patience is over, with what has been found until then, and it
// says so. Its cursor goes on; without patience it has all.
func TestPatienceOfLists(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const jobs, patience = 10_000, 150 * time.Millisecond
		x, cancel := besideOthers(t, jobs, 0)
		defer cancel()
		for _, order := range []inspect.Order{inspect.OrderID, inspect.OrderDue, inspect.OrderAttempt, inspect.OrderPayloads} {
			for _, descending := range []bool{false, true} {
				query := inspect.JobQuery{Queue: "q", Order: order, Descending: descending, Limit: 10, Patience: patience}
				began := time.Now()
				page, err := x.Inspect().Jobs(t.Context(), query)
				require.NoError(t, err)
				require.LessOrEqual(t, time.Since(began), patience)
				require.True(t, page.Partial, order)
				require.False(t, page.Truncated)
				require.Positive(t, page.Examined)
				require.Less(t, page.Examined, jobs/2)
				require.Len(t, page.Jobs, 10)
				query.Cursor = page.Next
				next, err := x.Inspect().Jobs(t.Context(), query)
				require.NoError(t, err)
				compare := inOrder(order)(page.Jobs[9], next.Jobs[0])
				require.Equal(t, descending, compare > 0, "%d: %d", order, compare)
				query.Patience, query.Cursor = 0, ""
				page, err = x.Inspect().Jobs(t.Context(), query)
				require.NoError(t, err)
				require.False(t, page.Partial)
				require.Equal(t, jobs+1, page.Examined)
				require.Greater(t, time.Since(began), patience)
			}
		}
		_, err := x.Inspect().Jobs(t.Context(), inspect.JobQuery{Queue: "q", Patience: -1})
		require.ErrorIs(t, err, inspect.ErrInvalidQuery)
		ctx, end := context.WithTimeoutCause(t.Context(), patience/2, errBoom)
		defer end()
		_, err = x.Inspect().Jobs(ctx, inspect.JobQuery{Queue: "q", Order: inspect.OrderID, Patience: patience})
		require.ErrorIs(t, err, errBoom, "who has gone gets no part")
	})
}

// Without an order pages that end early are the list all the same, one after the other.
func TestPatienceWithoutAnOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const jobs, dead, patience = 10_000, 1500, 150 * time.Millisecond
		x, cancel := besideOthers(t, jobs, dead)
		defer cancel()
		query := inspect.JobQuery{Queue: "q", Limit: 7, Patience: patience, Filter: inspect.JobFilter{IDPrefix: "id-123"}}
		seen, early, examined := make(map[string]int), 0, 0
		for more := true; more; more = query.Cursor != "" {
			began := time.Now()
			page, err := x.Inspect().Jobs(t.Context(), query)
			require.NoError(t, err)
			require.LessOrEqual(t, time.Since(began), patience)
			require.False(t, page.Partial)
			require.Equal(t, page.Truncated, page.Next != "" && len(page.Jobs) < 7)
			for _, row := range page.Jobs {
				seen[row.ID]++
			}
			examined += page.Examined
			early += map[bool]int{true: 1}[page.Truncated]
			query.Cursor = page.Next
		}
		require.Positive(t, early)
		require.GreaterOrEqual(t, examined, jobs)
		require.Len(t, seen, 10)
		for id, n := range seen {
			require.Equal(t, 1, n, id)
		}
		morgue := inspect.JobQuery{Queue: "q", Limit: 1000, Patience: patience}
		all, early := 0, 0
		for more := true; more; more = morgue.Cursor != "" {
			page, err := x.Inspect().Dead(t.Context(), morgue)
			require.NoError(t, err)
			all, early, morgue.Cursor = all+len(page.Dead), early+map[bool]int{true: 1}[page.Truncated], page.Next
		}
		require.Positive(t, early)
		require.Equal(t, dead, all)
		morgue.Order = inspect.OrderID
		part, err := x.Inspect().Dead(t.Context(), morgue)
		require.NoError(t, err)
		require.True(t, part.Partial)
		require.Less(t, part.Examined, dead)
		morgue.Patience = -1
		_, err = x.Inspect().Dead(t.Context(), morgue)
		require.ErrorIs(t, err, inspect.ErrInvalidQuery)
	})
}
