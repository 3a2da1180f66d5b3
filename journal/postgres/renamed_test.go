//go:build unix

package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// renamed opens a node with a queue of results that has a name, and had others.
func (c *nodes) renamed(ran chan<- int, name string, former ...string) (*testNode, *executor.Caller[int, int]) {
	c.t.Helper()
	n := c.node(c.url)
	q, err := executor.HandleResult(n.front, name, func(_ context.Context, job executor.Job[int]) (int, error) {
		ran <- job.Payload
		return 2 * job.Payload, nil
	}, executor.QueueConfig[int]{RenamedFrom: former})
	require.NoError(c.t, err)
	return n, q
}

// What nodes of an earlier build have put into the inbox under a former name of a queue, and what they ask, comes to the
// queue, ahead of what is enqueued after it under the new name.
func TestFormerNamesInTheInbox(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 30*time.Second)
	ran := make(chan int, 10)
	_, old := c.renamed(ran, "old")
	oldest, oldestOf := c.renamed(ran, "oldest")
	for n := range 2 {
		_, err := old.Enqueue(t.Context(), "a", n+1)
		require.NoError(t, err)
	}
	tx, err := oldest.pool.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, EnqueueTx(t.Context(), tx, oldestOf.Queue, "a", 3))
	require.NoError(t, tx.Commit(t.Context()))
	next, q := c.renamed(ran, "new", "", "old", "oldest", "no \xff text", "zero\x00", "q")
	require.NoError(t, next.front.Start(t.Context()))
	c.serving(next)
	ctx := within(t, time.Minute)
	_, err = q.Enqueue(ctx, "a", 4)
	require.NoError(t, err)
	result, err := old.Do(ctx, "a", 5)
	require.NoError(t, err)
	require.Equal(t, 10, result)
	for want := range 5 {
		require.Equal(t, want+1, <-ran)
	}
	r, err := old.Enqueue(ctx, "b", 6, executor.In(time.Hour), executor.IdempotencyKey("six"))
	require.NoError(t, err)
	pending, err := old.Pending(ctx, "b")
	require.NoError(t, err)
	require.True(t, pending)
	is(t, 1)(next.front.Inspect().Act(ctx, "run", inspect.SelectIDs("new", "b"), ""))
	require.NoError(t, old.Wait(ctx, r))
	require.Equal(t, 6, <-ran)
	_, err = next.q.Enqueue(ctx, "a", 1) // a queue that is registered has its own
	require.NoError(t, err)
	c.await(map[string]int{"a": 1})
	c.well(next)
	require.Zero(t, c.rows(next))
}

// A partition that was with a node of an earlier build for a while, which has made the old name anew, is served again by
// one that has the new name: what waits and is dead under both is joined.
func TestAPartitionThatGoesBackToAnEarlierBuild(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 30*time.Second)
	ran := make(chan int, 10)
	ctx := within(t, time.Minute)
	life := func(payload int, name string, former ...string) (*testNode, *executor.Caller[int, int]) {
		n, q := c.renamed(ran, name, former...)
		require.NoError(t, n.front.Start(t.Context()))
		c.serving(n)
		_, err := n.front.Inspect().Act(ctx, "pause", inspect.SelectIDs(name, "a", "dead"), "")
		require.NoError(t, err)
		for _, id := range []string{"a", "dead"} {
			_, err := q.Enqueue(ctx, id, payload)
			require.NoError(t, err)
		}
		is(t, 1)(n.front.Inspect().Act(ctx, "cancel", inspect.SelectIDs(name, "dead"), "enough"))
		return n, q
	}
	for payload, name := range []string{"new", "old", "new", "old"} {
		var former []string
		if name == "new" {
			former = []string{"old"}
		}
		n, _ := life(payload+1, name, former...)
		require.NoError(t, n.front.Stop(ctx))
	}
	n, q := life(5, "new", "old")
	figures, err := q.Stats(ctx)
	require.NoError(t, err)
	require.Equal(t, []int{5, 5}, []int{figures.Payloads, figures.Dead})
	is(t, 1)(n.front.Inspect().Act(ctx, "resume", inspect.SelectIDs("new", "a"), ""))
	for want := range 5 {
		require.Equal(t, want+1, <-ran)
	}
	require.NoError(t, n.front.Stop(ctx))
	n, _ = c.renamed(ran, "old")
	require.NoError(t, n.front.Start(t.Context()))
	c.serving(n)
	require.Empty(t, ran, "the old name has nothing")
	c.well(n)
}
