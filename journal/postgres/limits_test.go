//go:build unix

package postgres

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cluster"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// A call that the server could not take in one message is refused before anything is sent, and
// the calls after it go on.
func TestACallThatIsTooLargeIsRefused(t *testing.T) {
	c := newCluster(t, pgtest.Shared(t).URL(), 2, time.Second)
	n, err := openNode(t.Context(), c.url, c.config())
	require.NoError(t, err)
	t.Cleanup(n.kill)
	q, err := executor.Handle(n.front, "q", func(context.Context, executor.Job[[]byte]) error { return nil },
		executor.QueueConfig[[]byte]{})
	require.NoError(t, err)
	payload := make([]byte, 1<<20)
	items := make([]executor.Item[[]byte], 1100)
	for i := range items {
		items[i] = executor.Item[[]byte]{ID: strings.Repeat("i", i%2+1), Payload: payload}
	}
	_, err = q.EnqueueMany(t.Context(), items)
	require.ErrorIs(t, err, executor.ErrTooLarge)
	require.ErrorContains(t, err, "item 255: ")
	require.ErrorContains(t, err, "the limit is 268435456; make several calls")
	pairs := executor.Metadata(map[string]string{"k": strings.Repeat("v", 1000)})
	for i := range items[:255] {
		items[i].Payload = payload[:1<<20-1000]
	}
	_, err = n.outbox.divided(items[:256])
	require.NoError(t, err)
	carried, _, err := cluster.Carry(q, items[:256], pairs)
	require.NoError(t, err)
	_, err = n.outbox.divided(carried)
	require.ErrorIs(t, err, executor.ErrTooLarge, "metadata counts, too")
	receipts, err := q.EnqueueMany(t.Context(), items[:3])
	require.NoError(t, err)
	require.Zero(t, receipts[2].Position, "it is in the inbox")
}

// A single payload may be as large as MaxPayloadBytes: the limit of a call is no other one.
func TestTheLimitOfACallIsNotThatOfAPayload(t *testing.T) {
	most := callBytes
	x, err := executor.Open("", executor.Config{Advanced: executor.Advanced{MaxPayloadBytes: most}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = x.Stop(context.Background()) })
	q, err := executor.Handle(x, "q", func(context.Context, executor.Job[[]byte]) error { return nil }, executor.QueueConfig[[]byte]{})
	require.NoError(t, err)
	n := &Node{divide: Config{}.divide(1)}
	n.outbox.n = n
	payload := make([]byte, most+1)
	_, err = n.outbox.divided([]item{{ID: "a", Payload: payload[:most]}})
	require.NoError(t, err)
	_, err = n.outbox.divided([]item{{ID: "a", Payload: payload[:most]}, {ID: "a"}})
	require.ErrorIs(t, err, executor.ErrTooLarge)
	_, _, err = cluster.Carry(q, []item{{ID: "a", Payload: payload}})
	require.ErrorIs(t, err, executor.ErrTooLarge)
}

// A call whose caller has gone before its flush began is not written, and keeps nobody waiting.
func TestAnAbandonedCallIsDropped(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Second)
	n := c.node(c.url)
	tx, err := n.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), in(c.schema, "LOCK TABLE {schema}.inbox IN SHARE MODE"))
	require.NoError(t, err)
	put := func(ctx context.Context, id string) chan error {
		done := make(chan error, 1)
		go func() {
			_, err := n.q.Enqueue(ctx, id, 1)
			done <- err
		}()
		return done
	}
	waiting := func(count int, busy bool) {
		require.Eventually(t, func() bool {
			n.outbox.mu.Lock()
			defer n.outbox.mu.Unlock()
			return len(n.outbox.pending) == count && n.outbox.busy == busy
		}, time.Minute, time.Millisecond)
	}
	first := put(t.Context(), "first")
	waiting(0, true)
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	abandoned := put(ctx, "abandoned")
	waiting(1, true)
	last := put(t.Context(), "last")
	waiting(2, true)
	cancel(gone)
	err = <-abandoned
	require.ErrorIs(t, err, gone)
	require.NotErrorIs(t, err, executor.ErrUnknown)
	waiting(1, true)
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, <-first)
	require.NoError(t, <-last)
	require.Equal(t, 2, c.rows(n))
}

// What a flush has taken is nobody else's, while there is always something pending.
func TestTheOutboxKeepsNoCallThatItHasWritten(t *testing.T) {
	o := &outbox{busy: true, quiet: make(chan struct{})}
	put := func() weak.Pointer[outCall] {
		c := &outCall{size: flushBytes}
		o.pending = append(o.pending, c)
		return weak.Make(c)
	}
	first, gone, second := put(), put(), put()
	_, pending := o.withdraw(gone.Value())
	require.True(t, pending)
	require.Equal(t, []*outCall{first.Value()}, o.next())
	runtime.GC()
	require.Nil(t, first.Value())
	require.Nil(t, gone.Value())
	require.NotNil(t, second.Value())
	require.Len(t, o.next(), 1)
	runtime.GC()
	require.Nil(t, second.Value())
	third := put()
	require.Len(t, o.next(), 1)
	require.Empty(t, o.next())
	runtime.GC()
	require.Nil(t, third.Value())
	<-o.quiet
}

// Leases of before the server's clock was set back by a day do not last a day, and one that may
// be a real one does.
func TestLeasesThatNoNodeCanHaveAreOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 4, time.Second)
	n := c.node(c.url)
	set := func(sql string) {
		_, err := n.pool.Exec(t.Context(), in(c.schema, sql))
		require.NoError(t, err)
	}
	acquired := func() (epoch *int64) {
		require.NoError(t, n.pool.QueryRow(t.Context(), n.texts["acquire"], 0, n.id, 1).Scan(&epoch))
		return epoch
	}
	set("UPDATE {schema}.lease SET owner = gen_random_uuid(), expires = clock_timestamp() + interval '1 hour'")
	require.Nil(t, acquired())
	set("UPDATE {schema}.lease SET expires = clock_timestamp() + interval '1 day'")
	set(`INSERT INTO {schema}.node (id, name, expires)
		SELECT gen_random_uuid(), 'dead', clock_timestamp() + interval '1 day' FROM generate_series(1, 20)`)
	s := cmpStats(t, n.Node)
	require.Empty(t, s.Nodes)
	require.Empty(t, s.Partitions[0].Owner)
	require.NoError(t, n.front.Start(t.Context()))
	c.serving(n)
	set(n.texts["sweep"])
	var rows int
	require.NoError(t, n.pool.QueryRow(t.Context(), in(c.schema, "SELECT count(*) FROM {schema}.node")).Scan(&rows))
	require.LessOrEqual(t, rows, 1)
}

// warnings counts records with a text.
type warnings struct {
	slog.Handler
	text  string
	count *atomic.Int32
}

func (w warnings) Handle(_ context.Context, r slog.Record) error {
	if r.Message == w.text {
		w.count.Add(1)
	}
	return nil
}
func (w warnings) WithAttrs([]slog.Attr) slog.Handler { return w }
func (w warnings) WithGroup(string) slog.Handler      { return w }

// A server that can't be reached is told of once, however often that is tried.
func TestAnOutageIsToldOfOnce(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t)
	c := newCluster(t, s.URL(), 1, time.Second)
	proxy := NewProxy(t, s.Addr())
	var count atomic.Int32
	n := c.start(proxy.URL(c.url), func(cfg *Config) {
		cfg.Executor.Logger = slog.New(warnings{slog.NewTextHandler(t.Output(), nil), "leases can't be renewed", &count})
	})
	c.serving(n)
	proxy.Refuse()
	proxy.Cut()
	require.Eventually(t, func() bool { return len(n.Partitions()) == 0 }, time.Minute, time.Millisecond)
	for range 3 {
		_, err := n.tend()
		require.Error(t, err)
	}
	require.EqualValues(t, 1, count.Load())
}
