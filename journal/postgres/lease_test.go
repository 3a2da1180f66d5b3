//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// An owner that can't reach the server ends its handlers, with the cause, before its lease has
// ended by the server's clock, and what they return is not settled: the next owner runs it.
func TestAStaleOwnerEndsItsHandlersBeforeItsLease(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t)
	c := newCluster(t, s.URL(), 1, 2*time.Second)
	proxy := NewProxy(t, s.Addr())
	began := make(chan int32, 10)
	ended := make(chan error, 10)
	var runs atomic.Int32
	handler := func(ctx context.Context, job executor.Job[int]) error {
		run := runs.Add(1)
		began <- run
		if run > 1 {
			return nil
		}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil // it says that it is done, and is not believed
	}
	stale, err := openNode(t.Context(), proxy.URL(c.url), c.config())
	require.NoError(t, err)
	t.Cleanup(stale.kill)
	q, err := executor.Handle(stale.front, "q", handler, executor.QueueConfig[int]{})
	require.NoError(t, err)
	require.NoError(t, stale.front.Start(t.Context()))
	_, err = q.Enqueue(t.Context(), "a", 1)
	require.NoError(t, err)
	require.EqualValues(t, 1, <-began)
	epoch := cmpStats(t, stale).Partitions[0].Epoch
	observer := c.node(c.url)

	proxy.Refuse()
	proxy.Cut()
	require.ErrorIs(t, <-ended, ErrLeaseLost)
	var left float64
	require.NoError(t, observer.pool.QueryRow(t.Context(), in(c.schema,
		"SELECT extract(epoch FROM expires - clock_timestamp()) FROM {schema}.lease WHERE partition = 0")).Scan(&left))
	require.Positive(t, left, "seconds of the lease that were left when the handler had ended")
	row := func() (text string) {
		require.NoError(t, observer.pool.QueryRow(t.Context(), in(c.schema, "SELECT concat(number, ' ', epoch) FROM {schema}.tail")).Scan(&text))
		return text
	}
	before := row()
	tx, err := observer.pool.Begin(t.Context()) // in which nobody acquires the partition, its last owner neither
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), in(c.schema, "SELECT FROM {schema}.lease FOR UPDATE"))
	require.NoError(t, err)
	proxy.Heal() // it could commit now, if it did not know better
	time.Sleep(time.Duration(left*float64(time.Second)) / 2)
	require.Equal(t, before, row(), "nothing is committed after the handler has ended")
	require.NoError(t, tx.Rollback(t.Context()))

	next, err := openNode(t.Context(), c.url, c.config())
	require.NoError(t, err)
	t.Cleanup(next.kill)
	_, err = executor.Handle(next.front, "q", handler, executor.QueueConfig[int]{})
	require.NoError(t, err)
	require.NoError(t, next.front.Start(t.Context()))
	require.EqualValues(t, 2, <-began, "it was not settled")
	require.NotZero(t, cmpStats(t, stale).Lost)
	stats := cmpStats(t, observer.Node).Partitions[0] // of whichever of the two has it
	require.Greater(t, stats.Epoch, epoch)
}

func cmpStats(t *testing.T, n *Node) Stats {
	t.Helper()
	s, err := n.Stats(t.Context())
	require.NoError(t, err)
	return s
}

// A node that stops gives what it has to the others at once, mostly within a second: they neither
// wait for the end of its leases nor until they look the next time, and its running handlers end by
// themselves.
func TestAnOrderlyStopHandsOver(t *testing.T) {
	c := newCluster(t, pgtest.Shared(t).URL(), 16, time.Minute) // one node wants all of 8 too often
	a, b := c.start(c.url), c.start(c.url)
	c.serving(a, b)
	require.Eventually(t, func() bool { return len(a.Partitions()) > 0 && len(b.Partitions()) > 0 }, time.Minute, 5*time.Millisecond)
	for i := range 50 {
		_, err := b.q.Enqueue(t.Context(), fmt.Sprintf("id %d", i), 1)
		require.NoError(t, err)
	}
	began := time.Now()
	require.NoError(t, a.front.Stop(t.Context()))
	c.serving(b)
	took := time.Since(began)
	t.Logf("handed over in %v", took)
	require.Less(t, took, 15*time.Second, "of twenty until the next look")
	_, err := a.q.Enqueue(t.Context(), "a", 1)
	require.ErrorIs(t, err, executor.ErrClosed)
	require.NoError(t, a.front.Stop(t.Context()), "once more")
	want := make(map[string]int)
	for i := range 50 {
		want[fmt.Sprintf("id %d", i)] = 1
	}
	c.await(want)
	c.mu.Lock()
	require.Zero(t, c.repeats)
	c.mu.Unlock()
	require.ErrorIs(t, a.front.Start(t.Context()), executor.ErrState)
}

func TestDecide(t *testing.T) {
	ids := make([]pgtype.UUID, 5)
	for i := range ids {
		ids[i] = pgtype.UUID{Valid: true, Bytes: [16]byte{byte(i)}}
	}
	const partitions = 1000
	before, after := shares(ids[:4], partitions), shares(ids, partitions)
	others := 0
	for p := range partitions {
		if before[p] != after[p] && after[p] != ids[4] {
			others++
		}
	}
	require.Less(t, others, partitions/20, "to others than the new one")
	for partitions := range 70 {
		for nodes := 1; nodes <= len(ids); nodes++ {
			counts := make(map[pgtype.UUID]int)
			for _, id := range shares(ids[:nodes], partitions) {
				counts[id]++
			}
			for _, id := range ids[:nodes] {
				require.Contains(t, []int{partitions / nodes, (partitions + nodes - 1) / nodes}, counts[id])
			}
		}
	}
	require.Equal(t, make([]pgtype.UUID, 3), shares(nil, 3))

	v := view{nodes: ids, owners: make(map[int]owner), shares: after}
	var mine []int
	for p := range partitions {
		v.owners[p] = owner{}
		if after[p] == ids[0] {
			mine = append(mine, p)
		}
	}
	take, drop := decide(v, ids[0], nil)
	require.Equal(t, mine, take)
	require.Empty(t, drop)
	v.owners[mine[0]] = owner{ids[1], time.Second}  // of another one, until that ends
	v.owners[mine[1]] = owner{ids[1], -time.Second} // it has ended
	notMine := slices.IndexFunc(take, func(int) bool { return false }) + 1
	for after[notMine] == ids[0] {
		notMine++
	}
	take, drop = decide(v, ids[0], []int{mine[2], notMine})
	require.Equal(t, append([]int{mine[1]}, mine[3:]...), take)
	require.Equal(t, []int{notMine}, drop)
	v.nodes = ids[1:]
	_, drop = decide(v, ids[0], mine)
	require.Empty(t, drop, "without a row of its own it gives up nothing")
}

// A renewal that was under way when the node left does not make it a candidate again: until its
// lease had ended nobody would want what it has given away.
func TestALateRenewalBringsNoNodeBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 2, time.Minute)
	n := c.node(c.url)
	conn, err := n.control.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	nodes := func() int { return len(cmpStats(t, n.Node).Nodes) }
	renew := func() { require.NoError(t, n.renew(t.Context(), conn.Conn(), &n.cfg.Name, nil)) }
	renew()
	renew()
	require.Equal(t, 1, nodes())
	n.leave(t.Context())
	require.Zero(t, nodes())
	renew()
	require.Zero(t, nodes())

	before := c.node(c.url) // its first one
	before.leave(t.Context())
	require.NoError(t, before.renew(t.Context(), conn.Conn(), &before.cfg.Name, nil))
	require.Zero(t, nodes())
	_, err = conn.Exec(t.Context(), n.texts["sweep"])
	require.NoError(t, err)
	var rows int
	require.NoError(t, conn.QueryRow(t.Context(), in(c.schema, "SELECT count(*) FROM {schema}.node")).Scan(&rows))
	require.Zero(t, rows)
}

// Sessions of a server that may only be read, as one that another has taken the place of, are not used again: what
// is asked next is asked over a new connection.
func TestLeasesLeaveAServerThatMayOnlyBeRead(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 2, time.Minute)
	n := c.node(c.url)
	var all []*pgxpool.Conn
	for range n.control.Config().MaxConns {
		conn, err := n.control.Acquire(t.Context())
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), "SET default_transaction_read_only = on")
		require.NoError(t, err)
		all = append(all, conn)
	}
	for _, conn := range all {
		conn.Release()
	}
	require.Eventually(t, func() bool {
		n.leave(t.Context()) // over the one or the other
		_, err := n.tend()
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
}

// A renewal that comes too late, before the timers of partitions are heard of, keeps none: what the node had of
// the limits of the cluster is others' then.
func TestALateRenewalKeepsNoPartition(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Minute)
	n := c.node(c.url)
	p := newPartition(n.Node, 0)
	renew := func() {
		require.NoError(t, onConnection(t.Context(), n.control, time.Minute, func(ctx context.Context, conn *pgx.Conn) error {
			return n.renew(ctx, conn, &n.cfg.Name, map[int]*partition{0: p})
		}))
	}
	renew()
	require.NoError(t, p.acquire())
	renew()
	require.NoError(t, p.ctx.Err())
	n.renewed = time.Now().Add(-n.cfg.Lease)
	renew()
	require.ErrorIs(t, context.Cause(p.ctx), ErrLeaseLost)
}

// The hint that the last partition is free is sent, although its node ends then: nobody has to
// find it out by looking, which is once in twenty seconds here.
func TestAStopTellsOfTheLastPartition(t *testing.T) {
	third(t, 2)
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Minute)
	owner := c.start(c.url)
	c.serving(owner)
	for range 5 {
		next := c.start(c.url)
		require.Eventually(t, func() bool {
			s, err := next.Stats(t.Context())
			require.NoError(t, err)
			return len(s.Nodes) == 2 && len(owner.Partitions())+len(next.Partitions()) == 1
		}, time.Minute, 5*time.Millisecond)
		if len(owner.Partitions()) == 0 {
			owner, next = next, owner
		}
		began := time.Now()
		require.NoError(t, owner.front.Stop(t.Context()))
		c.serving(next)
		require.Less(t, time.Since(began), 15*time.Second)
		owner = next
	}
}

// What is being given away is stopped like all the others: its handlers are cancelled when the ctx
// of Stop ends, and not when that of the giving away does.
func TestAStopHurriesWhatIsBeingGivenAway(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 3*time.Second)
	began := make(chan struct{}, 10)
	slow := func(ctx context.Context, _ *executor.Run, _ func(context.Context) error) error {
		began <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	n := c.start(c.url, func(cfg *Config) { cfg.Executor.Middleware = []executor.Middleware{{Run: slow}} })
	c.serving(n)
	_, err := n.q.Enqueue(t.Context(), "a", 1)
	require.NoError(t, err)
	<-began
	p := n.owned(0)
	p.giveAway() // within thirty seconds
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	stopped := time.Now()
	require.NoError(t, n.front.Stop(ctx), "the handler has returned when it was cancelled")
	<-p.over
	require.Less(t, time.Since(stopped), 20*time.Second)
}

// A lease that was given back late is not that of the next life with the same owner.
func TestALateReleaseFreesNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Second)
	n := c.node(c.url)
	acquire := func() (epoch *int64) {
		require.NoError(t, n.pool.QueryRow(t.Context(), n.texts["acquire"], 0, n.id, 60_000).Scan(&epoch))
		return epoch
	}
	release := func(epoch int64) {
		_, err := n.pool.Exec(t.Context(), n.texts["release"], 0, n.id, epoch)
		require.NoError(t, err)
	}
	first := *acquire()
	release(first)
	second := *acquire()
	release(first)
	require.Nil(t, acquire())
	release(second)
	third := acquire()
	require.NotNil(t, third)
	release(0)
	require.NotNil(t, acquire(), "whose epoch is not known")
}

// A partition is given away when its handlers have returned: until then their contexts go on, and
// what they have done does not run again.
func TestAStepDownWaitsForHandlers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 30*time.Second)
	began, end := make(chan struct{}, 10), make(chan struct{})
	slow := func(ctx context.Context, _ *executor.Run, next func(context.Context) error) error {
		began <- struct{}{}
		select {
		case <-end:
			return next(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	n := c.start(c.url, func(cfg *Config) { cfg.Executor.Middleware = []executor.Middleware{{Run: slow}} })
	c.serving(n)
	_, err := n.q.Enqueue(t.Context(), "a", 1)
	require.NoError(t, err)
	<-began
	p := n.owned(0)
	p.giveAway()
	select {
	case <-p.over:
		t.Fatal("given away while a handler runs")
	case <-time.After(200 * time.Millisecond):
	}
	close(end)
	<-p.over
	require.NoError(t, p.stopErr)
	_, err = n.q.Enqueue(t.Context(), "a", 2)
	require.NoError(t, err)
	c.await(map[string]int{"a": 2})
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Equal(t, []int{1, 2}, c.ran["a"])
}

// A partition that is to be given away as soon as it was taken is no failure.
func TestAPartitionIsGivenAwayAtOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 8, 30*time.Second) // none is lost on a busy machine
	var n *testNode
	var given atomic.Int32
	n = c.node(c.url, func(cfg *Config) {
		cfg.Setup = func(_ *executor.Executor, number int) error {
			n.mu.Lock()
			p := n.held[number]
			n.mu.Unlock()
			if given.Add(1) <= 8 {
				p.giveAway()
			}
			return nil
		}
	})
	require.NoError(t, n.front.Start(t.Context()))
	require.Eventually(t, func() bool {
		require.NoError(t, n.front.Err())
		return len(n.Partitions()) == 8
	}, time.Minute, time.Millisecond)
	require.EqualValues(t, 16, given.Load())
}

// However often a connection is lost while a partition is opened, the next attempt comes as soon;
// what fails by itself is left alone for longer each time.
func TestLostConnectionsAreNoReasonToWait(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t)
	proxy := NewProxy(t, s.Addr())
	c := newCluster(t, s.URL(), 2, 900*time.Millisecond)
	n := c.node(proxy.URL(c.url))
	waits := func(err error) time.Duration {
		n.disown(newPartition(n.Node, 1), err)
		return time.Until(n.failed[1].until)
	}
	asked := func() error {
		_, err := n.pool.Exec(t.Context(), "SELECT 1")
		return err
	}
	require.NoError(t, asked())
	proxy.Refuse()
	proxy.Cut()
	for range 20 {
		err := asked()
		require.Error(t, err)
		require.LessOrEqual(t, waits(fmt.Errorf("postgres: partition 1: %w", err)), 300*time.Millisecond)
	}
	require.LessOrEqual(t, waits(context.DeadlineExceeded), 300*time.Millisecond)
	own := errors.New("Setup")
	require.LessOrEqual(t, waits(own), 300*time.Millisecond)
	require.Greater(t, waits(own), 500*time.Millisecond)
	require.Greater(t, waits(own), time.Second)
	proxy.Heal()
	_, err := n.pool.Exec(t.Context(), "SELECT nothing")
	require.ErrorContains(t, err, "nothing")
	require.Greater(t, waits(err), 2*time.Second)
}
