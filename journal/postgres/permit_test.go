//go:build unix

package postgres

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// crowd counts what runs on all nodes.
type crowd struct {
	mu      sync.Mutex
	running map[*Node]int
	most    int
	ran     map[*Node]int
	begun   []time.Time
}

func (r *crowd) begin(n *Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[n]++
	r.ran[n]++
	r.begun = append(r.begun, time.Now())
	sum := 0
	for _, now := range r.running {
		sum += now
	}
	r.most = max(r.most, sum)
}

func (r *crowd) end(n *Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[n]--
}

func (r *crowd) of(n *Node) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ran[n]
}

// limited opens a node whose queue "limited" has a limit of the cluster.
func (c *nodes) limited(r *crowd, cfg executor.LimitConfig, takes time.Duration) (*testNode, *executor.Queue[int], *executor.Limit) {
	n := c.node(c.url, func(cfg *Config) { cfg.Executor.Workers = 16 })
	cfg.Cluster = true
	l, err := executor.NewLimit(n.front, "limit", cfg)
	require.NoError(c.t, err)
	q, err := executor.Handle(n.front, "limited", func(ctx context.Context, _ executor.Job[int]) error {
		r.begin(n.Node)
		defer r.end(n.Node)
		select {
		case <-time.After(takes):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, executor.QueueConfig[int]{Conditions: executor.Conditions[int]{Limits: []executor.LimitOf[int]{{Limit: l}}}})
	require.NoError(c.t, err)
	require.NoError(c.t, n.front.Start(context.Background()))
	return n, q, l
}

// A limit of the cluster holds over its nodes, all of which get on, also when one dies with what it had.
func TestALimitOfTheCluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Start(t).URL(), 8, time.Second)
	r := &crowd{running: make(map[*Node]int), ran: make(map[*Node]int)}
	a, q, _ := c.limited(r, executor.LimitConfig{Concurrent: 3}, 5*time.Millisecond)
	b, _, _ := c.limited(r, executor.LimitConfig{Concurrent: 3}, 5*time.Millisecond)
	c.serving(a, b)
	items := make([]executor.Item[int], 6000)
	for i := range items {
		items[i] = executor.Item[int]{ID: fmt.Sprint(i), Payload: i}
	}
	_, err := q.EnqueueMany(t.Context(), items)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return r.of(a.Node) > 100 && r.of(b.Node) > 100 }, time.Minute, time.Millisecond)
	b.kill()
	before := r.of(a.Node)
	require.Eventually(t, func() bool { return r.of(a.Node) > before+500 }, time.Minute, time.Millisecond)
	require.Equal(t, 3, r.most)
	require.NoError(t, a.front.Stop(t.Context()))
	var rows int
	require.NoError(t, connect(t, c.url).QueryRow(t.Context(), in(c.schema, "SELECT count(*) FROM {schema}.permit")).Scan(&rows))
	require.LessOrEqual(t, rows, 1)
}

// A rate is that of all nodes, and a pause that one of them asks for.
func TestARateOfTheCluster(t *testing.T) {
	third(t, 0)
	t.Parallel()
	c := newCluster(t, pgtest.Start(t).URL(), 8, 2*time.Second)
	r := &crowd{running: make(map[*Node]int), ran: make(map[*Node]int)}
	a, q, _ := c.limited(r, executor.LimitConfig{Rate: 40}, time.Millisecond)
	b, _, other := c.limited(r, executor.LimitConfig{Rate: 40}, time.Millisecond)
	c.serving(a, b)
	for i := range 400 {
		_, err := q.Enqueue(t.Context(), fmt.Sprint(i), i)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return r.of(a.Node)+r.of(b.Node) >= 200 }, time.Minute, time.Millisecond)
	l, err := executor.NewLimit(c.node(c.url).front, "limit", executor.LimitConfig{Rate: 40, Cluster: true})
	require.NoError(t, err)
	require.NoError(t, l.Pause("", time.Hour), "of a process that only looks")
	require.Eventually(t, func() bool { return !b.front.Inspect().Limits("")[0].Keys[0].Paused.IsZero() }, time.Minute, time.Millisecond, "the other node hears of it")
	paused := r.of(a.Node) + r.of(b.Node)
	require.NoError(t, other.Pause("", 0))
	require.Eventually(t, func() bool { return r.of(a.Node)+r.of(b.Node) >= paused+100 }, time.Minute, time.Millisecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range len(r.begun) - 41 {
		require.GreaterOrEqual(t, r.begun[i+41].Sub(r.begun[i]), 700*time.Millisecond, "a window of 750 ms has at most 41, and a clock of the test's own")
	}
}
