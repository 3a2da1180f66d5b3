//go:build unix

package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// A server that is set back to an older copy while nodes live is noticed by those who have seen
// more: the owner from before, and who has only looked. They do not serve the partition, and say
// why; a new process does.
func TestAServerThatWasSetBack(t *testing.T) {
	third(t, 1)
	t.Parallel()
	for name, other := range map[string]bool{ // the owner is another process, which ends then
		"the owner lives":    false,
		"the owner has died": true,
	} {
		t.Run(name, func(t *testing.T) {
			server := pgtest.Start(t)
			c := newCluster(t, server.URL(), 1, 600*time.Millisecond)
			n := c.start(c.url)
			c.serving(n)
			owner := n
			if other {
				owner = c.node(c.url)
				for wantedFirst(owner, n) != owner { // its id is not in use before Start
					_, _ = rand.Read(owner.id.Bytes[:])
				}
				require.NoError(t, owner.front.Start(t.Context()))
				c.serving(owner)
			}
			server.Stop()
			setBack := server.Keep(t)
			server.Restart(t)
			c.serving(owner)
			for k := 1; k <= 3; k++ {
				require.Eventually(t, func() bool { // while the lease is lost an outcome may be unknown
					_, err := owner.q.Enqueue(t.Context(), string(rune('a'+k)), 1)
					return err == nil
				}, time.Minute, time.Millisecond)
				c.await(map[string]int{string(rune('a' + k)): 1})
			}
			if other { // what it has committed last is seen when the lease is looked at
				require.Eventually(t, func() bool {
					var at int64
					err := n.pool.QueryRow(t.Context(), in(c.schema, "SELECT number FROM {schema}.tail")).Scan(&at)
					return err == nil && n.seen[0].head().number == at // a connection may be one of before
				}, time.Minute, 5*time.Millisecond)
			}
			server.Kill()
			if other {
				owner.kill()
			}
			require.Eventually(t, func() bool { return len(n.Partitions()) == 0 }, time.Minute, time.Millisecond)
			before := n.seen[0].head()
			require.NotZero(t, before)
			setBack()
			server.Restart(t)
			require.Eventually(t, func() bool { return errors.Is(n.front.Err(), ErrBehind) }, time.Minute, time.Millisecond)
			require.ErrorContains(t, n.front.Err(), "partition 0: postgres: the server has lost commits that it had acknowledged: partition 0 is at commit ")
			require.ErrorContains(t, n.front.Err(), "start this node's process anew")
			require.Never(t, func() bool { return len(n.Partitions()) > 0 || !errors.Is(n.front.Err(), ErrBehind) }, time.Second, time.Millisecond)

			again := c.start(c.url) // whatever the hash of n is: it is no candidate
			c.serving(again)
			c.well(again)
			require.ErrorIs(t, n.front.Err(), ErrBehind)
			require.NoError(t, n.front.Stop(t.Context()))
		})
	}
}

// wantedFirst returns which of two nodes should have partition 0.
func wantedFirst(nodes ...*testNode) *testNode {
	best := shares([]pgtype.UUID{nodes[0].id, nodes[1].id}, 1)[0]
	if best == nodes[0].id {
		return nodes[0]
	}
	return nodes[1]
}

// A commit that finds a server which was set back ends the owner's life, for good, and the contexts
// of its handlers.
func TestACommitFindsThatTheServerWasSetBack(t *testing.T) {
	third(t, 2)
	t.Parallel()
	server := pgtest.Start(t)
	c := newCluster(t, server.URL(), 1, 15*time.Second)
	began, cause := make(chan struct{}), make(chan error, 1)
	n, err := openNode(t.Context(), c.url, c.config())
	require.NoError(t, err)
	t.Cleanup(n.kill)
	_, err = executor.Handle(n.front, "q", func(ctx context.Context, _ executor.Job[int]) error {
		close(began)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return nil
	}, executor.QueueConfig[int]{})
	require.NoError(t, err)
	require.NoError(t, n.front.Start(t.Context()))
	c.serving(&testNode{Node: n})
	server.Stop()
	setBack := server.Keep(t)
	server.Restart(t)
	x := n.Partitions()[0]
	_, err = lookup(x, "q").Enqueue(t.Context(), "a", []byte("1"))
	require.NoError(t, err)
	<-began
	server.Kill()
	setBack()
	server.Restart(t)
	_, err = lookup(x, "q").Enqueue(t.Context(), "b", []byte("1"))
	require.ErrorIs(t, err, ErrBehind)
	require.ErrorIs(t, err, executor.ErrUnknown)
	require.Error(t, <-cause)
	require.Eventually(t, func() bool { return errors.Is(n.front.Err(), ErrBehind) }, time.Minute, time.Millisecond)
	require.Never(t, func() bool { return len(n.Partitions()) > 0 }, time.Second, time.Millisecond)
}

// Whenever it looks at a partition a node compares what is there with what it has seen: when it
// renews its leases, when it takes the partition, and when it opens it.
func TestEachLookIsCompared(t *testing.T) {
	c := newCluster(t, pgtest.Shared(t).URL(), 3, time.Minute)
	n := c.node(c.url)
	require.NoError(t, n.front.Start(t.Context()))
	c.serving(n)
	require.NoError(t, n.front.Stop(t.Context()))
	n = c.node(c.url)
	n.seen[0].note(head{0, 100})
	n.state, n.values = started, t.Context()
	_, err := n.tend()
	require.NoError(t, err)
	require.ErrorIs(t, n.failed[0].err, ErrBehind)
	require.Nil(t, n.held[0])
	require.NotNil(t, n.held[1])
	require.Eventually(t, func() bool { return n.owned(1) != nil && n.owned(2) != nil }, time.Minute, time.Millisecond)
	require.Equal(t, int64(2), n.seen[1].head().epoch)

	var at int64 // epoch that the next owner gets
	require.NoError(t, n.pool.QueryRow(t.Context(), in(c.schema, "SELECT epoch FROM {schema}.tail WHERE partition = 0")).Scan(&at))
	for _, farther := range []head{{at + 1, 0}, {0, 100}} {
		n := c.node(c.url)
		p := newPartition(n.Node, 0)
		n.seen[0].note(farther)
		err := p.acquire()
		if err == nil {
			_, err = p.openLog(journal.Config{})
		}
		p.release()
		require.ErrorIs(t, err, ErrBehind)
		require.ErrorContains(t, err, fmt.Sprintf("and this node has seen commit %d of epoch %d", farther.number, farther.epoch))
	}
}

// A lease that the server has given without its standby is none: the next server would give the
// same epoch to another node.
func TestALeaseThatTheStandbyMayNotHave(t *testing.T) {
	t.Parallel()
	primary := pgtest.Start(t)
	c := newCluster(t, primary.URL(), 1, time.Minute)
	standby := primary.Standby(t)
	n := c.node(c.url, func(cfg *Config) { cfg.SingleServer = false })
	p := newPartition(n.Node, 0)
	require.NoError(t, n.control.Ping(t.Context()))
	standby.Freeze()
	done := make(chan error)
	go func() { done <- p.acquire() }()
	require.Eventually(t, func() bool {
		var count int
		require.NoError(t, n.pool.QueryRow(t.Context(), `SELECT count(*) FROM (SELECT pg_cancel_backend(pid)
			FROM pg_stat_activity WHERE wait_event = 'SyncRep') c`).Scan(&count))
		return count > 0
	}, time.Minute, time.Millisecond)
	require.ErrorIs(t, <-done, errWarned)
	require.Zero(t, p.epoch())
	standby.Thaw()
	require.NoError(t, n.front.Start(t.Context()))
	p.release() // as the end of its life does
	c.serving(n)
}
