//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// lines returns those that have a text.
func (b *lockedText) lines(with string) (found []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.b.String()) {
		if strings.Contains(line, with) {
			found = append(found, line)
		}
	}
	return found
}

// What passes by itself is no error in the log: nodes that come and go, connections that break,
// a server that is away, stands still or was replaced, and leases that are lost by it.
func TestWhatPassesIsNoError(t *testing.T) {
	third(t, 1)
	t.Parallel()
	s := pgtest.Start(t)
	proxy := NewProxy(t, s.Addr())
	c := newCluster(t, s.URL(), 12, 900*time.Millisecond) // so that each node has some
	var log lockedText
	told := func(cfg *Config) { cfg.Executor.Logger, cfg.Executor.StopTimeout = log.logger(), time.Second }
	a, b := c.start(c.url, told), c.start(proxy.URL(c.url), told)
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	for i, n := range []*testNode{a, b} {
		for j := range 2 {
			working.Go(func() { // commits are under way all the time
				for k := 1; ctx.Err() == nil; k++ {
					_, _ = n.q.Enqueue(ctx, fmt.Sprint(i, "-", j), k)
					time.Sleep(5 * time.Millisecond)
				}
			})
		}
	}
	lost := func() int { return len(log.lines(`level=WARN msg="partitions are lost"`)) }
	// until waits until something is lost by what f does.
	until := func(f func()) {
		before := lost()
		f()
		require.Eventually(t, func() bool { return lost() > before }, time.Minute, 5*time.Millisecond)
	}
	c.serving(a, b)
	for name, hurt := range map[string]func(){
		"cut": func() {
			for range 20 {
				proxy.Cut()
				time.Sleep(20 * time.Millisecond)
			}
		},
		"silence": func() { until(proxy.Swallow); proxy.Heal() },
		"away":    func() { until(func() { proxy.Refuse(); proxy.Cut() }); proxy.Heal() },
		"taken": func() { // as if it had been paused
			until(func() {
				conn := connect(t, c.url)
				for p := range c.partitions {
					_, err := conn.Exec(t.Context(), in(c.schema, "UPDATE {schema}.lease SET expires = 'epoch' WHERE partition = $1"), p)
					require.NoError(t, err)
					_, err = conn.Exec(t.Context(), in(c.schema, "SELECT {schema}.acquire($1, gen_random_uuid(), 1)"), p)
					require.NoError(t, err)
				}
			})
		},
		"crash":  func() { s.Kill(); s.Restart(t) },
		"frozen": func() { until(s.Freeze); s.Thaw() },
		"joins": func() {
			other := c.start(c.url, told)
			c.serving(a, b, other)
			require.NoError(t, other.front.Stop(t.Context()))
		},
		"dies": func() {
			other := c.start(c.url, told)
			c.serving(a, b, other)
			other.kill()
		},
	} {
		require.Eventually(t, func() bool { return len(a.Partitions()) > 0 && len(b.Partitions()) > 0 }, time.Minute, 5*time.Millisecond)
		hurt()
		c.serving(a, b)
		require.Empty(t, log.lines("level=ERROR"), name)
	}
	cancel()
	working.Wait()
	require.NoError(t, a.front.Stop(t.Context()))
	require.NoError(t, b.front.Stop(t.Context()))
	require.Empty(t, log.lines("level=ERROR"))
	require.NotEmpty(t, log.lines(`level=INFO msg="partitions are taken"`))
	require.NotEmpty(t, log.lines(`level=INFO msg="partitions are given away"`))
}

// What somebody has to put right is an error: a right that is missing, a server that has become
// unsafe, a Setup that fails.
func TestWhatStaysIsAnError(t *testing.T) {
	third(t, 1)
	t.Parallel()
	s := pgtest.Start(t)
	s.Exec(t, "CREATE ROLE app LOGIN SUPERUSER")
	for _, test := range []struct{ says, set, reset string }{
		{"leases can't be renewed", "ALTER ROLE app NOSUPERUSER", "ALTER ROLE app SUPERUSER"},
		{"leases can't be renewed", "ALTER ROLE app SET synchronous_commit = off", "ALTER ROLE app RESET ALL"},
	} {
		c := newCluster(t, s.URL(), 2, 900*time.Millisecond)
		var log lockedText
		n := c.start(strings.Replace(c.url, "postgres@", "app@", 1), func(cfg *Config) { cfg.Executor.Logger = log.logger() })
		c.serving(n)
		s.Exec(t, test.set)
		s.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")
		require.Eventually(t, func() bool { return log.has(`level=ERROR msg="` + test.says + `"`) }, time.Minute, 5*time.Millisecond, test.set)
		s.Exec(t, test.reset)
		c.serving(n)
		require.NoError(t, n.front.Stop(t.Context()))
	}
	c := newCluster(t, s.URL(), 1, time.Second)
	var log lockedText
	c.start(c.url, func(cfg *Config) {
		cfg.Executor.Logger, cfg.Setup = log.logger(), func(*executor.Executor, int) error { return errors.New("mine") }
	})
	require.Eventually(t, func() bool { return log.has(`level=ERROR msg="partitions are not served"`) }, time.Minute, 5*time.Millisecond)
}

// An owner from before takes no row of the inbox apart, which the next one may have taken in
// as it is; and one whose call had no answer takes it apart once.
func TestAnOwnerFromBeforeSplitsNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Second)
	n := c.node(c.url)
	r := rowsOf([]*outCall{{parts: map[place][]byte{{0, "q"}: encodeCall([]item{{ID: "a"}})}}, {parts: map[place][]byte{{0, "q"}: encodeCall([]item{{ID: "b"}})}}})
	_, err := n.pool.Exec(t.Context(), n.texts["put"], r.partitions, r.queues, r.calls, r.tokens, nil)
	require.NoError(t, err)
	var number, epoch int64
	require.NoError(t, n.pool.QueryRow(t.Context(), in(c.schema, "SELECT number FROM {schema}.inbox")).Scan(&number))
	require.NoError(t, n.pool.QueryRow(t.Context(), n.texts["acquire"], 0, n.id, 1).Scan(&epoch))
	var done bool
	split := func(epoch int64) bool {
		require.NoError(t, n.pool.QueryRow(t.Context(), n.texts["split"], 0, epoch, number, [][]byte{{1}, {2}}).Scan(&done))
		return done
	}
	require.False(t, split(epoch-1))
	require.Equal(t, 1, c.rows(n))
	require.True(t, split(epoch))
	require.Equal(t, 2, c.rows(n))
	require.False(t, split(epoch))
	_, err = n.pool.Exec(t.Context(), in(c.schema, "DELETE FROM {schema}.inbox WHERE number > $1"), number) // they were taken in
	require.NoError(t, err)
	require.False(t, split(epoch))
	require.Equal(t, 1, c.rows(n))
}
