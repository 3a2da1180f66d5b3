//go:build unix

package postgres

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// A schema as version 1 made it, and what version 2 made of that.
var (
	//go:embed testdata/schema_v1.sql
	schemaV1 string
	//go:embed testdata/schema_v2.sql
	schemaV2 string
)

// What was accepted into a schema of an earlier version runs after Migrate, in order, and so does what
// nodes of that version, which have not stopped yet, enqueue after it, and what they commit.
func TestMigrateFromEarlierVersions(t *testing.T) {
	for version, text := range map[int]string{1: schemaV1, 2: schemaV1 + schemaV2} {
		t.Run(fmt.Sprint(version), func(t *testing.T) { t.Parallel(); migrateFrom(t, version, text) })
	}
}

func migrateFrom(t *testing.T, version int, text string) {
	server := pgtest.Start(t)
	c := newCluster(t, server.URL(), 1, time.Second)
	conn := connect(t, c.url)
	exec := func(sql string, args ...any) {
		t.Helper()
		_, err := conn.Exec(t.Context(), in(c.schema, sql), args...)
		require.NoError(t, err)
	}
	exec("DROP SCHEMA {schema} CASCADE")
	exec("CREATE SCHEMA {schema}")
	exec(schemaV1)
	exec("INSERT INTO {schema}.version (version, partitions) VALUES (1, 1)")
	exec(strings.TrimPrefix(text, schemaV1))
	exec("INSERT INTO {schema}.tail (partition, uuid) VALUES (0, $1)", format.NewUUID())
	exec("INSERT INTO {schema}.lease (partition) VALUES (0)")
	exec(`CREATE ROLE older LOGIN; GRANT USAGE ON SCHEMA {schema} TO older; GRANT SELECT, UPDATE ON {schema}.tail TO older;
		GRANT SELECT, INSERT, DELETE ON {schema}.side, {schema}.block TO older`) // as the documentation had it
	put := func(payload, token string) {
		calls := row(encodeCall([]item{{ID: "a", Payload: []byte(payload)}}))
		if version == 1 {
			exec("SELECT {schema}.put(ARRAY[0], ARRAY['q'], ARRAY[$1::bytea], ARRAY[$2::uuid])", calls, token)
			return
		}
		exec(`SELECT {schema}.put(ARRAY[0], ARRAY['q'], ARRAY[$1::bytea], ARRAY[$2::uuid], 'infinity')
			WHERE {schema}.same((SELECT made FROM {schema}.version WHERE version = 2), 1, 2)`, calls, token)
	}
	older, err := pgx.Connect(t.Context(), strings.Replace(c.url, "postgres@", "older@", 1))
	require.NoError(t, err)
	t.Cleanup(func() { _ = older.Close(context.Background()) })
	number, key := 0, []byte("key")
	commit := func() {
		t.Helper()
		var done bool
		value := format.Seal(format.BucketState, key, fmt.Append(nil, number), 0)
		require.NoError(t, older.QueryRow(t.Context(), in(c.schema, `SELECT {schema}.commit(0, 0, $1, NULL, 0, NULL, NULL,
			ARRAY[3::smallint], ARRAY[$2::bytea], ARRAY[$3::bytea], ARRAY[$4::bigint], NULL)`), number, key, value, sumOf(key, value)).Scan(&done))
		require.True(t, done)
		number++
		var last int
		require.NoError(t, older.QueryRow(t.Context(), in(c.schema, "SELECT number FROM {schema}.tail WHERE partition = 0")).Scan(&last))
		require.Equal(t, number, last)
	}
	commit()
	commit()
	put("1", "00000000-0000-0000-0000-000000000001")
	_, err = Open(t.Context(), c.url, c.config())
	require.ErrorIs(t, err, ErrNoSchema)
	require.ErrorContains(t, err, fmt.Sprintf("has version %d.0, this is version 2.5", version))
	for range 2 {
		require.NoError(t, Migrate(t.Context(), c.url, Config{Schema: c.schema}))
	}
	commit()
	commit()
	put("2", "00000000-0000-0000-0000-000000000002")
	n := c.start(c.url)
	_, err = n.q.Enqueue(t.Context(), "a", 3)
	require.NoError(t, err)
	c.await(map[string]int{"a": 3})
}

// A schema of version 2.1 to 2.4 gets what is new, and what it has is not written again.
func TestMigrateFrom2(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	c := newCluster(t, server.URL(), 2, time.Second)
	server.Exec(t, in(c.schema, "UPDATE {schema}.version SET minor = 1; ALTER TABLE {schema}.lease DROP COLUMN since; ALTER TABLE {schema}.taken DROP COLUMN answer; DROP TABLE {schema}.permit"))
	conn := connect(t, c.url)
	keys := func() (of string) {
		require.NoError(t, conn.QueryRow(t.Context(), in(c.schema, `SELECT string_agg(indexrelid::text, ',' ORDER BY indexrelid) FROM pg_index
			WHERE indrelid IN ('{schema}.tail'::regclass, '{schema}.side'::regclass)`)).Scan(&of))
		return of
	}
	before := keys()
	_, err := Open(t.Context(), c.url, c.config())
	require.ErrorIs(t, err, ErrNoSchema)
	for range 2 {
		require.NoError(t, Migrate(t.Context(), c.url, Config{Schema: c.schema}))
	}
	require.Equal(t, before, keys())
	n := c.start(c.url)
	c.serving(n)
	stats, err := n.Stats(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), *stats.Partitions[1].Since, time.Minute)
	require.NoError(t, n.front.Stop(t.Context()))
	stats = Stats{}
	require.NoError(t, Look(t.Context(), c.url, c.config(), func(s Stats, _ []*journal.View) error { stats = s; return nil }))
	require.Equal(t, PartitionStats{Partition: 1, Epoch: 1}, stats.Partitions[1])
}

// While a transaction has the inbox, as one with EnqueueTx does, Migrate keeps no lease from being renewed: it waits
// with nothing in its hands, and brings the schema up to date when that has ended.
func TestMigrateWaitsWithoutTheLeases(t *testing.T) {
	third(t, 1)
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 2, time.Second)
	n := c.start(c.url)
	c.serving(n)
	conn := connect(t, c.url)
	_, err := conn.Exec(t.Context(), in(c.schema, "UPDATE {schema}.version SET minor = 4"))
	require.NoError(t, err)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, EnqueueTx(t.Context(), tx, n.q, "a", 1))
	epochs := func() (all []int64) {
		rows, _ := n.pool.Query(t.Context(), in(c.schema, "SELECT epoch FROM {schema}.tail ORDER BY partition"))
		all, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		require.NoError(t, err)
		return all
	}
	before := epochs()
	soon, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	require.ErrorIs(t, Migrate(soon, c.url, Config{Schema: c.schema}), context.DeadlineExceeded)
	done := make(chan error, 1)
	go func() { done <- Migrate(t.Context(), c.url, Config{Schema: c.schema}) }()
	time.Sleep(2 * time.Second)
	require.Len(t, n.Partitions(), 2)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-done)
	c.await(map[string]int{"a": 1})
	require.Equal(t, before, epochs(), "nobody has had to take them again")
}
