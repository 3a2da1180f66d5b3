//go:build unix

package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/store"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// Eight programs that start together make one schema, and none of them fails.
func TestMigrateTogether(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t).URL()
	for range times(3, 30) {
		cfg := Config{Schema: fmt.Sprint("together_", schemas.Add(1)), Partitions: 7}
		ended := make(chan error)
		for _, level := range []string{"read committed", "repeatable read", "serializable", "serializable"} { // of their roles
			strict := fmt.Sprint(url, "&default_transaction_isolation=", strings.ReplaceAll(level, " ", "%20"))
			for range 2 {
				go func() { ended <- Migrate(t.Context(), strict, cfg) }()
			}
		}
		for range 8 {
			require.NoError(t, <-ended)
		}
		conn := connect(t, url)
		partitions, err := Config{Schema: cfg.Schema}.readSchema(t.Context(), conn)
		require.NoError(t, err)
		require.Equal(t, 7, partitions)
		var tails, leases int
		require.NoError(t, conn.QueryRow(t.Context(), in(cfg.Schema, "SELECT (SELECT count(*) FROM {schema}.tail), (SELECT count(*) FROM {schema}.lease)")).Scan(&tails, &leases))
		require.Equal(t, []int{7, 7}, []int{tails, leases})
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// A schema stays as it is when it is asked for again, in another way, or by a program that
// knows less than the one that made it.
func TestMigrateLeavesWhatThereIs(t *testing.T) {
	url := pgtest.Shared(t).URL()
	r := newRig(t, url, 3)
	s := r.own(t, r.pool, 2)
	require.NoError(t, s.Commit(&store.Transaction{Seq: 1, Block: []byte("block")}))
	before := r.rows(t, 2)
	require.NoError(t, Migrate(t.Context(), url, Config{Schema: r.schema}))
	require.NoError(t, Migrate(t.Context(), url, Config{Schema: r.schema, Partitions: 3}))
	err := Migrate(t.Context(), url, Config{Schema: r.schema, Partitions: 16})
	require.ErrorIs(t, err, ErrPartitions)
	require.ErrorContains(t, err, "has 3 partitions, and Config.Partitions is 16; set it to 0 or 3")

	_, err = Config{Schema: "nobody's"}.readSchema(t.Context(), r.pool)
	require.ErrorIs(t, err, ErrNoSchema)
	require.ErrorContains(t, err, "run Migrate")
	r.exec(t, "UPDATE {schema}.version SET version = version + 1")
	_, err = Config{Schema: r.schema}.readSchema(t.Context(), r.pool)
	require.ErrorIs(t, err, journal.ErrTooNew)
	require.ErrorContains(t, err, "has version 3, this is version 2")
	require.ErrorIs(t, Migrate(t.Context(), url, Config{Schema: r.schema}), journal.ErrTooNew)
	r.exec(t, "UPDATE {schema}.version SET version = 0")
	_, err = Config{Schema: r.schema}.readSchema(t.Context(), r.pool)
	require.ErrorIs(t, err, ErrNoSchema)
	r.exec(t, "DELETE FROM {schema}.version")
	_, err = Config{Schema: r.schema}.readSchema(t.Context(), r.pool)
	require.ErrorIs(t, err, ErrNoSchema)
	err = Migrate(t.Context(), url, Config{Schema: r.schema})
	require.ErrorIs(t, err, ErrNoSchema)
	require.ErrorContains(t, err, "has lost its row")
	require.Equal(t, before, r.rows(t, 2))
	r.exec(t, "INSERT INTO {schema}.version (version, partitions) SELECT 2, count(*) FROM {schema}.tail")
	require.NoError(t, Migrate(t.Context(), url, Config{Schema: r.schema, Partitions: 3}), "as the error advises")
}

func TestMigrateRefuses(t *testing.T) {
	url := pgtest.Shared(t).URL()
	for says, cfg := range map[string]Config{
		"has 64 bytes":        {Schema: strings.Repeat("n", 64)},
		"none of them zero":   {Schema: "a\x00b"},
		"begin with pg_":      {Schema: "pg_strand"},
		"$$ and control":      {Schema: "a$$b"},
		"control characters":  {Schema: "a\nb"},
		"Partitions is -1":    {Partitions: -1},
		"Partitions is 4097,": {Partitions: 4097},
	} {
		err := Migrate(t.Context(), url, cfg)
		require.ErrorIs(t, err, executor.ErrConfig)
		require.ErrorContains(t, err, says)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, Migrate(ctx, url, Config{}), context.Canceled)
	require.Error(t, Migrate(t.Context(), "postgres://127.0.0.1:1/x?connect_timeout=2", Config{}))
}

// A role that owns a schema, and may do nothing else, can make the tables and use them; a
// migration that fails leaves nothing.
func TestNoSuperuserIsNeeded(t *testing.T) {
	server := pgtest.Shared(t)
	name := fmt.Sprint("plain_", schemas.Add(1))
	server.Exec(t, "CREATE ROLE "+name+" LOGIN")
	url := strings.Replace(server.URL(), "postgres@", name+"@", 1)
	require.ErrorContains(t, Migrate(t.Context(), url, Config{Schema: name}), "permission denied")
	server.Exec(t, "CREATE SCHEMA "+name+" AUTHORIZATION "+name)
	require.NoError(t, Migrate(t.Context(), url, Config{Schema: name}))
	r := &rig{url: url, schema: name}
	r.pool = r.newPool(t, url)
	s := r.own(t, r.pool, 0)
	require.NoError(t, s.Commit(&store.Transaction{Seq: 1, Block: []byte("block")}))
	_, err := s.Read(1, 0, 1)
	require.NoError(t, err)

	server.Exec(t, "CREATE SCHEMA half_"+name+" AUTHORIZATION "+name)
	server.Exec(t, "CREATE TABLE half_"+name+".taken ()")
	require.Error(t, Migrate(t.Context(), url, Config{Schema: "half_" + name}))
	var n int
	require.NoError(t, r.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_tables WHERE schemaname = $1", "half_"+name).Scan(&n))
	require.Equal(t, 1, n)
}
