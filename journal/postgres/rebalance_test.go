//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// A node that joins, and leaves, has nothing cancelled: what is idle moves at once, and what runs comes
// to its end where it is, each job once.
func TestANodeThatJoinsCancelsNothing(t *testing.T) {
	t.Parallel()
	const partitions = 8
	c := newCluster(t, pgtest.Shared(t).URL(), partitions, time.Second)
	var mu sync.Mutex
	starts, cancelled := make(map[string]int), 0
	began, leave := make(chan string, 100), make(chan struct{})
	node := func() (*testNode, *executor.Queue[int]) {
		n := c.node(c.url, func(cfg *Config) {
			cfg.Executor.StopTimeout, cfg.Executor.Workers = 200*time.Millisecond, partitions // which are busy at a time
		})
		q, err := executor.Handle(n.Node.front, "long", func(ctx context.Context, job executor.Job[int]) error {
			mu.Lock()
			starts[job.ID]++
			mu.Unlock()
			began <- job.ID
			select {
			case <-leave:
			case <-ctx.Done():
				mu.Lock()
				cancelled++
				mu.Unlock()
			}
			return ctx.Err()
		}, executor.QueueConfig[int]{})
		require.NoError(t, err)
		return n, q
	}
	a, q := node()
	require.NoError(t, a.front.Start(t.Context()))
	c.serving(a)
	busy := make(map[int]bool)
	for i := 0; len(busy) < partitions/2; i++ {
		id := fmt.Sprint("busy ", i)
		if number, _ := a.PartitionOf(id); number%2 == 0 && !busy[number] {
			_, err := q.Enqueue(t.Context(), id, 1)
			require.NoError(t, err)
			busy[number] = true
			<-began
		}
	}
	b, _ := node()
	require.NoError(t, b.front.Start(t.Context()))
	var moves []int // that b is to have
	require.Eventually(t, func() bool {
		conn, err := b.control.Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
		v, err := b.look(t.Context(), conn)
		require.NoError(t, err)
		moves = nil
		idle := 0
		for p, id := range v.shares {
			if id == b.id {
				if moves = append(moves, p); !busy[p] {
					idle++
				}
			}
		}
		return len(v.nodes) == 2 && len(b.Partitions()) == idle
	}, time.Minute, 10*time.Millisecond, "what is idle moves")
	var waits *partition // one that is to move, and waits for its handlers
	for _, p := range moves {
		if busy[p] {
			waits = a.owned(p)
		}
	}
	if waits != nil {
		<-waits.down // the handlers have had all of StopTimeout
		require.Never(t, func() bool { return b.owned(waits.number) != nil }, time.Second, 10*time.Millisecond)
	}
	close(leave)
	require.Eventually(t, func() bool { return len(a.Partitions()) == partitions/2 && len(b.Partitions()) == partitions/2 }, time.Minute, time.Millisecond)
	require.NoError(t, b.front.Stop(t.Context()))
	c.serving(a)
	require.Eventually(t, func() bool {
		done := 0
		for _, x := range a.Partitions() {
			s, err := x.Stats(t.Context())
			require.NoError(t, err)
			for _, q := range s.Queues {
				done += q.Payloads
			}
		}
		return done == 0
	}, time.Minute, 10*time.Millisecond)
	mu.Lock()
	defer mu.Unlock()
	require.Zero(t, cancelled)
	for id, n := range starts {
		require.Equal(t, 1, n, id)
	}
	require.Len(t, starts, partitions/2)
}

// While the last handlers of a node that stops, or gives a partition away, end, it answers calls that
// need the owner, and those of its handlers. What they have brought runs at the next owner.
func TestAnOwnerAnswersUntilItsHandlersHaveEnded(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 30*time.Second)
	began, leave := make(chan struct{}), make(chan struct{})
	open := func(first bool) (*testNode, *executor.Queue[string]) {
		n := c.node(c.url)
		q, err := executor.Handle(n.Node.front, "calls", func(_ context.Context, job executor.Job[string]) error {
			if first {
				close(began)
				<-leave
				return nil
			}
			c.note(job.ID, 1, job.Position)
			return nil
		}, executor.QueueConfig[string]{})
		require.NoError(t, err)
		return n, q
	}
	a, q := open(true)
	require.NoError(t, a.front.Start(t.Context()))
	c.serving(a)
	_, err := q.Enqueue(t.Context(), "slow", "")
	require.NoError(t, err)
	<-began
	p := a.owned(0)
	stopped := make(chan error, 1)
	go func() { stopped <- a.front.Stop(t.Context()) }()
	<-p.down
	require.Eventually(t, func() bool { return errors.Is(p.x.Err(), executor.ErrClosed) }, time.Minute, time.Millisecond)
	want := make(map[string]int)
	for id, option := range map[string]executor.Option{"key": executor.IdempotencyKey("k"), "absent": executor.IfAbsent(), "source": executor.FromSource("s", 1)} {
		r, err := q.Enqueue(t.Context(), id, "", option)
		require.NoError(t, err, id)
		require.NotZero(t, r.Position, id)
		want[id] = 1
	}
	again, err := q.Enqueue(t.Context(), "key", "", executor.IdempotencyKey("k"))
	require.NoError(t, err)
	require.True(t, again.Duplicate)
	close(leave)
	require.NoError(t, <-stopped)
	b, _ := open(false)
	require.NoError(t, b.front.Start(t.Context()))
	c.await(want)
}
