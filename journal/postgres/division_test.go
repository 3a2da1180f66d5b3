//go:build unix

package postgres

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// tenantOf is what stands before the first separator.
func tenantOf(separator string) func(string) string {
	return func(id string) string { tenant, _, _ := strings.Cut(id, separator); return tenant }
}

// Whoever has ids in other partitions than the first to open the schema is refused, a process
// that only enqueues as well, with an id for which they differ, and who was first.
func TestPartitionFunctionsDiffer(t *testing.T) {
	third(t, 1)
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 16, time.Second)
	as := func(f func(string) string) func(*Config) { return func(cfg *Config) { cfg.Partition = f } }
	first := c.start(c.url, as(tenantOf("/")), func(cfg *Config) { cfg.Name = "the first" })
	c.serving(first)
	for name, f := range map[string]func(string) string{
		"none":      nil,
		"separator": tenantOf(":"),
		"last":      func(id string) string { return id[strings.LastIndex(id, "/")+1:] },
		"two parts": func(id string) string {
			return strings.Join(strings.SplitN(id, "/", 3)[:min(2, strings.Count(id, "/")+1)], "/")
		},
		"with it":     func(id string) string { return id[:strings.Index(id, "/")+1] },
		"lower case":  func(id string) string { return strings.ToLower(tenantOf("/")(id)) },
		"trimmed":     func(id string) string { return strings.TrimSpace(tenantOf("/")(id)) },
		"one":         func(string) string { return "" },
		"empty":       func(id string) string { return strings.TrimPrefix(tenantOf("/")(id), "tenant") },
		"its first 8": func(id string) string { return tenantOf("/")(id)[:min(len(id), 8)] },
		"panics":      func(id string) string { return strings.SplitN(id, "/", 2)[:2][0] },
		"Goexit": func(id string) string {
			if id == "" {
				runtime.Goexit()
			}
			return tenantOf("/")(id)
		},
	} {
		cfg := c.config()
		cfg.Partition = f
		_, err := Open(t.Context(), c.url, cfg)
		require.ErrorIs(t, err, ErrPartitions, name)
		require.ErrorContains(t, err, `was opened first by node "the first", whose Config.Partition has id "`, name)
		require.ErrorContains(t, err, "in partition ", name)
		if name == "panics" || name == "Goexit" {
			require.ErrorContains(t, err, "and that of this program in none (it panics)", name)
		}
	}
	same := c.start(c.url, as(func(id string) string { return strings.SplitN(id, "/", 2)[0] }))
	c.serving(first, same)

	// It is so when nobody is there any longer, too: what they had is.
	require.NoError(t, first.front.Stop(t.Context()))
	require.NoError(t, same.front.Stop(t.Context()))
	_, err := Open(t.Context(), c.url, c.config())
	require.ErrorIs(t, err, ErrPartitions)
	c.serving(c.start(c.url, as(tenantOf("/"))))
}

// Of programs that are the first together one counts, and the others are compared with it.
func TestFirstOpenCounts(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t).URL()
	for range times(3, 30) {
		c := newCluster(t, url, 16, time.Second)
		var nodes, refused [2]atomic.Int32
		ended := make(chan error)
		for i := range 8 {
			go func() {
				cfg := c.config()
				cfg.Partition = []func(string) string{nil, tenantOf("/")}[i%2]
				n, err := openNode(t.Context(), url, cfg)
				if err == nil {
					nodes[i%2].Add(1)
					n.kill()
				} else {
					refused[i%2].Add(1)
				}
				ended <- err
			}()
		}
		for range 8 {
			if err := <-ended; err != nil {
				require.ErrorIs(t, err, ErrPartitions)
			}
		}
		won := 0
		if nodes[1].Load() > 0 {
			won = 1
		}
		require.EqualValues(t, 4, nodes[won].Load())
		require.EqualValues(t, 4, refused[1-won].Load())
	}
}

// A function that answers differently from time to time is refused, and one that does not
// answer keeps Open no longer than its context.
func TestPartitionFunctionsThatAreNone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 16, time.Second)
	cfg := c.config()
	var calls atomic.Int64
	cfg.Partition = func(string) string { return string(rune(calls.Add(1))) }
	_, err := Open(t.Context(), c.url, cfg)
	require.ErrorIs(t, err, executor.ErrConfig)
	require.ErrorContains(t, err, "has to return the same each time")

	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	never := make(chan struct{})
	defer close(never)
	cfg.Partition = func(string) string { <-never; return "" }
	_, err = Open(ctx, c.url, cfg)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	c.start(c.url) // neither has divided the schema
}

// A program that knows more probes, or fewer, compares those that both have.
func TestDivisionsOfOtherVersions(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 2, time.Second)
	n := c.node(c.url)
	for _, sql := range []string{"division || 1", "division[1:20]"} {
		_, err := n.pool.Exec(t.Context(), in(c.schema, "UPDATE {schema}.version SET division = "+sql))
		require.NoError(t, err)
		other := c.start(c.url)
		c.serving(other)
		c.well(other)
		require.NoError(t, other.front.Stop(t.Context()))
		cfg := c.config()
		cfg.Partition = tenantOf("/")
		_, err = Open(t.Context(), c.url, cfg)
		require.ErrorIs(t, err, ErrPartitions)
	}
}

// A node whose schema is dropped and made anew under it serves nothing of the new one, and
// says why.
func TestSchemaMadeAnew(t *testing.T) {
	third(t, 1)
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 2, 600*time.Millisecond)
	n := c.start(c.url)
	c.serving(n)
	conn := connect(t, c.url)
	_, err := conn.Exec(t.Context(), in(c.schema, "DROP SCHEMA {schema} CASCADE"))
	require.NoError(t, err)
	require.NoError(t, Migrate(t.Context(), c.url, Config{Schema: c.schema, Partitions: 4}))
	require.Eventually(t, func() bool { return len(n.Partitions()) == 0 && errors.Is(n.front.Err(), ErrPartitions) }, time.Minute, 5*time.Millisecond)
	require.ErrorContains(t, n.front.Err(), "the schema was made anew")

	c.partitions = 4
	other := c.start(c.url)
	c.serving(other)
	require.Empty(t, n.Partitions())
	s, err := other.Stats(t.Context())
	require.NoError(t, err)
	require.Len(t, s.Nodes, 1, "who serves nothing is no candidate")

	// So it is when somebody changes what ids are divided by, until he takes that back.
	change := func(sql string) {
		_, err := conn.Exec(t.Context(), in(c.schema, "UPDATE {schema}.version SET "+sql))
		require.NoError(t, err)
	}
	change("division[1] = division[1] + 1")
	require.Eventually(t, func() bool { return len(other.Partitions()) == 0 && errors.Is(other.front.Err(), ErrPartitions) }, time.Minute, 5*time.Millisecond)
	change("division[1] = division[1] - 1")
	c.serving(other)
	change("version = version + 1") // so it is when a newer program migrates it
	require.Eventually(t, func() bool { return len(other.Partitions()) == 0 && errors.Is(other.front.Err(), ErrPartitions) }, time.Minute, 5*time.Millisecond)
	_, err = Open(t.Context(), c.url, c.config())
	require.ErrorIs(t, err, journal.ErrTooNew)
	require.ErrorContains(t, err, "upgrade to read it")
	change("version = version - 2")
	_, err = Open(t.Context(), c.url, c.config())
	require.ErrorIs(t, err, ErrNoSchema)
	require.ErrorContains(t, err, "run Migrate")
	change("version = version + 1")
	c.serving(other)
}

// Import divides a schema as Open does.
func TestImportDivides(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t).URL()
	dir := t.TempDir()
	x, err := executor.Open(dir, executor.Config{})
	require.NoError(t, err)
	require.NoError(t, x.Stop(t.Context()))
	c := newCluster(t, url, 4, time.Second)
	cfg := c.config()
	cfg.Partition = tenantOf("/")
	_, err = Import(t.Context(), url, cfg, dir)
	require.NoError(t, err)
	_, err = Open(t.Context(), url, c.config())
	require.ErrorIs(t, err, ErrPartitions)
	c.start(url, func(cfg *Config) { cfg.Partition = tenantOf("/") })

	other := newCluster(t, url, 4, time.Second)
	n := other.node(url)
	require.NoError(t, n.front.Stop(t.Context()))
	cfg = other.config()
	cfg.Partition = tenantOf("/")
	_, err = Import(t.Context(), url, cfg, dir)
	require.ErrorIs(t, err, ErrPartitions)
	_, err = Import(t.Context(), url, other.config(), dir)
	require.NoError(t, err)
}

// A program that only enqueues is refused, whichever way it writes, once another schema has the name of
// the one that it has opened, or a newer program has migrated that: rows would be in wrong partitions.
func TestCallersOfASchemaMadeAnew(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 2, time.Second)
	conn := connect(t, c.url)
	db, err := sql.Open("pgx", c.url)
	require.NoError(t, err)
	defer db.Close()
	change := func(text string) {
		_, err := conn.Exec(t.Context(), in(c.schema, text))
		require.NoError(t, err)
	}
	for changed, f := range map[string]func(){
		"has 4 partitions": func() {
			change("DROP SCHEMA {schema} CASCADE")
			require.NoError(t, Migrate(t.Context(), c.url, Config{Schema: c.schema, Partitions: 4}))
		},
		"was made at": func() {
			change("DROP SCHEMA {schema} CASCADE")
			require.NoError(t, Migrate(t.Context(), c.url, Config{Schema: c.schema, Partitions: 2}))
			c.node(c.url) // which has divided it alike
		},
		"version 3": func() { change("UPDATE {schema}.version SET version = 3") },
	} {
		change("DROP SCHEMA {schema} CASCADE")
		require.NoError(t, Migrate(t.Context(), c.url, Config{Schema: c.schema, Partitions: 2}))
		n := c.node(c.url)
		ways := []func() error{
			func() error { _, err := n.q.Enqueue(t.Context(), "a", 1); return err },
			func() error {
				return pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error { return EnqueueTx(t.Context(), tx, n.q, "a", 1) })
			},
			func() error {
				tx, err := db.BeginTx(t.Context(), nil)
				require.NoError(t, err)
				defer func() { _ = tx.Rollback() }()
				if err := EnqueueSQL(t.Context(), tx, n.q, "a", 1); err != nil {
					return err
				}
				return tx.Commit()
			},
		}
		for _, enqueue := range ways {
			require.NoError(t, enqueue())
		}
		require.Equal(t, 3, c.rows(n))
		f()
		change("TRUNCATE {schema}.inbox")
		for range 2 { // in a transaction with a hint, and without
			for _, enqueue := range ways {
				err := enqueue()
				require.ErrorIs(t, err, ErrPartitions)
				require.ErrorContains(t, err, changed)
				require.ErrorContains(t, err, "open it again")
			}
		}
		require.Zero(t, c.rows(n))
	}
}
