//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// What waits for a queue that only another node has, in the inbox and in the log, is told by the owner,
// until one has the partition that knows the queue.
func TestAQueueThatOnlyAnotherNodeHas(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Minute)
	ran := make(chan int, 2)
	knowing := func() (*testNode, *executor.Queue[int]) {
		n := c.node(c.url)
		q, err := executor.Handle(n.Node.front, "new", func(_ context.Context, job executor.Job[int]) error { ran <- job.Payload; return nil }, executor.QueueConfig[int]{})
		require.NoError(t, err)
		return n, q
	}
	first, q := knowing()
	paused := make(chan error, 1)
	first.cfg.Setup = func(x *executor.Executor, _ int) error {
		_, err := x.Inspect().Pause(t.Context(), inspect.SelectQueue("new"))
		paused <- err
		return err
	}
	require.NoError(t, first.front.Start(t.Context()))
	c.serving(first)
	require.NoError(t, <-paused)
	_, err := q.Enqueue(t.Context(), "a", 1)
	require.NoError(t, err)
	require.NoError(t, first.front.Stop(t.Context()))
	second, q := knowing()
	_, err = q.Enqueue(t.Context(), "b", 2)
	require.NoError(t, err)

	old := c.start(c.url)
	c.serving(old)
	c.says(old, `partition 0: 2 wait for queue "new", which this node does not have`)
	require.Equal(t, map[string]int{"new": 2}, cmpStats(t, old.Node).Partitions[0].Unserved)
	require.NoError(t, old.front.Stop(t.Context()))
	second.cfg.Setup = func(x *executor.Executor, _ int) error {
		_, err := x.Inspect().Resume(t.Context(), inspect.SelectQueue("new"))
		return err
	}
	require.NoError(t, second.front.Start(t.Context()))
	require.Equal(t, 3, <-ran+<-ran)
	c.serving(second)
	c.well(second)
}

// A call that nobody answers says what it has waited for, and Err says it, too, as long as that is so.
func TestEnqueueSaysWhyItHasWaited(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t)
	c := newCluster(t, s.URL(), 1, time.Second)
	proxy := NewProxy(t, s.Addr())
	n := c.node(proxy.URL(c.url))
	proxy.Refuse()
	proxy.Cut()
	for _, wait := range []time.Duration{time.Second, 2 * time.Second} { // the second one is behind the first
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		_, err := n.q.Enqueue(ctx, "a", 1)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "the inbox can't be written since ")
		require.True(t, unreached(err), "%v", err)
	}
	c.says(n, "the inbox can't be written since ")
	proxy.Heal()
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := n.q.Enqueue(ctx, "b", 1)
		return err == nil || !errors.Is(err, context.DeadlineExceeded)
	}, time.Minute, time.Millisecond)
	c.well(n)
}

// A role that may have no more connections, as a pooler without slots, keeps an owner from committing while its
// leases are renewed: Err says so, and a call whose time is over.
func TestAnOwnerSaysWhyItCommitsNothing(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	c := newCluster(t, s.URL(), 1, time.Minute)
	n := c.start(c.role(s, rightsOf(t, "node")))
	c.serving(n)
	role := n.pool.Config().ConnConfig.User
	s.Exec(t, "ALTER ROLE "+role+" CONNECTION LIMIT 1")
	require.Eventually(t, func() bool { // one that was in use is idle a moment later
		for _, conn := range n.pool.AcquireAllIdle(t.Context()) {
			s.Exec(t, fmt.Sprintf("SELECT pg_terminate_backend(%d)", conn.Conn().PgConn().PID()))
			conn.Release()
		}
		err := n.front.Err()
		return err != nil && strings.Contains(err.Error(), "partition 0: the server can't be used since ")
	}, time.Minute, 10*time.Millisecond)
	c.says(n, "partition 0: the server can't be used since ", "too many connections")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := n.q.Enqueue(ctx, "a", 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "too many connections")
	s.Exec(t, "ALTER ROLE "+role+" CONNECTION LIMIT -1")
	c.well(n)
}

// A connection on which nothing comes any longer, as through a router that has forgotten it, holds a call for
// seconds: another one is made then.
func TestADeadConnectionHoldsNoCallForLong(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Start(t).URL(), 1, time.Minute)
	n := c.node(c.url)
	for _, conn := range n.pool.AcquireAllIdle(t.Context()) {
		pid := int(conn.Conn().PgConn().PID())
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
		defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
		conn.Release()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
	defer cancel()
	began := time.Now()
	_, err := n.q.Enqueue(ctx, "a", 1)
	require.NoError(t, err)
	require.Greater(t, time.Since(began), attemptTime, "it was not dead")
}
