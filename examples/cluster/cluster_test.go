//go:build unix

package main

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
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

// Whatever is done to nodes, server and connections: what was accepted runs, and in order.
func TestChaos(t *testing.T) {
	if os.Getenv("STRAND_LONG") != "1" {
		cfg := newConfig()
		cfg.kill, cfg.stop, cfg.end = 4*time.Second, 3*time.Second, 5*time.Second
		cfg.server, cfg.cuts = 6*time.Second, 3*time.Second
		chaos(t, cfg)
		return
	}
	for name, change := range map[string]func(*config){
		"kill -9": func(c *config) { c.length, c.kill, c.lease = 11*time.Minute, 3*time.Second, 3*time.Second },
		"stop":    func(c *config) { c.length, c.stop = 11*time.Minute, 1500*time.Millisecond },
		"end":     func(c *config) { c.length, c.end = 2*time.Minute, 3*time.Second },
		"server":  func(c *config) { c.length, c.server = 7*time.Minute, 4*time.Second },
		"cut":     func(c *config) { c.length, c.cuts = 4*time.Minute, time.Second },
		"one partition": func(c *config) {
			c.length, c.partitions, c.nodes, c.lease, c.callers = 2*time.Minute, 1, 5, 500*time.Millisecond, 24
			c.kill, c.stop, c.end, c.cuts = 2*time.Second, 2*time.Second, 3*time.Second, 2*time.Second
		},
		"all": func(c *config) {
			c.length, c.kill, c.stop, c.end = 5*time.Minute, 6*time.Second, 4*time.Second, 8*time.Second
			c.server, c.cuts = 15*time.Second, 3*time.Second
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := newConfig()
			change(&cfg)
			chaos(t, cfg)
		})
	}
}

func chaos(t *testing.T, cfg config) {
	f, err := run(t.Context(), cfg, t.Output())
	if errors.Is(err, errMissing) {
		t.Skip(err)
	}
	require.NoError(t, err)
	assert.Positive(t, f.accepted)
	assert.NotEmpty(t, f.events)
	for kind, most := range map[string]time.Duration{"kill -9": cfg.lease + 2*time.Second, "end": time.Second} {
		// With few it is the machine that is measured, and with a server that is away how long it is.
		if taken := f.takeovers[kind]; len(taken) > 100 && len(f.events) == 1 {
			assert.LessOrEqual(t, quantile(taken, 99), most, kind)
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
	counting := &counting{db: c.db, node: "a", partitionOf: c.node.PartitionOf}
	numbers, err := executor.Handle(x, "numbers", counting.run, numbersConfig)
	require.NoError(t, err)
	require.NoError(t, x.Start(t.Context()))
	defer func() { _ = x.Stop(t.Context()) }()
	runs := func(number int) {
		receipt, err := numbers.Enqueue(t.Context(), "1-0", number)
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
	runs(2)
	require.Equal(t, int64(1), look().twice)
	runs(-3)
	require.Equal(t, int64(1), look().ghosts)
	runs(4)
	f = look()
	require.Equal(t, int64(1), f.gaps)
	c.callers[0].accepted[0].Store(6)
	f = look()
	require.Equal(t, int64(2), f.lost)

	_, err = c.db.Exec(t.Context(), "UPDATE cluster.count SET token = 9223372036854775807")
	require.NoError(t, err)
	_, err = numbers.Enqueue(t.Context(), "1-0", 5)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return look().late > 0 }, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, int64(2), look().lost, "it was refused")
}
