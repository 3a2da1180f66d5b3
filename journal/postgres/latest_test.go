//go:build unix

package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// mirror is what nodes have written of the states of rows, and of which versions they had the last.
type mirror struct {
	mu      sync.Mutex
	seen    []int
	failing bool
}

func (m *mirror) down(failing bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failing = failing
}

func (m *mirror) has(versions ...int) func() bool {
	return func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		for i, v := range versions {
			if i >= len(m.seen) || m.seen[i] != v {
				return false
			}
		}
		return len(m.seen) == len(versions)
	}
}

// The newest state of a row counts, whichever nodes it goes to, and whoever owns it: an older one that arrives
// late is superseded, also at the next owner, a dead one is gone once a newer one is accepted, and to put back skips it.
func TestTheNewestStateOfARowOnAnyNode(t *testing.T) {
	third(t, 1)
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Second)
	var m mirror
	open := func() (*Node, *executor.Queue[int]) {
		n, err := openNode(t.Context(), c.url, c.config())
		require.NoError(t, err)
		t.Cleanup(n.kill)
		q, err := executor.HandleLatest(n.front, "rows", func(_ context.Context, job executor.Job[int]) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.failing {
				return executor.Cancel(errors.New("the mirror is down"))
			}
			m.seen = append(m.seen, job.Payload)
			return nil
		}, executor.QueueConfig[int]{})
		require.NoError(t, err)
		return n, q
	}
	caller, rows := open()
	put := func(version int) {
		t.Helper()
		r, err := rows.Enqueue(t.Context(), "a", version, executor.Score(float64(version)))
		require.NoError(t, err)
		require.Zero(t, r.Position, "it is in the inbox")
	}
	for _, version := range []int{3, 1, 4, 2} {
		put(version)
	}
	first, _ := open()
	require.NoError(t, first.front.Start(context.Background()))
	wait := func(done func() bool) {
		t.Helper()
		require.Eventually(t, done, time.Minute, time.Millisecond)
	}
	ended := func(n *Node, merged int) func() bool {
		return func() bool {
			x := n.Partitions()[0]
			if x == nil {
				return false
			}
			stats, err := x.Stats(t.Context())
			return err == nil && stats.Queues[0].Merged == uint64(merged) && stats.Queues[0].Jobs == 0
		}
	}
	wait(m.has(4))
	wait(ended(first, 3))

	next, _ := open()
	first.kill()
	require.NoError(t, next.front.Start(context.Background()))
	put(2)
	wait(ended(next, 1))
	require.True(t, m.has(4)())

	m.down(true)
	put(5)
	wait(func() bool {
		page, err := next.Partitions()[0].Inspect().Dead(t.Context(), inspect.JobQuery{Queue: "rows"})
		return err == nil && len(page.Dead) == 1
	})
	m.down(false)
	put(6)
	wait(m.has(4, 6))
	back, err := caller.front.Inspect().Act(t.Context(), "requeue", inspect.SelectQueue("rows"), "")
	require.NoError(t, err)
	require.Zero(t, back.Back)
	require.True(t, m.has(4, 6)())

	_, err = executor.HandleLatest(caller.front, "other", func(context.Context, executor.Job[int]) error { return nil },
		executor.QueueConfig[int]{Merge: executor.MergeKeepAll})
	require.ErrorIs(t, err, executor.ErrConfig)
}
