//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/journaltest"
	"github.com/strandjobs/strand/journal/internal/store"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

func TestMain(m *testing.M) {
	code := pgtest.Main(m)
	if commands != "" {
		_ = os.RemoveAll(commands)
	}
	os.Exit(code)
}

var schemas atomic.Int32

// rig is a schema with a pool.
type rig struct {
	url, schema string
	pool        *pgxpool.Pool
	next        atomic.Int32 // partition that nobody has used
}

// newRig makes a schema of its own on the server at a URL.
func newRig(t testing.TB, url string, partitions int) *rig {
	t.Helper()
	r := &rig{url: url, schema: fmt.Sprintf("Test %d", schemas.Add(1))} // has to be quoted
	require.NoError(t, Migrate(t.Context(), url, Config{Schema: r.schema, Partitions: partitions}))
	r.pool = r.newPool(t, url)
	return r
}

func (r *rig) newPool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := newPool(context.Background(), url, true, 8)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// take makes the caller the one who may commit to a partition, without a lease, and returns his epoch.
func take(ctx context.Context, pool *pgxpool.Pool, schema string, partition int) (epoch int64, err error) {
	err = pool.QueryRow(ctx, in(schema, "SELECT {schema}.own($1)"), partition).Scan(&epoch)
	return epoch, err
}

// own takes a partition and opens its store, over a pool.
func (r *rig) own(t testing.TB, pool *pgxpool.Pool, partition int) *partitionStore {
	t.Helper()
	epoch, err := take(t.Context(), pool, r.schema, partition)
	require.NoError(t, err)
	s, err := openStore(context.Background(), pool, r.schema, partition, epoch)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// executor opens an executor over partition 0.
func (r *rig) executor(t testing.TB, cfg executor.Config) (*executor.Executor, error) {
	return executor.OpenLog("partition 0", func(c journal.Config) (*journal.Log, error) {
		return journal.OpenStore(r.own(t, r.pool, 0), c)
	}, cfg)
}

// exec runs a statement with the schema in it.
func (r *rig) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	_, err := r.pool.Exec(t.Context(), in(r.schema, sql), args...)
	require.NoError(t, err)
}

// disk is a partition as a journal's contract wants it: its next commits can be made to fail.
type disk struct {
	r         *rig
	partition int
	change    func(*partitionStore)

	mu     sync.Mutex
	faults []error
	synced func()
}

func (r *rig) disk(change func(*partitionStore)) *disk {
	return &disk{r: r, partition: int(r.next.Add(1)) - 1, change: change}
}

func (d *disk) Open(cfg journal.Config) (*journal.Log, error) {
	epoch, err := take(context.Background(), d.r.pool, d.r.schema, d.partition)
	if err != nil {
		return nil, err
	}
	s, err := openStore(context.Background(), d.r.pool, d.r.schema, d.partition, epoch)
	if err != nil {
		return nil, err
	}
	if d.change != nil {
		d.change(s)
	}
	l, err := journal.OpenStore(faulty{s, d}, cfg)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return l, nil
}

// Crash copies the rows of the partition to another one.
func (d *disk) Crash(t testing.TB) journaltest.Disk {
	copied := d.r.disk(d.change)
	tx, err := d.r.pool.Begin(context.Background())
	require.NoError(t, err)
	for _, sql := range []string{
		`UPDATE {schema}.tail c SET (number, manifest, uuid, sides, sum) = (SELECT number, manifest, uuid, sides, sum
			FROM {schema}.tail WHERE partition = $1) WHERE c.partition = $2`,
		"INSERT INTO {schema}.block (partition, seq, part, data) SELECT $2, seq, part, data FROM {schema}.block WHERE partition = $1",
		"INSERT INTO {schema}.side (partition, bucket, key, value, sum) SELECT $2, bucket, key, value, sum FROM {schema}.side WHERE partition = $1",
	} {
		_, err := tx.Exec(context.Background(), in(d.r.schema, sql), d.partition, copied.partition)
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit(context.Background()))
	return copied
}

func (d *disk) FailNext(errs ...error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, errs...)
}

func (d *disk) OnCommit(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.synced = f
}

// faulty is a store with the faults of its disk.
type faulty struct {
	*partitionStore
	d *disk
}

func (f faulty) Commit(t *store.Transaction) error {
	f.d.mu.Lock()
	var fault error
	if len(f.d.faults) > 0 {
		fault, f.d.faults = f.d.faults[0], f.d.faults[1:]
	}
	synced := f.d.synced
	f.d.mu.Unlock()
	if fault != nil {
		return fault
	}
	err := f.partitionStore.Commit(t)
	if err == nil && synced != nil {
		synced()
	}
	return err
}

// rows is all that a partition has, as text.
func (r *rig) rows(t testing.TB, partition int) string {
	t.Helper()
	var all []string
	for _, sql := range []string{
		"SELECT t::text FROM {schema}.tail t WHERE partition = $1",
		"SELECT concat(seq, ' ', part, ' ', md5(data)) FROM {schema}.block WHERE partition = $1 ORDER BY seq, part",
		"SELECT v::text FROM {schema}.side v WHERE partition = $1 ORDER BY bucket, key",
		"SELECT i::text FROM {schema}.inbox i WHERE partition = $1 ORDER BY number",
	} {
		rows, err := r.pool.Query(t.Context(), in(r.schema, sql), partition)
		require.NoError(t, err)
		for rows.Next() {
			var row string
			require.NoError(t, rows.Scan(&row))
			all = append(all, row)
		}
		require.NoError(t, rows.Err())
	}
	return strings.Join(all, "\n")
}

// openNode is Open for those who look at the node.
func openNode(ctx context.Context, url string, cfg Config) (*Node, error) {
	x, err := Open(ctx, url, cfg)
	return NodeOf(x), err
}
