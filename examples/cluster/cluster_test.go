//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres"
)

// TestMain is what nodes are, too: the program starts itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-node" {
		main()
		return
	}
	os.Exit(m.Run())
}

// newConfig is as the flags have it.
func newConfig() config {
	return config{nodes: 3, partitions: 16, callers: 8, lease: time.Second, length: 15 * time.Second}
}

// Whatever is done to nodes, server and connections: what was accepted runs, and in order, and who has lost a partition
// commits nothing to it.
func TestChaos(t *testing.T) {
	if os.Getenv("STRAND_LONG") != "1" {
		cfg := newConfig()
		cfg.kill, cfg.stop, cfg.end = 4*time.Second, 3*time.Second, 5*time.Second
		cfg.server, cfg.cuts, cfg.hold = 6*time.Second, 3*time.Second, 5*time.Second
		cfg.promote, cfg.deploy, cfg.other = 8*time.Second, true, os.Args[0]
		chaos(t, 1, cfg)
		return
	}
	// Clusters side by side, and how often each does what. Where takeovers are measured, nothing else is done within
	// the time that they may take.
	const second = time.Second
	for _, tier := range []struct {
		name            string
		clusters, times int
		change          func(*config)
	}{
		{"kill", 4, 50, func(c *config) { c.kill, c.lease = 7*second, 3*second }},
		{"stop", 4, 50, func(c *config) { c.stop = 1500 * time.Millisecond }},
		{"end", 2, 50, func(c *config) { c.end, c.lease, c.callers = 4*second, 3*second, 12 }},
		{"server", 2, 25, func(c *config) { c.server = 4 * second }},
		{"cut", 2, 100, func(c *config) { c.cuts = second }},
		{"hold", 4, 25, func(c *config) { c.hold = 1500 * time.Millisecond }},
		{"promote", 1, 20, func(c *config) { c.promote, c.deploy = 5*second, true }},
		{"deploy", 2, 50, func(c *config) { c.end, c.lease, c.deploy, c.other = 2*second, 3*second, true, os.Args[0] }},
		{"one partition", 1, 40, func(c *config) {
			c.partitions, c.nodes, c.lease, c.callers = 1, 5, 500*time.Millisecond, 24
			c.kill, c.stop, c.end, c.cuts, c.hold = 2*second, 2*second, 3*second, 2*second, 3*second
		}},
		{"all", 1, 0, func(c *config) {
			c.length, c.callers = 3*time.Minute, 16
			c.kill, c.stop, c.end, c.server, c.cuts, c.hold = 10*second, 8*second, 12*second, 25*second, 5*second, 9*second
			c.promote, c.deploy, c.other = 30*second, true, os.Args[0]
		}},
	} {
		t.Run(tier.name, func(t *testing.T) {
			cfg := newConfig()
			cfg.callers, cfg.times = 4, tier.times
			tier.change(&cfg)
			chaos(t, tier.clusters, cfg)
		})
	}
}

// chaos runs so many clusters, and judges them together.
func chaos(t *testing.T, clusters int, cfg config) {
	var all sync.WaitGroup
	var mu sync.Mutex
	missing, events, takeovers := false, make(map[string]int), make(map[string][]time.Duration)
	for range clusters {
		all.Go(func() {
			var out bytes.Buffer
			f, err := run(t.Context(), cfg, &out)
			mu.Lock()
			defer mu.Unlock()
			t.Logf("%s", out.String()[strings.LastIndex(out.String(), "  accepted ")+1:])
			if missing = errors.Is(err, errMissing); missing {
				return
			}
			assert.NoError(t, err, "%s", &out)
			assert.Positive(t, f.accepted)
			assert.Positive(t, f.rolledBack)
			assert.Equal(t, cfg.deploy, f.most > 0, "jobs of extra have run")
			for kind, count := range f.events {
				events[kind] += count
				takeovers[kind] = append(takeovers[kind], f.takeovers[kind]...)
			}
		})
	}
	all.Wait()
	if missing {
		t.Skip(errMissing)
	}
	assert.NotEmpty(t, events)
	for kind, list := range takeovers {
		slices.Sort(list)
		t.Logf("%d × %s%s", events[kind], kind, quantiles(list))
		assert.GreaterOrEqual(t, events[kind], clusters*cfg.times, kind)
		most := map[string]time.Duration{"kill -9": cfg.lease + slack, "end": time.Second}[kind]
		if most > 0 && len(events) == 1 { // else it is how long the server is away, say, that is measured
			assert.Greater(t, len(list), 200)
			assert.LessOrEqual(t, quantile(list, 99), most, kind)
		}
	}
}

// What is out of order, lost, done twice or late is counted.
func TestWhatIsWrongIsCounted(t *testing.T) {
	cfg := newConfig()
	cfg.nodes, cfg.callers = 0, 1
	c, err := newCluster(t.Context(), cfg, t.Output())
	if errors.Is(err, errMissing) {
		t.Skip(err)
	}
	defer c.close()
	require.NoError(t, err)
	x, err := executor.Open("", executor.Config{})
	require.NoError(t, err)
	counting := &counting{db: c.db, node: "a", partitionOf: postgres.NodeOf(c.jobs).PartitionOf}
	numbers, err := executor.Handle(x, "numbers", counting.run, numbersConfig)
	require.NoError(t, err)
	require.NoError(t, x.Start(t.Context()))
	defer func() { _ = x.Stop(t.Context()) }()
	runs := func(number int) {
		receipt, err := numbers.Enqueue(t.Context(), c.callers[0].ids[0], number)
		require.NoError(t, err)
		require.NoError(t, numbers.Wait(t.Context(), receipt))
	}
	look := func() figures {
		f, err := c.look(t.Context())
		require.NoError(t, err)
		return f
	}

	runs(1)
	runs(2)
	c.callers[0].accepted[0].Store(2)
	f := look()
	require.Equal(t, figures{accepted: 2, done: 2}, f)
	for range 20 {
		require.NoError(t, c.transact(t.Context(), "none", 1))
	}
	require.Equal(t, int64(20), look().rolledBack)
	require.NoError(t, c.lookBack(t.Context(), &f))
	require.Equal(t, int64(20), f.lost, "committed, and no node runs them")
	runs(2)
	require.NoError(t, c.lookBack(t.Context(), &f))
	require.Equal(t, int64(1), f.twice)
	receipt, err := numbers.Enqueue(t.Context(), "of an earlier run", 5)
	require.NoError(t, err)
	require.NoError(t, numbers.Wait(t.Context(), receipt))
	require.Equal(t, int64(0), look().gaps)
	runs(-3)
	require.Equal(t, int64(1), look().ghosts)
	runs(4)
	f = look()
	require.Equal(t, int64(1), f.gaps)
	c.callers[0].accepted[0].Store(6)
	f = look()
	require.Equal(t, int64(2), f.lost)

	// An owner that commits once more when another has taken the partition, a commit that comes too late, and one that
	// ran again although its owner had gone on.
	as := func(name, sql string) {
		conn, err := pgx.Connect(t.Context(), c.cfg.url)
		require.NoError(t, err)
		defer func() { _ = conn.Close(t.Context()) }()
		_, err = conn.Exec(t.Context(), "SET application_name = '"+name+"'; "+sql)
		require.NoError(t, err)
	}
	commit := "SELECT strand.commit(3, %d, (SELECT number FROM strand.tail WHERE partition = 3), " +
		"NULL, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
	as("a", "UPDATE strand.tail SET epoch = 1 WHERE partition = 3; "+fmt.Sprintf(commit, 1))
	require.Equal(t, int64(0), look().stale+look().refused)
	as("b", "UPDATE strand.tail SET epoch = 2 WHERE partition = 3; "+fmt.Sprintf(commit, 2))
	as("a", fmt.Sprintf(commit, 1))
	require.Equal(t, int64(1), look().refused)
	require.Equal(t, int64(0), look().stale)
	as("a", fmt.Sprintf(commit, 2)) // as if there were no fence
	f = look()
	require.Equal(t, int64(1), f.stale)
	require.Equal(t, int64(3), f.commits)
	require.NoError(t, c.lookBack(t.Context(), &f))
	require.Equal(t, int64(0), f.settled)
	as("b", `UPDATE cluster.owner SET node = 'b', at = at - interval '1 hour',
			committed = committed - interval '10 minutes';
		INSERT INTO cluster.run (id, number, node, partition, position, attempt, at)
			SELECT 'x', 1, 'b', 3, 9, n, clock_timestamp() - interval '20 minutes' / n FROM generate_series(1, 2) n`)
	require.NoError(t, c.lookBack(t.Context(), &f))
	require.Equal(t, int64(0), f.settled, "it had failed")
	as("b", "UPDATE cluster.run SET attempt = 1")
	require.NoError(t, c.lookBack(t.Context(), &f))
	require.Equal(t, int64(1), f.settled)

	// Two run at a time, and then two others that begin when these end; a third one is too many.
	as("b", `INSERT INTO cluster.span SELECT at, at + interval '1 minute'
		FROM generate_series(now(), now() + interval '1 minute', '1 minute') at, generate_series(1, 2)`)
	require.NoError(t, c.lookBack(t.Context(), &f))
	require.Equal(t, []int64{0, concurrent}, []int64{f.over, f.most})
	as("b", "INSERT INTO cluster.span SELECT began + interval '1 second', ended FROM cluster.span LIMIT 1")
	require.NoError(t, c.lookBack(t.Context(), &f))
	require.Equal(t, []int64{1, concurrent + 1}, []int64{f.over, f.most})

	// Of partition 3 it is known when the next owner came, and ran something; of 4 nothing.
	at := time.Now().Truncate(time.Second)
	_, err = c.db.Exec(t.Context(), `UPDATE cluster.owner SET node = CASE epoch WHEN 1 THEN 'a' ELSE 'b' END,
		at = $1::timestamptz + (epoch - 1.5) * interval '1 minute'`, at)
	require.NoError(t, err)
	_, err = c.db.Exec(t.Context(), `UPDATE cluster.run SET at = $1::timestamptz + interval '31 seconds'
		WHERE partition = 3`, at)
	require.NoError(t, err)
	c.note(event{kind: "kill -9", node: "a", partitions: []int{3, 4}, at: at})
	c.note(event{kind: "end", node: "b", partitions: []int{3}, at: at.Add(time.Second)}) // it did not own it then
	require.NoError(t, c.lookBack(t.Context(), &f))
	require.Empty(t, f.takeovers)
	require.Equal(t, 1, f.omitted)
	c.events[1].at = at.Add(10 * time.Second)
	require.NoError(t, c.lookBack(t.Context(), &f))
	require.Equal(t, map[string][]time.Duration{"kill -9": {31 * time.Second}}, f.takeovers)

	// Something was done to a, and later to all, but nothing to b, whose handlers are cancelled before that.
	c.events, c.cancelled = nil, nil
	c.note(event{node: "a", at: time.Now()})
	for _, node := range []string{"a", "b", "b"} {
		c.cancel(node)
	}
	c.note(event{at: time.Now()})
	c.cancel("c")
	require.Equal(t, 2, c.untouched())
	c.note(event{at: c.cancelled[1].at})()
	require.Zero(t, c.untouched())

	_, err = c.db.Exec(t.Context(), "UPDATE cluster.count SET token = 9223372036854775807")
	require.NoError(t, err)
	_, err = numbers.Enqueue(t.Context(), c.callers[0].ids[0], 5)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return look().late > 0 }, time.Minute, 10*time.Millisecond)
	require.Equal(t, int64(2), look().lost, "it was refused")
}

// Where nothing can be said, that is said, and the program's status is another.
func TestThereMayBeNoVerdict(t *testing.T) {
	cfg := newConfig()
	cfg.url = "postgres://postgres@127.0.0.1:1/postgres?sslmode=disable"
	_, err := run(t.Context(), cfg, t.Output())
	require.ErrorIs(t, err, errNoVerdict)
	require.ErrorContains(t, err, "refused")

	cfg.url, cfg.nodes, cfg.callers, cfg.length = "", 0, 0, time.Second
	if _, err = run(t.Context(), cfg, t.Output()); errors.Is(err, errMissing) {
		t.Skip(err)
	}
	require.ErrorIs(t, err, errNoVerdict)
	require.ErrorContains(t, err, "no node has accepted anything")
}
