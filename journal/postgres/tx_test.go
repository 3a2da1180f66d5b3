//go:build unix

package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

var errRollback = errors.New("rolled back")

// What is enqueued in a transaction is there if and only if that commits, and once, while the
// partitions change their owners.
func TestEnqueueTxIsThereIfItCommits(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 3, 30*time.Second)
	a, b := c.start(c.url), c.start(c.url)
	c.serving(a, b)
	db, err := sql.Open("pgx", c.url)
	require.NoError(t, err)
	defer db.Close()
	_, err = a.pool.Exec(t.Context(), in(c.schema, "CREATE TABLE {schema}.users (id text, n integer)"))
	require.NoError(t, err)

	over := make(chan struct{})
	var moves sync.WaitGroup
	moves.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(50 * time.Millisecond):
			}
			for _, n := range []*testNode{a, b} {
				n.mu.Lock()
				for _, p := range n.held {
					p.giveAway()
					break
				}
				n.mu.Unlock()
			}
		}
	})

	const callers, calls = 6, 60
	want := make(map[string]int)
	var calling sync.WaitGroup
	for i := range callers {
		id := fmt.Sprintf("id %d", i)
		want[id] = calls
		insert := in(c.schema, "INSERT INTO {schema}.users VALUES ($1, $2)")
		with := func(n *testNode, k int, end error) error {
			return pgx.BeginFunc(t.Context(), n.pool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(t.Context(), insert, id, k); err != nil {
					return err
				}
				return cmpErr(EnqueueTx(t.Context(), tx, n.q, id, k), end)
			})
		}
		if i%2 == 0 {
			with = func(n *testNode, k int, end error) error {
				tx, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					return err
				}
				if _, err = tx.ExecContext(t.Context(), insert, id, k); err == nil {
					err = EnqueueSQL(t.Context(), tx, n.q, id, k)
				}
				if err = cmpErr(err, end); err != nil {
					return errors.Join(err, tx.Rollback())
				}
				return tx.Commit()
			}
		}
		calling.Go(func() {
			for k := 1; k <= calls; k++ {
				n := []*testNode{a, b}[rand.IntN(2)]
				// One that is rolled back would run where none may: its number is far away.
				assert.ErrorIs(t, with(n, k+1000, errRollback), errRollback)
				assert.NoError(t, with(n, k, nil))
			}
		})
	}
	calling.Wait()
	close(over)
	moves.Wait()
	c.await(want)
	c.mu.Lock()
	require.Zero(t, c.repeats)
	for id, n := range want {
		require.Len(t, c.ran[id], n)
	}
	c.mu.Unlock()
	require.Eventually(t, func() bool { return c.rows(a) == 0 }, time.Minute, 10*time.Millisecond)
}

// cmpErr is the first error.
func cmpErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestEnqueueTxRefuses(t *testing.T) {
	c := newCluster(t, pgtest.Shared(t).URL(), 2, time.Second)
	n := c.node(c.url)
	tx, err := n.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	require.ErrorIs(t, EnqueueTx(t.Context(), tx, n.q, "", 1), executor.ErrInvalidID)
	require.ErrorIs(t, EnqueueTx(t.Context(), tx, n.q, "a", 1, executor.FromSource("", 1)), executor.ErrInvalidKey)
	require.ErrorIs(t, EnqueueTx(t.Context(), nil, n.q, "a", 1), executor.ErrConfig)
	require.ErrorIs(t, EnqueueSQL(t.Context(), nil, n.q, "a", 1), executor.ErrConfig)
	require.NoError(t, EnqueueTx(t.Context(), tx, n.q, "a", 1), "none of these has touched the transaction")
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, 1, c.rows(n))
}

// Of transactions that come one on the heels of the other few notify, because those wait for
// each other's commits; for what the others bring there are hints after them.
func TestFewTransactionsNotify(t *testing.T) {
	c := newCluster(t, pgtest.Shared(t).URL(), 3, 30*time.Second)
	owner, caller := c.start(c.url), c.node(c.url)
	c.serving(owner)
	conn, err := pgx.Connect(t.Context(), c.url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), "LISTEN "+owner.texts["channel"])
	require.NoError(t, err)

	began := time.Now()
	const calls = 400
	want := make(map[string]int)
	for i := range calls {
		id := fmt.Sprintf("id %d", i%5)
		want[id]++
		require.NoError(t, pgx.BeginFunc(t.Context(), caller.pool, func(tx pgx.Tx) error {
			return EnqueueTx(t.Context(), tx, caller.q, id, want[id])
		}))
	}
	c.await(want)
	windows := int(time.Since(began)/hintEvery) + 1
	_, err = conn.Exec(t.Context(), "SELECT pg_notify($1, 'end')", owner.texts["channel"])
	require.NoError(t, err)
	next := func() string {
		hint, err := conn.WaitForNotification(t.Context())
		require.NoError(t, err)
		return hint.Payload
	}
	hints := 0
	for next() != "end" {
		hints++
	}
	require.Less(t, hints, 2*windows+10) // in transactions, and after them

	for caller.notifier.transaction(0) { // the last of these has none of its own
	}
	for left := 2; left > 0; {
		if slices.Contains(strings.Fields(next()), "0") {
			left--
		}
	}
}

// A context that has ended is told by its cause, and the transaction goes on.
func TestEnqueueTxOfAContextThatHasEnded(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Minute)
	n := c.node(c.url)
	tx, err := connect(t, c.url).Begin(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errRollback)
	require.ErrorIs(t, EnqueueTx(ctx, tx, n.q, "id", 1), errRollback)
	require.NoError(t, EnqueueTx(t.Context(), tx, n.q, "id", 1))
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, 1, c.rows(n))
}
