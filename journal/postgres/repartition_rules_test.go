//go:build unix

package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// keyed makes partitions that have nothing but state keys, one set of them for each.
func keyed(t testing.TB, url string, all ...map[string]string) *rig {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "journals")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, partsFile), fmt.Appendf(nil, `{"version":1,"partitions":%d}`, len(all)), 0o600))
	for p, keys := range all {
		b, err := journal.NewBuilder(filepath.Join(dir, partName(p)), 100, uint64(p+1))
		require.NoError(t, err)
		for key, value := range keys {
			require.NoError(t, b.Set(journal.Set{Key: key, Value: []byte(value)}))
		}
		require.NoError(t, b.Finish())
	}
	r := newRig(t, url, len(all))
	_, err := Import(t.Context(), url, r.config(), dir)
	require.NoError(t, err)
	return r
}

// keys are the state keys of a partition.
func (r *rig) keys(t testing.TB, partition int) map[string]string {
	t.Helper()
	keys := make(map[string]string)
	require.NoError(t, Look(t.Context(), r.url, r.config(), func(_ Stats, views []*journal.View) error {
		for s, err := range views[partition].Keys() {
			require.NoError(t, err)
			keys[s.Key] = string(s.Value)
		}
		return nil
	}))
	return keys
}

func number(n ...int) (b string) {
	for _, n := range n {
		b += string(binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
	return b
}

// What is of no id is joined by the rules of the documentation, and its positions move with those of the payloads.
func TestRepartitionJoins(t *testing.T) {
	t.Parallel()
	by := func(hand string) string { return "\x01\x00\x00\x02\x00\x00\x00" + hand }
	mine, other := "pause/id/1/q/"+ownedBy(2, 1), "pause/id/1/q/"+ownedBy(2, 0)
	r := keyed(t, pgtest.Shared(t).URL(), map[string]string{
		"mark/feed": number(7), "mark/below": number(-3), "mark/same": number(5), "mark/cron/tick/x": number(5),
		"key/1/q/both": number(10, 20, 1), "key/1/q/one": number(10, 21, 2), "lock/" + number(1): by("a"), mine: "\x01\x01",
	}, map[string]string{
		"mark/feed": number(9), "mark/below": number(-5), "mark/same": number(5), "mark/cron/tick/x": number(4), "pause/executor": "\x01\x02",
		"key/1/q/both": number(11, 30, 1), "key/1/q/other": number(10, 31, 1), "lock/" + number(1): by("b"), mine: "\x01\x03", other: "\x01\x04",
	})
	_, err := Repartition(t.Context(), r.url, r.config(), 1, false)
	require.ErrorIs(t, err, ErrIndivisible)
	require.ErrorContains(t, err, `source "below" one of them has offset -3 and another one -5`)
	r.repartitioned(t, 1)
	joined := map[string]string{
		"mark/feed": number(9), "mark/below": number(-3), "mark/same": number(5), "mark/cron/tick/x": number(5), "pause/executor": "\x01\x02",
		"key/1/q/both": number(11, 130, 1), "key/1/q/one": number(10, 21, 2), "key/1/q/other": number(10, 131, 1),
		"lock/" + number(2): by("a"), "lock/" + number(3): by("b"), mine: "\x01\x03",
	}
	require.Equal(t, joined, r.keys(t, 0), "a pause in a partition without the id had no effect, and has none")
	var epoch, next uint64
	at := func(p int) {
		require.NoError(t, Look(t.Context(), r.url, r.config(), func(_ Stats, views []*journal.View) error {
			epoch, next = views[p].Info().Epoch, uint64(views[p].Info().Next)
			return nil
		}))
	}
	at(0)
	require.EqualValues(t, 2, epoch, "the highest, from which fencing tokens grow")
	require.EqualValues(t, 200, next)
	r.repartitioned(t, 2)
	delete(joined, mine)
	require.Equal(t, joined, r.keys(t, 0))
	at(1)
	require.EqualValues(t, 200, next, "who is divided keeps positions")
}

// What can't be divided or joined, or should not be now, is refused with the reason, and nothing is changed.
func TestRepartitionRefusals(t *testing.T) {
	third(t, 0)
	t.Parallel()
	url := pgtest.Shared(t).URL()
	refused := func(r *rig, want error, says string, to int, change ...func(*Config)) {
		t.Helper()
		before := r.rows(t, 0) + r.rows(t, 1)
		moved, err := Repartition(t.Context(), url, r.config(change...), to, false)
		require.ErrorIs(t, err, want)
		require.ErrorContains(t, err, says)
		require.Zero(t, moved)
		require.Equal(t, before, r.rows(t, 0)+r.rows(t, 1))
	}
	for says, keys := range map[string]map[string]string{
		`slots "numbers" are one sequence`: {"slot/7/numbers/last": "{}"},
		`state key "of/later"`:             {"of/later": "x"},
		`lock "lock/`:                      {"lock/" + number(1): "\x02\x00\x00\x00\x00\x00\x00a"},
		`state key "lock/`:                 {"lock/" + number(-1): "\x01\x00\x00\x00\x00\x00\x00a"},
		`state key "key/`:                  {"key/1/q/k": "short"},
		`pause "pause/id/`:                 {"pause/id/x": "\x01\x02"},
	} {
		r := keyed(t, url, keys, nil)
		for _, to := range []int{1, 4} {
			if to == 4 && (strings.HasPrefix(says, "state key \"lock") || strings.HasPrefix(says, "state key \"key")) {
				continue // it is not touched
			}
			_, err := Repartition(t.Context(), url, r.config(), to, true)
			require.ErrorContains(t, err, says)
			require.True(t, errors.Is(err, ErrIndivisible) || errors.Is(err, journal.ErrCorrupt), "%v", err)
		}
	}
	r := keyed(t, url, map[string]string{"mark/feed": number(1)}, map[string]string{"mark/feed": number(2)})
	refused(r, ErrIndivisible, `source "feed" one of them has offset 1 and another one 2`, 3)
	refused(r, executor.ErrConfig, "0 partitions, it must be from 1 to 4096", 0)
	refused(r, executor.ErrConfig, "4097 partitions", 4097)
	refused(r, ErrPartitions, "Config.Partitions is 3", 5, func(cfg *Config) { cfg.Partitions = 3 })
	refused(r, ErrPartitions, "whose Config.Partition has id", 5, func(cfg *Config) { cfg.Partition = tenantOf("/") })
	refused(r, ErrUnsafe, "synchronous", 5, func(cfg *Config) { cfg.SingleServer = false })
	r.exec(t, "INSERT INTO {schema}.inbox (partition, queue, calls, token) VALUES (1, 'q', 'x', gen_random_uuid())")
	refused(r, journal.ErrCorrupt, "of the inbox, for partition 1", 5)
	r.exec(t, "TRUNCATE {schema}.inbox")
	r.exec(t, "INSERT INTO {schema}.inbox (partition, queue, calls, token) VALUES (0, 'q', $1, gen_random_uuid()), (1, 'q', $1, gen_random_uuid())",
		row(encodeCall([]item{{ID: "a"}})))
	refused(r, executor.ErrNotOwned, `"a" belongs to`, 5)
	r.exec(t, "TRUNCATE {schema}.inbox")

	dir := filepath.Join(t.TempDir(), "far")
	b, err := journal.NewBuilder(dir, 1<<52, 1)
	require.NoError(t, err)
	require.NoError(t, b.Finish())
	far := newRig(t, url, 3)
	_, err = Import(t.Context(), url, far.config(), dir)
	require.NoError(t, err)
	refused(far, ErrIndivisible, "up to 4503599627370496 positions each", 1)

	var none context.Context
	_, err = Repartition(none, url, r.config(), 5, false)
	require.ErrorIs(t, err, executor.ErrContext)
	over, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("not now"))
	_, err = Repartition(over, url, r.config(), 5, false)
	require.ErrorContains(t, err, "not now")

	c := newCluster(t, url, 2, time.Minute)
	n := c.start(url)
	c.serving(n)
	_, err = Repartition(t.Context(), url, c.config(), 3, false)
	require.ErrorIs(t, err, ErrInUse)
	require.ErrorContains(t, err, "owns partition 0")
}

// An owner from before, whose lease was over, commits nothing to the partition that has its number now.
func TestRepartitionFencesTheOwnersBefore(t *testing.T) {
	t.Parallel()
	r := newRig(t, pgtest.Shared(t).URL(), 2)
	old := r.own(t, r.pool, 0)
	r.own(t, r.pool, 1)
	r.repartitioned(t, 3)
	before := r.rows(t, 0)
	_, err := journal.OpenStore(old, journal.Config{})
	require.ErrorIs(t, err, errFenced)
	require.Equal(t, strings.Split(before, "\n")[1:], strings.Split(r.rows(t, 0), "\n")[1:])
}

// A connection that is cut anywhere leaves the old partitions, or the new ones, and the next call the new ones.
func TestRepartitionOverABadLine(t *testing.T) {
	third(t, 1)
	t.Parallel()
	server := pgtest.Shared(t)
	dir := filepath.Join(t.TempDir(), "journal")
	grownJournals(t, dir, 3, Config{}, rand.New(rand.NewPCG(1, 1)))
	proxy := NewProxy(t, server.Addr())
	r := newRig(t, server.URL(), 3)
	_, err := Import(t.Context(), r.url, r.config(), dir)
	require.NoError(t, err)
	r.exec(t, "INSERT INTO {schema}.inbox (partition, queue, calls, token) SELECT $1, 'q', $2, gen_random_uuid()", 0, row(encodeCall([]item{{ID: ownedBy(3, 0)}})))
	state := func() (all string) {
		for p := range 3 {
			all += r.rows(t, p)
		}
		return all
	}
	before := state()
	ids, keys := contents(t, r, Config{})
	cut := 0
	for at := int64(600); ; at = at*5/4 + 1 {
		proxy.CutAfter(at)
		_, err := Repartition(t.Context(), proxy.URL(server.URL()), r.config(), 2, true)
		proxy.Heal()
		if err == nil {
			break
		}
		cut++
		require.Equal(t, before, state(), "%v", err)
	}
	require.Greater(t, cut, 10)
	gotIDs, gotKeys := contents(t, r, Config{})
	require.Equal(t, ids, gotIDs)
	require.Equal(t, keys, gotKeys)
	after := r.rows(t, 0) + r.rows(t, 1)
	r.repartitioned(t, 2)
	require.Equal(t, after, r.rows(t, 0)+r.rows(t, 1), "there is nothing left to do")
}

// ownedBy returns an id of a partition.
func ownedBy(partitions, p int) (id string) {
	for i := 0; ; i++ {
		id = fmt.Sprint("id ", i)
		if owner, _ := (Config{}).divide(partitions).OwnerOf(id); owner == p {
			return id
		}
	}
}

// Jobs that nodes have left, and calls that no owner has taken in, run in their order in any number of partitions, with
// the attempts that they had, and dead letters can be put back.
func TestRepartitionGoesOn(t *testing.T) {
	third(t, 1)
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 7, time.Second)
	const ids = 40
	var mu sync.Mutex
	ran, left := make(map[string][]string), 0
	open := func() *testNode {
		t.Helper()
		n, err := openNode(t.Context(), c.url, c.config())
		require.NoError(t, err)
		t.Cleanup(n.kill)
		q, err := executor.Handle(n.front, "q", func(_ context.Context, job executor.Job[int]) error {
			mu.Lock()
			defer mu.Unlock()
			left--
			ran[job.ID] = append(ran[job.ID], fmt.Sprintf("%d, attempt %d", job.Payload, job.Attempt))
			switch {
			case job.Payload%3 == 0 && job.Attempt == 1:
				left++
				return errors.New("once")
			case job.Payload == 5 && len(job.Failures) == 0:
				return executor.Cancel(errors.New("dead"))
			}
			return nil
		}, executor.QueueConfig[int]{RetryIn: func(int) time.Duration { return 300 * time.Millisecond }})
		require.NoError(t, err)
		return &testNode{n, q}
	}
	sent := 0
	send := func(n *testNode) {
		t.Helper()
		for range 2 {
			sent++
			var items []executor.Item[int]
			for i := range ids {
				items = append(items, executor.Item[int]{ID: fmt.Sprint("id ", i), Payload: sent})
			}
			mu.Lock()
			left += ids
			mu.Unlock()
			_, err := n.q.EnqueueMany(t.Context(), items)
			require.NoError(t, err)
		}
	}
	for _, to := range []int{3, 16, 5} {
		n, idle := open(), open()
		require.NoError(t, n.front.Start(t.Context()))
		c.serving(n)
		send(n)
		require.NoError(t, n.front.Stop(t.Context()))
		send(idle) // into the inbox
		require.Positive(t, c.rows(idle))
		_, err := Repartition(t.Context(), c.url, c.config(), to, false)
		require.NoError(t, err)
		_, err = idle.q.Enqueue(t.Context(), "id 0", 1)
		require.ErrorIs(t, err, ErrPartitions)
		c.partitions = to
	}
	n := open()
	require.NoError(t, n.front.Start(t.Context()))
	settle := func() {
		t.Helper()
		require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return left == 0 }, time.Minute, 10*time.Millisecond)
	}
	settle()
	var want []string
	for p := 1; p <= sent; p++ {
		want = append(want, fmt.Sprintf("%d, attempt 1", p))
		if p%3 == 0 {
			want = append(want, fmt.Sprintf("%d, attempt 2", p))
		}
	}
	require.Len(t, ran, ids)
	for id, got := range ran {
		require.Equal(t, want, got, id)
	}
	left += ids
	did, err := n.front.Inspect().Requeue(t.Context(), inspect.SelectQueue("q"))
	require.NoError(t, err)
	require.Equal(t, ids, did.Back)
	settle()
	require.Equal(t, "5, attempt 1", ran["id 0"][len(want)])
}

// A call in the inbox with ids that come apart is one for each partition, in the place that it had; conditions go with it.
func TestRepartitionOfTheInbox(t *testing.T) {
	third(t, 1)
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Second)
	n := c.node(c.url)
	items := func(payload int) (all []executor.Item[int]) {
		for i := range 20 {
			all = append(all, executor.Item[int]{ID: fmt.Sprint("id ", i), Payload: payload})
		}
		return all
	}
	_, err := n.q.EnqueueMany(t.Context(), items(1))
	require.NoError(t, err)
	waiting := make(chan error, 2)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := n.q.EnqueueMany(ctx, items(2), executor.IdempotencyKey("once"))
		waiting <- err
	}()
	requireAsked(t, n.Node, 1)
	go func() {
		_, err := n.front.Inspect().Pause(ctx, inspect.SelectQueue("q"))
		waiting <- err
	}()
	requireAsked(t, n.Node, 2)
	conn := connect(t, c.url)
	require.NoError(t, pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error { return EnqueueTx(t.Context(), tx, n.q, "id 3", 3) }))
	_, err = Repartition(t.Context(), c.url, c.config(), 5, false)
	require.NoError(t, err)
	_, err = Repartition(t.Context(), c.url, c.config(), 3, false)
	require.ErrorIs(t, err, ErrNotEmpty, "an idempotency key is of one partition")
	require.ErrorContains(t, err, "run a node until it is taken in")
	cancel()
	for range 2 {
		require.Error(t, <-waiting)
	}
	c.partitions = 5
	other := c.start(c.url)
	want := make(map[string]int)
	for _, it := range items(0) {
		want[it.ID] = 2
	}
	want["id 3"] = 3
	c.await(want)
	paused, _ := other.front.Inspect().Paused()
	require.False(t, paused)
	for p := range c.partitions { // the parts of a call are calls with its key
		of := slices.DeleteFunc(items(2), func(it executor.Item[int]) bool { number, _ := other.PartitionOf(it.ID); return number != p })
		receipts, err := other.q.EnqueueMany(t.Context(), of, executor.IdempotencyKey("once"))
		require.NoError(t, err)
		require.True(t, receipts[0].Duplicate)
	}
	require.Zero(t, c.rows(other))
}

// Who writes into the inbox while partitions become others is there before, and goes with them, or is refused: whatever
// the isolation of its transaction.
func TestRepartitionWaitsForWriters(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 2, time.Second)
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		n := c.node(c.url)
		before, err := connect(t, c.url).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
		require.NoError(t, err)
		require.NoError(t, EnqueueTx(t.Context(), before, n.q, "a", 1))
		late, err := connect(t, c.url).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
		require.NoError(t, err)
		var one int
		require.NoError(t, late.QueryRow(t.Context(), "SELECT 1").Scan(&one)) // what it sees later is of now
		done := make(chan error, 2)
		go func() { _, err := Repartition(t.Context(), c.url, c.config(), 5-c.partitions, false); done <- err }()
		waits := func(writers int) {
			t.Helper()
			require.Eventually(t, func() bool {
				var count int
				require.NoError(t, n.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = $1::regclass",
					in(c.schema, "{schema}.inbox")).Scan(&count))
				return count == writers
			}, time.Minute, time.Millisecond)
		}
		waits(1)
		refused, flushed := make(chan error, 1), make(chan error, 1)
		go func() { refused <- EnqueueTx(t.Context(), late, n.q, "a", 2) }()
		waits(2)
		go func() { _, err := n.q.Enqueue(t.Context(), "a", 3); flushed <- err }()
		waits(3)
		rows := c.rows(n)
		require.NoError(t, before.Commit(t.Context()))
		require.NoError(t, <-done)
		err = <-refused
		require.Error(t, err)
		if level == pgx.ReadCommitted {
			require.ErrorIs(t, err, ErrPartitions)
		}
		require.ErrorIs(t, <-flushed, ErrPartitions)
		require.NoError(t, late.Rollback(t.Context()))
		require.Equal(t, rows+1, c.rows(n), "%s", level)
		c.partitions = 5 - c.partitions
		number, err := c.node(c.url).PartitionOf("a")
		require.NoError(t, err)
		var other int
		require.NoError(t, n.pool.QueryRow(t.Context(), in(c.schema, "SELECT count(*) FROM {schema}.inbox WHERE partition <> $1"), number).Scan(&other))
		require.Zero(t, other)
	}
}

// A follow-up that waits in the inbox stays one, for which no middleware is called, beside calls that come apart.
func TestRepartitionKeepsFollowUps(t *testing.T) {
	r := newRouter(Config{}, 2, 3)
	byOwner := make(map[int][]string)
	for i := range 20 {
		from, to, err := r.at(fmt.Sprint(i))
		require.NoError(t, err)
		if from == 0 {
			byOwner[to] = append(byOwner[to], fmt.Sprint(i))
		}
	}
	require.Greater(t, len(byOwner), 1)
	var calls [][]byte
	var both []item
	for _, ids := range byOwner {
		calls = append(calls, appendItem([]byte{1}, &item{ID: ids[0]}, isStaged))
		both = append(both, item{ID: ids[0]})
	}
	rows, err := r.divided(rowOf([]byte{callsVersion}, append(calls, encodeCall(both))...), 0)
	require.NoError(t, err)
	require.Len(t, rows, len(byOwner))
	for to, row := range rows {
		parts, _, err := callsOf(row)
		require.NoError(t, err)
		require.Len(t, parts, 2)
		for i, call := range parts {
			items, staged, err := itemsOf(call)
			require.NoError(t, err)
			require.Equal(t, i == 0, staged)
			require.Equal(t, byOwner[to][0], items[0].ID)
		}
	}
}
