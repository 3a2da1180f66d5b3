//go:build unix

package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// ticking is what the schedule of all partitions of a cluster does.
type ticking struct {
	t *testing.T

	mu    sync.Mutex
	ran   map[time.Time]string // which payload of the journals it was
	twice []string
	crons []*cron.Cron // of all owners that there were
}

// setup adds the schedule, as ExampleConfig_schedule does.
func (k *ticking) setup(x *executor.Executor, partition int) error {
	q, err := executor.Handle(x, "ticks", func(_ context.Context, job executor.Job[time.Time]) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		entry := fmt.Sprint(partition, " ", job.Position)
		if first, again := k.ran[job.Payload]; again && first != entry { // the same one may run again
			k.twice = append(k.twice, fmt.Sprintf("%v: %s and %s", job.Payload, first, entry))
		}
		k.ran[job.Payload] = entry
		return nil
	}, executor.QueueConfig[time.Time]{})
	if err != nil {
		return err
	}
	c, err := cron.New(x, cron.Config{})
	if err != nil {
		return err
	}
	if err := cron.Add(context.Background(), c, cron.Schedule[time.Time]{
		Name: "tick", Spec: "@every 1s", Queue: q, Missed: cron.MissedAll,
		Payload: func(tick time.Time) time.Time { return tick.UTC() },
	}); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.crons = append(k.crons, c)
	return c.Start()
}

// await waits until all ticks have run that are due within so many seconds after begin.
func (k *ticking) await(begin time.Time, seconds int) {
	k.t.Helper()
	var missing []string
	require.Eventually(k.t, func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		missing = missing[:0]
		for i := range seconds {
			at := begin.UTC().Truncate(time.Second).Add(time.Duration(i+1) * time.Second)
			if k.ran[at] == "" {
				missing = append(missing, at.String())
			}
		}
		return len(missing) == 0
	}, time.Minute, 10*time.Millisecond, "%v", &missing)
}

// divided checks that each tick has run once, in the partition of its id, and in several of them.
func (k *ticking) divided(n *testNode) {
	k.t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	require.Empty(k.t, k.twice)
	partitions := make(map[string]bool)
	for at, entry := range k.ran {
		owner, err := n.PartitionOf("tick@" + at.Format(time.RFC3339))
		require.NoError(k.t, err)
		require.Regexp(k.t, fmt.Sprintf("^%d ", owner), entry)
		partitions[entry[:1]] = true
	}
	require.Greater(k.t, len(partitions), 1)
	require.GreaterOrEqual(k.t, len(k.crons), 4+2+4)
}

// A schedule that Setup adds in each partition enqueues each tick once, in the partition that
// its id belongs to, while nodes come, are stopped and die; and the Crons of those that are
// gone end, though nobody stops them.
func TestScheduleOfAllPartitions(t *testing.T) {
	third(t, 1)
	t.Parallel()
	s := pgtest.Shared(t)
	c := newCluster(t, s.URL(), 4, 500*time.Millisecond)
	k := &ticking{t: t, ran: make(map[time.Time]string)}
	setup := func(cfg *Config) { cfg.Setup = k.setup }
	proxies := []*Proxy{NewProxy(t, s.Addr()), NewProxy(t, s.Addr())}
	nodes := []*testNode{c.start(proxies[0].URL(c.url), setup), c.start(proxies[1].URL(c.url), setup)}
	c.serving(nodes...)
	begin := time.Now()
	k.await(begin, 2)
	if len(nodes[0].Partitions()) < len(nodes[1].Partitions()) {
		slices.Reverse(nodes)
		slices.Reverse(proxies)
	}
	require.NoError(t, nodes[0].front.Stop(t.Context())) // that of the more partitions
	k.await(begin, 3)
	c.serving(nodes[1])
	proxies[1].Refuse() // and the other one, which has all of them now, dies
	proxies[1].Cut()
	time.Sleep(1500 * time.Millisecond) // ticks are due while nobody has a partition
	stays := c.start(c.url, setup)
	nodes[1].kill()
	c.serving(stays)
	seconds := int(time.Since(begin)/time.Second) + 2
	k.await(begin, seconds)

	k.divided(stays)
	var leading []*cron.Cron
	require.Eventually(t, func() bool { // those that the last node has opened last
		k.mu.Lock()
		defer k.mu.Unlock()
		leading = slices.DeleteFunc(slices.Clone(k.crons), func(c *cron.Cron) bool { return !c.Leads() })
		return len(leading) == 4
	}, time.Minute, 5*time.Millisecond)
	for _, c := range leading {
		require.NoError(t, c.List()[0].Err)
		require.True(t, c.List()[0].Lost.IsZero())
	}
}
