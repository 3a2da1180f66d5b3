//go:build unix

package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
)

// nodes are a schema with nodes on it, which all have the queue "q". What its handlers get is
// checked as it comes: the payloads of an id are 1, 2, 3, …
type nodes struct {
	t          testing.TB
	url        string
	schema     string
	partitions int
	lease      time.Duration

	mu        sync.Mutex
	ran       map[string][]int
	positions map[string]uint64 // of the payloads
	wrong     []string
	repeats   int
	more      chan struct{} // closed when something has run
}

type testNode struct {
	*Node
	q *executor.Queue[int]
}

func newCluster(t testing.TB, url string, partitions int, lease time.Duration) *nodes {
	c := &nodes{t: t, url: url, partitions: partitions, lease: lease, ran: make(map[string][]int), positions: make(map[string]uint64), more: make(chan struct{})}
	c.schema = fmt.Sprintf("Cluster %d", schemas.Add(1))
	require.NoError(t, Migrate(t.Context(), url, Config{Schema: c.schema, Partitions: partitions}))
	return c
}

func (c *nodes) config() Config {
	return Config{Schema: c.schema, Lease: c.lease, SingleServer: true,
		Executor: executor.Config{Workers: 2, Logger: slog.New(slog.DiscardHandler)}}
}

// node opens a node with the queue; through says by which url.
func (c *nodes) node(through string, change ...func(*Config)) *testNode {
	c.t.Helper()
	cfg := c.config()
	for _, f := range change {
		f(&cfg)
	}
	n, err := openNode(c.t.Context(), through, cfg)
	require.NoError(c.t, err)
	q, err := executor.Handle(n.front, "q", func(_ context.Context, job executor.Job[int]) error {
		c.note(job.ID, job.Payload, job.Position)
		return nil
	}, executor.QueueConfig[int]{})
	require.NoError(c.t, err)
	c.t.Cleanup(func() { n.kill() })
	return &testNode{n, q}
}

// start opens a node and starts it.
func (c *nodes) start(through string, change ...func(*Config)) *testNode {
	c.t.Helper()
	n := c.node(through, change...)
	require.NoError(c.t, n.front.Start(context.Background()))
	return n
}

// says waits until Err has these texts: that leases can't be renewed in time, on a machine that is
// busy, it may say, too.
func (c *nodes) says(n *testNode, texts ...string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		err := n.front.Err()
		return err != nil && !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(err.Error(), text) })
	}, time.Minute, time.Millisecond, "%q", texts)
}

// well waits until Err has nothing to say.
func (c *nodes) well(n *testNode) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return n.front.Err() == nil }, time.Minute, time.Millisecond)
}

// kill ends a node without an order, if Stop has not: what it holds is not released.
func (n *Node) kill() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = n.front.Stop(ended)
}

// note checks that an id's payloads come in order: some may come again, where they have not
// been settled, but none is left out, and none comes before its time.
func (c *nodes) note(id string, payload int, position uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := fmt.Sprint(id, " ", payload)
	if at, again := c.positions[name]; again && at != position {
		c.wrong = append(c.wrong, fmt.Sprintf("%s was taken in twice: at %d and %d", name, at, position))
	}
	c.positions[name] = position
	ran := c.ran[id]
	if len(ran) > 0 && payload > ran[len(ran)-1]+1 || len(ran) == 0 && payload != 1 {
		c.wrong = append(c.wrong, fmt.Sprintf("%s: %d after %v", id, payload, ran[max(0, len(ran)-5):]))
	}
	if len(ran) > 0 && payload <= ran[len(ran)-1] {
		c.repeats++
	}
	c.ran[id] = append(ran, payload)
	close(c.more)
	c.more = make(chan struct{})
}

// await waits until each id has had all payloads up to its number, and nothing was wrong.
func (c *nodes) await(want map[string]int) {
	c.t.Helper()
	deadline := time.After(3 * time.Minute) // on a busy machine
	for {
		c.mu.Lock()
		missing := ""
		for id, n := range want {
			if ran := c.ran[id]; len(ran) == 0 && n > 0 || n > 0 && ran[len(ran)-1] < n {
				missing = fmt.Sprintf("%s: %v of %d", id, ran[max(0, len(ran)-3):], n)
			}
		}
		wrong, more := c.wrong[:min(len(c.wrong), 5)], c.more
		c.mu.Unlock()
		require.Empty(c.t, wrong)
		if missing == "" {
			return
		}
		select {
		case <-more:
		case <-deadline:
			c.t.Fatalf("did not run: %s", missing)
		}
	}
}

// serving waits until each partition is served by one of the nodes.
func (c *nodes) serving(nodes ...*testNode) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		count := 0
		for _, n := range nodes {
			count += len(n.Partitions())
		}
		return count == c.partitions
	}, time.Minute, 5*time.Millisecond)
}

// settled returns what rows are once what has run is settled, and what that leaves is cleared: for a
// second nothing has changed.
func settled(t *testing.T, rows func() string) (now string) {
	t.Helper()
	same := 0
	require.Eventually(t, func() bool {
		last := now
		if now = rows(); now != last {
			same = 0
		}
		same++
		return same > 10
	}, time.Minute, 100*time.Millisecond)
	return now
}

// rows counts rows of the inbox.
func (c *nodes) rows(n *testNode) (count int) {
	c.t.Helper()
	require.NoError(c.t, n.pool.QueryRow(c.t.Context(), in(c.schema, "SELECT count(*) FROM {schema}.inbox")).Scan(&count))
	return count
}

// requireAsked waits until a node has put so many questions into the inbox, and waits for their answers.
func requireAsked(t testing.TB, n *Node, questions int) {
	t.Helper()
	require.Eventually(t, func() bool {
		n.asking.mu.Lock()
		defer n.asking.mu.Unlock()
		return len(n.asking.waiting) == questions
	}, time.Minute, time.Millisecond)
}
