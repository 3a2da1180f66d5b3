//go:build unix

package postgres

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// A partition whose row of lease is gone can have no owner: Err, Check and the log say so, Stats
// has it with what waits, and Migrate writes the row again.
func TestAPartitionWithoutALease(t *testing.T) {
	third(t, 2)
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 2, 600*time.Millisecond)
	var log lockedText
	n := c.start(c.url, func(cfg *Config) { cfg.Executor.Logger = log.logger() })
	c.serving(n)
	_, err := n.pool.Exec(t.Context(), in(c.schema, "DELETE FROM {schema}.lease WHERE partition = 1"))
	require.NoError(t, err)
	const missing = "partition 1 has no row in the table lease"
	c.says(n, missing)
	require.ErrorIs(t, n.front.Err(), journal.ErrCorrupt)
	other := c.start(c.url, func(cfg *Config) { cfg.Executor.Logger = log.logger() })
	c.says(other, missing)
	const line = `level=ERROR msg="partitions can't be served"`
	require.Eventually(t, func() bool { return len(log.lines(line)) == 2 }, time.Minute, time.Millisecond)
	require.Never(t, func() bool { return len(log.lines(line)) != 2 }, time.Second, time.Millisecond, "once for each node")
	require.NoError(t, other.front.Stop(t.Context()))
	require.Eventually(t, func() bool { return len(n.Partitions()) == 1 }, time.Minute, time.Millisecond)

	id := "a"
	for p, _ := n.PartitionOf(id); p != 1; p, _ = n.PartitionOf(id) {
		id += "a"
	}
	_, err = n.q.Enqueue(t.Context(), id, 1)
	require.NoError(t, err)
	partitions := cmpStats(t, n.Node).Partitions
	require.Equal(t, n.id.String(), partitions[0].Owner)
	require.Equal(t, PartitionStats{Partition: 1, Inbox: 1}, partitions[1])
	_, err = Check(t.Context(), c.url, c.config())
	require.ErrorIs(t, err, journal.ErrCorrupt)

	require.NoError(t, Migrate(t.Context(), c.url, Config{Schema: c.schema}))
	c.serving(n)
	c.await(map[string]int{id: 1})
	c.well(n)
}

// Check finds what an owner can't open.
func TestCheckReadsTheUUID(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 2, time.Second)
	_, err := Check(t.Context(), c.url, c.config())
	require.NoError(t, err)
	_, err = connect(t, c.url).Exec(t.Context(), in(c.schema, `UPDATE {schema}.tail SET uuid = '\xabababababababababababababababab' WHERE partition = 1`))
	require.NoError(t, err)
	_, err = Check(t.Context(), c.url, c.config())
	require.ErrorIs(t, err, journal.ErrCorrupt)
}

// A Setup that does not return is told.
func TestASetupThatBlocks(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 2, leastLease)
	over := make(chan struct{})
	n := c.start(c.url, func(cfg *Config) {
		cfg.Setup = func(_ *executor.Executor, partition int) error {
			if partition == 1 {
				<-over
			}
			return nil
		}
	})
	end := sync.OnceFunc(func() { close(over) })
	t.Cleanup(end)
	c.says(n, "partition 1: not served since ", ": Setup has not returned")
	end()
	c.serving(n)
	c.well(n)
}

// A node that joins is heard of, however long a lease is.
func TestANodeThatJoinsIsHeardOf(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 6, time.Hour)
	a := c.start(c.url)
	c.serving(a)
	b, d := c.start(c.url), c.start(c.url)
	require.Eventually(t, func() bool {
		return len(a.Partitions()) == 2 && len(b.Partitions()) == 2 && len(d.Partitions()) == 2
	}, time.Minute, time.Millisecond)
}

// A server that names no standby any longer is told of.
func TestNoStandbyIsNamed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Second)
	var log lockedText
	n := c.node(c.url, func(cfg *Config) { cfg.Executor.Logger = log.logger() })
	n.tellOfStandby(t.Context())
	n.lines.flush()
	require.False(t, log.has("synchronous_standby_names"))
	n.cfg.SingleServer = false
	n.tellOfStandby(t.Context())
	n.lines.flush()
	require.True(t, log.has(`level=WARN msg="synchronous_standby_names is empty`))

	var jit string
	require.NoError(t, n.pool.QueryRow(t.Context(), "SHOW jit").Scan(&jit))
	require.Equal(t, "off", jit)
}
