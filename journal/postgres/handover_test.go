//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// stubborn registers a queue whose handlers go on after their contexts have ended, until leave is
// closed, on node first; the other nodes only say that they have begun.
func (c *nodes) stubborn(first bool, leave <-chan struct{}, inside *atomic.Int32, began chan<- string, change ...func(*Config)) (*Node, *executor.Queue[int]) {
	cfg := c.config()
	for _, f := range change {
		f(&cfg)
	}
	n, err := openNode(c.t.Context(), c.url, cfg)
	require.NoError(c.t, err)
	c.t.Cleanup(n.kill)
	q, err := executor.Handle(n.front, "q", func(_ context.Context, job executor.Job[int]) error {
		if inside.Add(1) > 1 {
			began <- "beside another run"
		}
		defer inside.Add(-1)
		began <- job.ID
		if first {
			<-leave
			return errors.New("too late")
		}
		return nil
	}, executor.QueueConfig[int]{})
	require.NoError(c.t, err)
	return n, q
}

// A partition that another node is to have stays where its handlers are until the last of them
// has returned, whatever their contexts say.
func TestAPartitionWaitsForItsHandlers(t *testing.T) {
	third(t, 0)
	t.Parallel()
	const lease = time.Second
	c := newCluster(t, pgtest.Shared(t).URL(), 1, lease)
	leave, began := make(chan struct{}), make(chan string, 10)
	var inside atomic.Int32
	a, q := c.stubborn(true, leave, &inside, began, func(cfg *Config) { cfg.Executor.StopTimeout = 50 * time.Millisecond })
	require.NoError(t, a.front.Start(t.Context()))
	b, _ := c.stubborn(false, leave, &inside, began)
	c.serving(&testNode{Node: a})
	_, err := q.Enqueue(t.Context(), "id", 1)
	require.NoError(t, err)
	require.Equal(t, "id", <-began)
	require.NoError(t, b.front.Start(t.Context()))
	a.mu.Lock()
	p := a.held[0]
	a.mu.Unlock()
	p.giveAway() // as for a node that joins
	c.says(&testNode{Node: a}, "partition 0: another node gets it when 1 handlers have returned")
	require.Never(t, func() bool { return len(b.Partitions()) > 0 || len(began) > 0 }, 3*lease, 10*time.Millisecond)
	close(leave)
	<-p.over
	require.Equal(t, "id", <-began, "it has not been settled")
	require.Empty(t, began)
}

// A handler that has ended its goroutine is waited for no longer: its partition can be another node's.
func TestAPartitionDoesNotWaitForAHandlerThatHasExited(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Minute)
	n := c.with(func(context.Context, executor.Job[int]) error { runtime.Goexit(); return nil }, executor.QueueConfig[int]{MaxRetries: -1})
	require.NoError(t, n.front.Start(t.Context()))
	c.serving(n)
	err := n.q.Wait(t.Context(), n.put(t, "id", 1))
	require.ErrorContains(t, err, executor.ErrHandlerExited.Error())
	p := n.owned(0)
	p.giveAway()
	select {
	case <-p.over:
	case <-time.After(20 * time.Second):
		t.Fatalf("%d handlers are waited for", p.lingering())
	}
}

// busy returns a node with a stubborn handler inside of its only partition.
func (c *nodes) busy() (n *Node, leave chan<- struct{}) {
	t, end, began := c.t, make(chan struct{}), make(chan string, 10)
	n, q := c.stubborn(true, end, new(atomic.Int32), began)
	require.NoError(t, n.front.Start(t.Context()))
	c.serving(&testNode{Node: n})
	_, err := q.Enqueue(t.Context(), "id", 1)
	require.NoError(t, err)
	<-began
	return n, end
}

// A node that has no time left to stop does not wait for such a handler, and does not give its
// lease back either: the handler has what is left of that.
func TestAStopThatIsOverKeepsTheLeaseOfItsHandlers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Minute)
	n, leave := c.busy()
	other := c.node(c.url)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, n.front.Stop(ended), executor.ErrStuck)
	require.NotEmpty(t, cmpStats(t, other.Node).Partitions[0].Owner)
	close(leave)

	idle := c.node(c.url) // where none is inside the lease is given back all the same
	_, err := idle.pool.Exec(t.Context(), in(c.schema, "UPDATE {schema}.lease SET expires = clock_timestamp() - interval '1 second'"))
	require.NoError(t, err)
	require.NoError(t, idle.front.Start(t.Context()))
	c.serving(idle)
	idle.kill()
	require.Eventually(t, func() bool { return cmpStats(t, other.Node).Partitions[0].Owner == "" }, 30*time.Second, 10*time.Millisecond)
}

// One that returns within that half a second has not kept its partition from the others.
func TestAStopThatIsOverWaitsAMoment(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Minute)
	n, leave := c.busy()
	n.mu.Lock()
	p := n.held[0]
	n.mu.Unlock()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	stopped := make(chan error)
	go func() { stopped <- n.front.Stop(ended) }()
	require.Eventually(t, func() bool { return p.lingering() == 1 }, time.Minute, time.Millisecond)
	close(leave)
	require.ErrorIs(t, <-stopped, executor.ErrStuck)
	require.Empty(t, cmpStats(t, c.node(c.url).Node).Partitions[0].Owner)
}

// Handlers that begin as soon as a node has a partition can do there what others can later.
func TestHandlersOfAPartitionThatIsBeingOpened(t *testing.T) {
	third(t, 0)
	t.Parallel()
	const jobs = 200
	c := newCluster(t, pgtest.Shared(t).URL(), 4, time.Minute)
	open := func(handle func(context.Context, *executor.Queue[int], executor.Job[int]) error) (*Node, *executor.Queue[int]) {
		n, err := openNode(t.Context(), c.url, c.config())
		require.NoError(t, err)
		t.Cleanup(n.kill)
		q, err := executor.Handle(n.front, "next", func(context.Context, executor.Job[int]) error { return nil }, executor.QueueConfig[int]{})
		require.NoError(t, err)
		first, err := executor.Handle(n.front, "q", func(ctx context.Context, job executor.Job[int]) error { return handle(ctx, q, job) },
			executor.QueueConfig[int]{MaxRetries: -1})
		require.NoError(t, err)
		require.NoError(t, n.front.Start(t.Context()))
		c.serving(&testNode{Node: n})
		return n, first
	}
	filled, q := open(func(ctx context.Context, _ *executor.Queue[int], _ executor.Job[int]) error {
		<-ctx.Done()
		return ctx.Err()
	})
	for i := range jobs {
		_, err := q.Enqueue(t.Context(), fmt.Sprint(i), 1)
		require.NoError(t, err)
	}
	filled.kill()
	wrong := make(chan error, 2*jobs)
	open(func(ctx context.Context, next *executor.Queue[int], job executor.Job[int]) error {
		_, err := next.Enqueue(ctx, job.ID, 1, executor.IdempotencyKey("once "+job.ID))
		wrong <- err
		err = next.FollowUp(job, job.ID, 2)
		wrong <- err
		return err
	})
	for range 2 * jobs {
		require.NoError(t, <-wrong)
	}
}
