//go:build unix

package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// A pooler that gives sessions to several connections is refused, with what to do, however it
// chooses sessions, and while others are at work through it, too.
func TestPoolerWithoutSessions(t *testing.T) {
	third(t, 2)
	t.Parallel()
	s := pgtest.Shared(t)
	c := newCluster(t, s.URL(), 2, time.Second)
	for _, mode := range []string{"transaction", "statement"} {
		for _, settings := range [][]string{
			nil, {"server_round_robin = 1"}, {"default_pool_size = 1"}, {"default_pool_size = 2", "server_round_robin = 1"}, {"min_pool_size = 10"},
		} {
			url := s.Pooler(t, mode, settings...)
			for _, callers := range []int{0, 8} {
				ctx, cancel := context.WithCancel(t.Context())
				var working sync.WaitGroup
				for range callers {
					conn := connect(t, url)
					working.Go(func() {
						for ctx.Err() == nil {
							_, _ = conn.Exec(ctx, "SELECT pg_sleep(random() / 1000)")
						}
					})
				}
				for range 5 {
					_, err := Open(t.Context(), url, c.config())
					require.ErrorIs(t, err, ErrUnsafe, "%s %v %d", mode, settings, callers)
					require.ErrorContains(t, err, "pool_mode = session")
				}
				cancel()
				working.Wait()
			}
			_, err := Import(t.Context(), url, c.config(), t.TempDir())
			require.Error(t, err)
		}
	}
}

// In session mode a node works, through several of them.
func TestPoolerWithSessions(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t)
	url := s.Pooler(t, "session", "default_pool_size = 50")
	c := newCluster(t, url, 4, time.Second)
	a, b := c.start(url), c.start(s.Pooler(t, "session", "default_pool_size = 50"))
	c.serving(a, b)
	want := make(map[string]int)
	for i := range 40 {
		id := fmt.Sprint("id-", i%10)
		want[id]++
		_, err := []*testNode{a, b}[i%2].q.Enqueue(t.Context(), id, want[id])
		require.NoError(t, err)
	}
	c.await(want)
	require.NoError(t, a.front.Stop(t.Context()))
	require.NoError(t, b.front.Stop(t.Context()))
}

// The connections of EnqueueTx are the caller's: they need no session, only a driver that
// prepares no statements. Nor does Migrate need one.
func TestPoolerOfTransactions(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t)
	url := s.Pooler(t, "transaction", "default_pool_size = 2")
	c := newCluster(t, s.URL(), 4, time.Second)
	n := c.start(c.url)
	c.serving(n)
	for range 3 {
		require.NoError(t, Migrate(t.Context(), url, Config{Schema: c.schema}))
	}
	require.NoError(t, Migrate(t.Context(), url, Config{Schema: c.schema + " by a pooler"}))
	want := make(map[string]int)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		cfg, err := pgxpool.ParseConfig(url)
		require.NoError(t, err)
		cfg.ConnConfig.DefaultQueryExecMode = mode
		pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		var db *sql.DB = stdlib.OpenDBFromPool(pool)
		for i := range 40 {
			id := fmt.Sprint("id-", i%10)
			want[id]++
			if i%20 < 10 {
				require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return EnqueueTx(t.Context(), tx, n.q, id, want[id]) }))
				continue
			}
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			require.NoError(t, EnqueueSQL(t.Context(), tx, n.q, id, want[id]))
			require.NoError(t, tx.Commit())
		}
	}
	c.await(want)
}
