//go:build unix

package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// build is the codec of a build of a program, which knows payloads up to a number.
type build struct {
	executor.JSON[int]
	knows int
}

func (b build) Decode(data []byte) (n int, err error) {
	if err = json.Unmarshal(data, &n); err == nil && n > b.knows {
		err = fmt.Errorf("payload %d is of a later build", n)
	}
	return n, err
}

// What a node of the next build enqueues waits at the owner of this one, in the order of its id,
// until a node that knows it has the partition. What no node knows is dead when the retries are used up.
func TestPayloadsOfTheNextBuild(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Second)
	ran := make(chan int, 10)
	node := func(knows int, cfg executor.QueueConfig[int]) (*testNode, *executor.Queue[int]) {
		n := c.node(c.url)
		cfg.Codec = build{knows: knows}
		q, err := executor.Handle(n.Node.front, "grows", func(_ context.Context, job executor.Job[int]) error { ran <- job.Payload; return nil }, cfg)
		require.NoError(t, err)
		return n, q
	}
	stats := func(n *testNode) (s inspect.QueueStats) {
		x := n.Partitions()[0]
		if x == nil {
			return s // it has lost it for a moment
		}
		all, err := x.Stats(t.Context())
		if err != nil {
			return s
		}
		for _, q := range all.Queues {
			if q.Name == "grows" {
				s = q
			}
		}
		return s
	}
	old, _ := node(1, executor.QueueConfig[int]{})
	require.NoError(t, old.front.Start(t.Context()))
	c.serving(old)
	next, q := node(3, executor.QueueConfig[int]{})
	for n := range 3 {
		_, err := q.Enqueue(t.Context(), "a", n+1)
		require.NoError(t, err)
	}
	require.Equal(t, 1, <-ran)
	require.Eventually(t, func() bool { s := stats(old); return s.Failed > 0 }, time.Minute, time.Millisecond)
	require.Zero(t, stats(old).Dead)
	require.NoError(t, next.front.Start(t.Context()))
	require.NoError(t, old.front.Stop(t.Context()))
	c.serving(next)
	_, err := next.Partitions()[0].Inspect().RunNow(t.Context(), inspect.SelectIDs("grows", "a"))
	require.NoError(t, err)
	require.Equal(t, 2, <-ran)
	require.Equal(t, 3, <-ran)
	require.NoError(t, next.front.Stop(t.Context()))

	last, q := node(3, executor.QueueConfig[int]{MaxRetries: 2, RetryIn: func(int) time.Duration { return 0 }})
	require.NoError(t, last.front.Start(t.Context()))
	c.serving(last)
	_, err = q.Enqueue(t.Context(), "a", 4)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return stats(last).Dead == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, uint64(2), stats(last).Failed)
}
