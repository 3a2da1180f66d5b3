//go:build unix

package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// buffers returns how many pages a statement of a pool of one connection looks at.
func buffers(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) int {
	t.Helper()
	// The server may have looked into its catalogs, too, as after its own ANALYZE: not three times.
	return min(pagesOf(t, pool, sql, args...), pagesOf(t, pool, sql, args...), pagesOf(t, pool, sql, args...))
}

func pagesOf(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) int {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	var text []byte
	require.NoError(t, tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...).Scan(&text))
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	require.NoError(t, json.Unmarshal(text, &plans))
	return plans[0].Plan.Hit + plans[0].Plan.Read
}

// hold begins a transaction that sees the database as it is now, until the test ends.
func hold(t *testing.T, url string) (end func()) {
	t.Helper()
	conn := connect(t, url)
	tx, err := conn.BeginTx(t.Context(), snapshot)
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT 1")
	require.NoError(t, err)
	return func() { require.NoError(t, tx.Rollback(t.Context())) }
}

// churn makes so many commits to partition 0 on the server, each with a block, one that goes, a state
// key that changes, and a row of the inbox that is taken in.
const churn = `DO $$ DECLARE n bigint; row bigint; BEGIN
	SELECT number INTO n FROM {schema}.tail WHERE partition = 0 ORDER BY number DESC LIMIT 1;
	FOR i IN n..n + %d LOOP
		INSERT INTO {schema}.inbox (partition, queue, calls, token) VALUES (0, 'q', '', gen_random_uuid()) RETURNING number INTO row;
		COMMIT;
		IF NOT {schema}.commit(0, %d, i, '', i + 1, 'block', ARRAY[i - 63], ARRAY[3::smallint], ARRAY['hot'::bytea], ARRAY[convert_to(i::text, 'UTF8')], ARRAY[i], ARRAY[row]) THEN
			RAISE EXCEPTION 'commit %% is refused', i;
		END IF;
		COMMIT;
	END LOOP;
END $$`

// While a snapshot is held, as by pg_dump or an idle transaction, nothing that was written since then can
// be cleared away. After many commits all that a commit and a look at the log need is as near as before.
func TestAnOldSnapshotKeepsNothingInTheWay(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	c := newCluster(t, server.URL(), 16, time.Hour)
	node := c.node(c.url)
	pool, err := newPool(t.Context(), c.url, true, 1) // its plans are of when there was little
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	epoch, err := take(t.Context(), pool, c.schema, 0)
	require.NoError(t, err)
	hold(t, c.url)
	s := textsFor(c.schema, time.Time{}, 0)
	look := func(commits int) map[string]int {
		_, err := pool.Exec(t.Context(), in(c.schema, fmt.Sprintf(churn, commits-1, epoch)), pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
		var number, last int64
		require.NoError(t, pool.QueryRow(t.Context(), in(c.schema, "SELECT number FROM {schema}.tail WHERE partition = 0")).Scan(&number))
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT last_value FROM pg_sequences WHERE schemaname = $1 AND sequencename = 'inbox_number_seq'", c.schema).Scan(&last))
		return map[string]int{
			"commit": buffers(t, pool, s["commit"], 0, epoch, number, []byte{1}, number+1, []byte("block"), []int64{number - 63}, []int16{3}, [][]byte{[]byte("hot")}, [][]byte{{1}}, []int64{1}, nil),
			"ask":    buffers(t, pool, s["ask"], 0, epoch),
			"tail":   buffers(t, pool, s["tail"], 0),
			"get":    buffers(t, pool, s["get"], 0, 3, []byte("hot")),
			"read":   buffers(t, pool, s["read"], 0, number, 0, 1, 5),
			"view":   buffers(t, pool, node.texts["view"], node.division),
			"split":  buffers(t, pool, node.texts["split"], 0, epoch, 7, [][]byte{{1}}),
			"refuse": buffers(t, pool, node.texts["refuse"], 0, 7, "why", epoch),
			"page":   buffers(t, pool, node.texts["page"], 0, last-1024*50, nil, []string{"q"}), // 50 rows that were taken lately
		}
	}
	look(100)
	before := look(100)
	after := look(times(4000, 20_000))
	t.Logf("pages of each statement at first %v, and after many commits %v", before, after)
	for name, most := range before {
		require.LessOrEqual(t, after[name], most+most/3+5, name)
	}
}

// A row whose transaction has got its number early, and ends late, is taken in although many with
// greater ones were meanwhile, and the taker has moved on: also when the number is all that it had got.
func TestTheFloorWaitsForWhoIsLate(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	c := newCluster(t, server.URL(), 1, time.Hour)
	n, caller := c.start(c.url), c.node(c.url)
	c.serving(n)
	early, late := connect(t, c.url), connect(t, c.url)
	server.Exec(t, in(c.schema, `CREATE FUNCTION {schema}.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF current_setting('application_name') = 'late' THEN PERFORM pg_advisory_xact_lock_shared(7); END IF; RETURN NEW; END $$;
		CREATE TRIGGER slow BEFORE INSERT ON {schema}.inbox FOR EACH ROW EXECUTE FUNCTION {schema}.slow()`))
	_, err := late.Exec(t.Context(), "SET application_name = 'late'")
	require.NoError(t, err)
	lock, err := connect(t, c.url).Begin(t.Context())
	require.NoError(t, err)
	_, err = lock.Exec(t.Context(), "SELECT pg_advisory_xact_lock(7)")
	require.NoError(t, err)

	tx, err := early.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, EnqueueTx(t.Context(), tx, caller.q, "early", 1))
	done := make(chan error, 1)
	go func() { // it has its number, and no more
		done <- pgx.BeginFunc(context.Background(), late, func(tx pgx.Tx) error { return EnqueueTx(context.Background(), tx, caller.q, "late", 1) })
	}()
	require.Eventually(t, func() bool {
		var waits int
		require.NoError(t, early.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").Scan(&waits))
		return waits == 1
	}, time.Minute, time.Millisecond)
	floor := func() int64 { // as a pass that has ended left it
		p := n.owned(0)
		require.NoError(t, p.taker.gate(t.Context(), "q"))
		return p.taker.floor.Load()
	}
	want := make(map[string]int)
	enqueue := func(times int) {
		for range times {
			want["a"]++
			_, err := caller.q.Enqueue(t.Context(), "a", want["a"])
			require.NoError(t, err)
		}
		c.await(want)
	}
	enqueue(20)
	require.Zero(t, floor(), "one that may come yet has a smaller number")
	require.NoError(t, tx.Commit(t.Context()))
	want["early"] = 1
	enqueue(20)
	require.Zero(t, floor())
	require.NoError(t, lock.Rollback(t.Context()))
	require.NoError(t, <-done)
	want["late"] = 1
	c.await(want)
	enqueue(20)
	require.Eventually(t, func() bool { enqueue(1); return floor() > 0 }, time.Minute, time.Millisecond)
}

// What waits for room is in nobody's way: the floor of the others is above it. It is taken in when there is room, in its
// order, and so is what was late.
func TestTheFloorIsAboveWhatWaitsForRoom(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t) // nobody else's transactions
	c := newCluster(t, server.URL(), 1, time.Hour)
	goOn := make(chan struct{})
	full := func(n *testNode) *executor.Queue[int] {
		q, err := executor.Handle(n.front, "full", func(ctx context.Context, job executor.Job[int]) error {
			<-goOn
			c.note(job.ID, job.Payload, job.Position)
			return nil
		}, executor.QueueConfig[int]{MaxBacklog: executor.BacklogLimit{Payloads: 50}})
		require.NoError(t, err)
		return q
	}
	n, caller := c.node(c.url), c.node(c.url)
	full(n)
	producer := full(caller)
	require.NoError(t, n.front.Start(t.Context()))
	c.serving(n)
	want := make(map[string]int)
	enqueue := func(q *executor.Queue[int], id string) {
		want[id]++
		_, err := q.Enqueue(t.Context(), id, want[id])
		require.NoError(t, err)
	}
	for range 600 { // more than a page
		enqueue(producer, "held")
	}
	last := func() (number int64) {
		require.NoError(t, n.pool.QueryRow(t.Context(), in(c.schema, "SELECT max(number) FROM {schema}.inbox WHERE queue = 'full'")).Scan(&number))
		return number
	}
	require.Greater(t, c.rows(n), 512)
	before := last()
	require.Eventually(t, func() bool {
		enqueue(caller.q, "a")
		return n.owned(0).taker.floor.Load() >= before
	}, time.Minute, time.Millisecond)

	tx, err := connect(t, c.url).Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, EnqueueTx(t.Context(), tx, producer, "late", 1))
	for range 100 {
		enqueue(producer, "held")
		enqueue(caller.q, "a")
	}
	require.Less(t, n.owned(0).taker.floor.Load(), last())
	require.NoError(t, tx.Commit(t.Context()))
	want["late"] = 1
	require.Eventually(t, func() bool {
		enqueue(caller.q, "a")
		return n.owned(0).taker.floor.Load() >= last()
	}, time.Minute, time.Millisecond)
	close(goOn)
	c.await(want)
	require.Eventually(t, func() bool { return c.rows(n) == 0 }, time.Minute, time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Zero(t, c.repeats)
}

// A transaction that is open for too long is in Err, in the log and in Stats, each with who has it and what
// ends it, until it has ended.
func TestASnapshotThatIsHeldIsTold(t *testing.T) {
	third(t, 2)
	t.Parallel()
	server := pgtest.Start(t, "max_prepared_transactions=2")
	c := newCluster(t, server.URL(), 1, time.Hour)
	var log lockedText
	n := c.start(c.url, func(cfg *Config) { cfg.Executor.Logger = log.logger() })
	c.serving(n)
	conn := connect(t, c.url)
	exec := func(sql string) {
		_, err := conn.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	told := 0
	for name, steps := range map[string]struct{ begin, end, holder string }{
		"reads":    {"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1", "ROLLBACK", fmt.Sprintf("pg_terminate_backend(%d)", conn.PgConn().PID())},
		"writes":   {"BEGIN; SELECT pg_current_xact_id()", "ROLLBACK", "idle in transaction"},
		"prepared": {"BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'forgotten'", "ROLLBACK PREPARED 'forgotten'", "prepared transaction forgotten"},
	} {
		for sql := range strings.SplitSeq(steps.begin, "; ") {
			exec(sql)
		}
		n.tellOfSnapshots(t.Context(), time.Hour)
		require.NoError(t, n.front.Err(), name)
		require.Eventually(t, func() bool { n.tellOfSnapshots(t.Context(), time.Second); return n.front.Err() != nil }, time.Minute, time.Millisecond, name)
		require.ErrorContains(t, n.front.Err(), steps.holder)
		n.tellOfSnapshots(t.Context(), time.Second)
		n.lines.flush()
		told++
		require.Len(t, log.lines("a snapshot is held"), told, "once for each")
		_, holder, err := readSnapshot(t.Context(), n.control, n.texts, time.Second)
		require.NoError(t, err)
		require.Contains(t, holder, steps.holder)
		exec(steps.end)
		require.Eventually(t, func() bool { n.tellOfSnapshots(t.Context(), time.Second); return n.front.Err() == nil }, time.Minute, time.Millisecond, name)
	}
	stats, err := n.Stats(t.Context())
	require.NoError(t, err)
	require.Zero(t, stats.SnapshotHolder, "none is a minute old")
}
