//go:build unix

package postgres

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// Handlers of each kind, and middlewares around them, have the token of their partition's owner,
// and nobody else has one.
func TestTokenOfEachKindOfHandler(t *testing.T) {
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Second)
	got := make(chan int64, 2)
	cfg := c.config()
	cfg.Executor.Middleware = []executor.Middleware{{Run: func(ctx context.Context, _ *executor.Run, next func(context.Context) error) error {
		got <- Token(ctx)
		return next(ctx)
	}}}
	cfg.Setup = func(x *executor.Executor, _ int) error {
		_, err := executor.Handle(x, "set up", func(ctx context.Context, _ executor.Job[int]) error {
			got <- Token(ctx)
			return nil
		}, executor.QueueConfig[int]{})
		return err
	}
	n, err := openNode(t.Context(), c.url, cfg)
	require.NoError(t, err)
	t.Cleanup(n.kill)
	var queues []*executor.Queue[int]
	q, err := executor.Handle(n.front, "one", func(ctx context.Context, _ executor.Job[int]) error {
		within, cancel := context.WithCancel(ctx)
		defer cancel()
		got <- Token(within)
		return nil
	}, executor.QueueConfig[int]{})
	require.NoError(t, err)
	queues = append(queues, q)
	q, err = executor.HandleMerged(n.front, "merged", func(ctx context.Context, _ executor.Merged[int]) error {
		got <- Token(ctx)
		return nil
	}, executor.QueueConfig[int]{})
	require.NoError(t, err)
	queues = append(queues, q)
	q, err = executor.HandleBatch(n.front, "batch", func(ctx context.Context, _ []executor.Merged[int]) error {
		got <- Token(ctx)
		return nil
	}, executor.QueueConfig[int]{})
	require.NoError(t, err)
	queues = append(queues, q)
	require.NoError(t, n.front.Start(t.Context()))
	c.serving(&testNode{Node: n})
	x := n.Partitions()[0]
	stats, err := x.Stats(t.Context())
	require.NoError(t, err)
	want := int64(stats.Journal.Epoch)
	require.Positive(t, want)
	both := func() {
		t.Helper()
		require.Equal(t, want, <-got)
		require.Equal(t, want, <-got)
	}
	for _, q := range queues {
		_, err := q.Enqueue(t.Context(), "a", 1)
		require.NoError(t, err)
		both()
	}
	_, err = lookup(x, "set up").Enqueue(t.Context(), "a", []byte("1"))
	require.NoError(t, err)
	both()
	var none context.Context
	require.Zero(t, Token(t.Context()))
	require.Zero(t, Token(none))
}

// The token grows with each owner, whatever becomes of the one before, and over a journal's move
// into partitions: a write with a smaller one is one of an owner from before.
func TestTokenGrowsWithEachOwner(t *testing.T) {
	third(t, 1)
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 2*time.Second) // which a busy machine keeps
	dir := filepath.Join(t.TempDir(), "journal")
	const openings = 7
	for range openings { // as a process of its own
		l, err := journal.Open(dir, journal.Config{})
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
	_, err := Import(t.Context(), c.url, c.config(), dir)
	require.NoError(t, err)
	last := int64(openings)
	s := pgtest.Shared(t)
	for i := range 6 {
		proxy := NewProxy(t, s.Addr())
		n, err := openNode(t.Context(), proxy.URL(c.url), c.config())
		require.NoError(t, err)
		t.Cleanup(n.kill)
		got := make(chan int64, 10)
		q, err := executor.Handle(n.front, "tokens", func(ctx context.Context, _ executor.Job[int]) error {
			got <- Token(ctx)
			return nil
		}, executor.QueueConfig[int]{})
		require.NoError(t, err)
		require.NoError(t, n.front.Start(t.Context()))
		run := func() int64 {
			_, err := q.Enqueue(t.Context(), "a", 1)
			require.NoError(t, err)
			return <-got
		}
		token := run()
		require.Greater(t, token, last)
		require.Equal(t, token, run(), "of one owner")
		if last = token; i%2 == 0 {
			require.NoError(t, n.front.Stop(t.Context()))
			continue
		}
		proxy.Refuse()
		proxy.Cut()
		n.kill()
		require.Eventually(t, func() bool { return len(n.Partitions()) == 0 }, time.Minute, time.Millisecond)
	}
}

// What the documentation of Token advises where positions matter: a write of a payload that runs again does not
// take the place of a later one's, and none of an owner from before does.
func TestAFencedWriteDoesNotGoBack(t *testing.T) {
	text, err := os.ReadFile("partition.go")
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(text), "the job, too: SET ")
	set, _, _ := strings.Cut(after, ", with the same condition.")
	set = strings.ReplaceAll(set, "\n//", "")
	conn := connect(t, pgtest.Shared(t).URL())
	_, err = conn.Exec(t.Context(), "CREATE TEMPORARY TABLE account (id text, balance int, fence bigint DEFAULT 0, position bigint DEFAULT 0)")
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), "INSERT INTO account (id) VALUES ('a')")
	require.NoError(t, err)
	for _, write := range []struct {
		token, position, balance, want int
		late                           bool
	}{
		{token: 1, position: 1, balance: 10, want: 10}, {token: 1, position: 2, balance: 20, want: 20},
		{token: 2, position: 1, balance: 10, want: 20}, // it runs again at the next owner
		{token: 1, position: 3, balance: 30, want: 20, late: true},
		{token: 2, position: 2, balance: 20, want: 20}, {token: 2, position: 3, balance: 30, want: 30},
	} {
		done, err := conn.Exec(t.Context(), "UPDATE account SET "+set+" WHERE id = $3 AND fence <= $2", write.balance, write.token, "a", write.position)
		require.NoError(t, err, set)
		require.Equal(t, !write.late, done.RowsAffected() == 1)
		var balance int
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT balance FROM account").Scan(&balance))
		require.Equal(t, write.want, balance, "%+v", write)
	}
}

// lookup returns a queue of bytes; a nil one refuses all.
func lookup(x *executor.Executor, name string) *executor.Queue[[]byte] {
	q, _ := x.Lookup(name)
	return q
}
