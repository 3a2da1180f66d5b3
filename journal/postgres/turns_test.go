//go:build unix

package postgres

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// While as many partitions commit as may at a time, what comes for another one waits, and goes
// into its log together.
func TestPartitionsTakeTurns(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 3, time.Minute)
	n := c.start(c.url, func(cfg *Config) { cfg.Connections = 5 })
	c.serving(n)
	const together = 20
	ids := make([][]string, c.partitions) // of each partition
	for i := 0; min(len(ids[0]), len(ids[1]), len(ids[2])) < together; i++ {
		number, err := n.PartitionOf(fmt.Sprint(i))
		require.NoError(t, err)
		ids[number] = append(ids[number], fmt.Sprint(i))
	}
	commits := func() uint64 {
		stats, err := n.Partitions()[2].Stats(t.Context())
		require.NoError(t, err)
		return stats.Journal.Commits
	}
	tx, err := connect(t, c.url).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), in(c.schema, "SELECT FROM {schema}.tail WHERE partition < 2 FOR UPDATE"))
	require.NoError(t, err)

	var calls sync.WaitGroup
	enqueue := func(ids ...string) {
		for _, id := range ids {
			calls.Go(func() {
				_, err := n.q.Enqueue(t.Context(), id, 1)
				assert.NoError(t, err)
			})
		}
	}
	enqueue(ids[0][0], ids[1][0])
	require.Eventually(t, func() bool { return len(n.turns) == 2 }, time.Minute, time.Millisecond)
	before := commits()
	enqueue(ids[2][:together]...)
	require.Eventually(t, func() bool { // all of them have called
		stats, err := n.Partitions()[2].Stats(t.Context())
		require.NoError(t, err)
		return stats.Journal.Next == 1+together
	}, time.Minute, time.Millisecond)
	require.Never(t, func() bool { return commits() > before }, 100*time.Millisecond, time.Millisecond)
	require.NoError(t, tx.Rollback(t.Context()))
	calls.Wait()
	require.Less(t, commits(), before+together/2)
	require.Eventually(t, func() bool { return len(n.turns) == 0 }, time.Minute, time.Millisecond)
}
