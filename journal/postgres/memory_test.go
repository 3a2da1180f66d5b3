//go:build unix

package postgres

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// Whatever waits in its partitions, a node has as much of it in memory as it was told, and a node that
// opens all of them alone keeps its leases.
func TestANodeHasOneMemoryBudget(t *testing.T) {
	third(t, 2)
	t.Parallel()
	const partitions, budget, call = 16, 16 << 20, 1000
	jobs := times(64_000, 1_000_000)
	c := newCluster(t, pgtest.Start(t).URL(), partitions, time.Duration(times(10, 3))*time.Second)
	open := func() (*testNode, *executor.Queue[string]) {
		cfg := c.config()
		cfg.Executor.Advanced.MemoryBudget = budget
		cfg.Executor.MaxBacklog.Payloads = 2_000_000
		n, err := openNode(t.Context(), c.url, cfg)
		require.NoError(t, err)
		t.Cleanup(n.kill)
		q, err := executor.Handle(n.front, "waits", func(ctx context.Context, _ executor.Job[string]) error { <-ctx.Done(); return ctx.Err() }, executor.QueueConfig[string]{})
		require.NoError(t, err)
		require.NoError(t, n.front.Start(t.Context()))
		return &testNode{Node: n}, q
	}
	n, q := open()
	c.serving(n)
	payload := strings.Repeat("p", 1000)
	for i := 0; i < jobs; i += call {
		items := make([]executor.Item[string], call)
		for j := range items {
			items[j] = executor.Item[string]{ID: fmt.Sprint(i + j), Payload: payload}
		}
		_, err := q.EnqueueMany(t.Context(), items)
		require.NoError(t, err)
	}
	held := func() (bytes, waiting int) {
		for _, x := range n.Partitions() {
			stats, err := x.Stats(t.Context())
			require.NoError(t, err)
			bytes += stats.Journal.HeldBytes
			for _, q := range stats.Queues {
				waiting += q.Payloads
			}
		}
		return bytes, waiting
	}
	all := func() {
		t.Helper()
		require.Eventually(t, func() bool { _, waiting := held(); return waiting == jobs }, 5*time.Minute, 50*time.Millisecond)
		require.Eventually(t, func() bool { bytes, _ := held(); return bytes <= budget }, time.Minute, 50*time.Millisecond)
	}
	all()
	n.kill()
	began := time.Now()
	n, _ = open()
	require.Eventually(t, func() bool { return len(n.Partitions()) == partitions }, 5*time.Minute, 10*time.Millisecond)
	stats, err := n.Stats(t.Context())
	require.NoError(t, err)
	require.Zero(t, stats.Lost)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("%d jobs were opened in %v; the process has %d MiB", jobs, time.Since(began), m.Sys>>20)
	all()
}
