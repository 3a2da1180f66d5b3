//go:build unix

package postgres

import (
	_ "embed"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// A schema as version 1 made it.
//
//go:embed testdata/schema_v1.sql
var schemaV1 string

// What was accepted into a schema of version 1 runs after Migrate, in order, and so does what
// nodes of that version, which have not stopped yet, enqueue after it.
func TestMigrateFromVersion1(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Second)
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
	exec("INSERT INTO {schema}.tail (partition, uuid) VALUES (0, $1)", format.NewUUID())
	exec("INSERT INTO {schema}.lease (partition) VALUES (0)")
	put := func(payload, token string) {
		calls := row(encodeCall([]item{{ID: "a", Payload: []byte(payload)}}))
		exec("SELECT {schema}.put(ARRAY[0], ARRAY['q'], ARRAY[$1::bytea], ARRAY[$2::uuid])", calls, token)
	}
	put("1", "00000000-0000-0000-0000-000000000001")
	_, err := Open(t.Context(), c.url, c.config())
	require.ErrorIs(t, err, ErrNoSchema)
	require.ErrorContains(t, err, "has version 1, this is version 2")
	for range 2 {
		require.NoError(t, Migrate(t.Context(), c.url, Schema{Name: c.schema}))
	}
	put("2", "00000000-0000-0000-0000-000000000002")
	n := c.start(c.url)
	_, err = n.q.Enqueue(t.Context(), "a", 3)
	require.NoError(t, err)
	c.await(map[string]int{"a": 3})
}
