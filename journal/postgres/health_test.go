//go:build unix

package postgres

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// A node that can't reach the server says so, since when, and that it can again; a lease that it
// lost meanwhile is no failure of an executor.
func TestErrTellsOfAnOutage(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t)
	for name, begin := range map[string]func(*Proxy){
		"refused": func(p *Proxy) { p.Refuse(); p.Cut() },
		"silent":  func(p *Proxy) { p.Swallow() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, s.URL(), 2, 900*time.Millisecond)
			proxy := NewProxy(t, s.Addr())
			var fatal atomic.Int32
			n := c.start(proxy.URL(c.url), func(cfg *Config) { cfg.Executor.OnFatal = func(error) { fatal.Add(1) } })
			c.serving(n)
			c.well(n)
			_, err := n.q.Enqueue(t.Context(), "a", 1)
			require.NoError(t, err)
			c.await(map[string]int{"a": 1})
			begin(proxy)
			c.says(n, "connection: leases can't be renewed or taken since "+time.Now().Format("2006-"))
			calling, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			for i := range 2 { // a commit that has no end is under way when the lease is lost
				_, _ = n.q.Enqueue(calling, string(rune('b'+i)), 1)
			}
			require.Eventually(t, func() bool { return len(n.Partitions()) == 0 }, time.Minute, time.Millisecond)
			require.Error(t, n.front.Err())
			proxy.Heal()
			c.serving(n)
			c.well(n)
			require.Zero(t, fatal.Load())
		})
	}
}

// A context that has ended before ends each call with its cause, and starts nothing.
func TestEndedContexts(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 2, time.Second)
	mine := errors.New("mine")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(mine)
	var none context.Context
	n := c.node(c.url)
	_, err := n.Stats(ended)
	require.ErrorIs(t, err, mine)
	_, err = Open(ended, c.url, c.config())
	require.ErrorIs(t, err, mine)
	require.ErrorIs(t, Migrate(ended, c.url, Config{Schema: c.schema}), mine)
	require.ErrorIs(t, Migrate(none, c.url, Config{Schema: c.schema}), executor.ErrContext)
	_, err = n.Stats(none)
	require.ErrorIs(t, err, executor.ErrContext)

	require.NoError(t, n.front.Start(ended), "the end of its context means nothing, as with any executor")
	c.serving(n)
	require.ErrorIs(t, n.front.Run(ended), executor.ErrState)
	require.Len(t, n.Partitions(), 2, "a Run that is refused stops nothing")

	other := c.node(c.url)
	require.NoError(t, other.front.Run(ended))
	require.ErrorIs(t, other.front.Start(t.Context()), executor.ErrState, "it has stopped")
}

// After Stop nothing is accepted, in a transaction neither, and Stats says why it has no answer.
func TestAfterStop(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Second)
	db, err := sql.Open("pgx", c.url)
	require.NoError(t, err)
	defer db.Close()
	pool := c.node(c.url).pool
	n := c.start(c.url)
	c.serving(n)
	require.NoError(t, n.front.Stop(t.Context()))
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	require.ErrorIs(t, EnqueueTx(t.Context(), tx, n.q, "a", 1), executor.ErrClosed)
	handler := context.WithValue(t.Context(), partitionKey{}, true)
	require.ErrorIs(t, EnqueueTx(handler, tx, n.q, "a", 1), executor.ErrClosed)
	stx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = stx.Rollback() }()
	require.ErrorIs(t, EnqueueSQL(t.Context(), stx, n.q, "a", 1), executor.ErrClosed)
	_, err = n.Stats(t.Context())
	require.ErrorIs(t, err, executor.ErrClosed)
}

// A server that does not answer Stats keeps no Stop from its end.
func TestStopEndsStats(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t)
	c := newCluster(t, s.URL(), 1, time.Second)
	proxy := NewProxy(t, s.Addr())
	n := c.node(proxy.URL(c.url))
	proxy.Swallow()
	said := make(chan error, 1)
	go func() {
		_, err := n.Stats(context.Background())
		said <- err
	}()
	require.Eventually(t, func() bool { return n.pool.Stat().AcquiredConns() > 0 }, time.Minute, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(t, n.front.Stop(ctx))
	require.ErrorIs(t, <-said, executor.ErrClosed)
}

// While the handlers of a node that stops have not ended, what others enqueue there is accepted, for the
// next owner. Afterwards nothing is.
func TestWhatIsEnqueuedDuringAStop(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, 30*time.Second)
	began, done := make(chan struct{}), make(chan struct{})
	n := c.node(c.url)
	slow, err := executor.Handle(n.Node.front, "slow", func(context.Context, executor.Job[int]) error {
		close(began)
		<-done
		return nil
	}, executor.QueueConfig[int]{})
	require.NoError(t, err)
	require.NoError(t, n.front.Start(t.Context()))
	c.serving(n)
	_, err = slow.Enqueue(t.Context(), "s", 1)
	require.NoError(t, err)
	<-began
	stopped := make(chan error, 1)
	go func() { stopped <- n.front.Stop(context.Background()) }()
	x := n.Partitions()[0]
	require.Eventually(t, func() bool { return errors.Is(x.Err(), executor.ErrClosed) }, time.Minute, time.Millisecond)
	_, err = n.q.Enqueue(t.Context(), "a", 1)
	require.NoError(t, err)
	require.NoError(t, pgx.BeginFunc(t.Context(), connect(t, c.url), func(tx pgx.Tx) error { return EnqueueTx(t.Context(), tx, n.q, "a", 2) }))
	var calling sync.WaitGroup
	last := 2
	calling.Go(func() { // what is accepted until the end is so
		for {
			if _, err := n.q.Enqueue(t.Context(), "a", last+1); err != nil {
				assert.ErrorIs(t, err, executor.ErrClosed)
				assert.NotErrorIs(t, err, executor.ErrUnknown)
				return
			}
			last++
		}
	})
	close(done)
	require.NoError(t, <-stopped)
	calling.Wait()
	next := c.start(c.url)
	c.await(map[string]int{"a": last})
	require.Eventually(t, func() bool { return c.rows(next) == 0 }, time.Minute, 5*time.Millisecond)
	require.Len(t, c.ran["a"], last)
}

// Stop returns a second after its context although the server says nothing.
func TestStopOfASilentServer(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t)
	c := newCluster(t, s.URL(), 2, 30*time.Second)
	proxy := NewProxy(t, s.Addr())
	n := c.start(proxy.URL(c.url))
	c.serving(n)
	proxy.Swallow()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := n.front.Stop(ctx)
	require.Less(t, time.Since(began), 8*time.Second, "and the server is given ten")
	require.ErrorIs(t, err, executor.ErrStuck)
	proxy.Heal()
	require.NoError(t, n.front.Stop(t.Context()), "it has gone on")
}

// A queue that comes after Start is told so each time.
func TestLateQueues(t *testing.T) {
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Second)
	n := c.start(c.url)
	for range 2 {
		_, err := executor.Handle(n.Node.front, "late", func(context.Context, executor.Job[int]) error { return nil },
			executor.QueueConfig[int]{})
		require.ErrorIs(t, err, executor.ErrState)
	}
}

// A schema whose table version is another program's is left alone.
func TestAnotherProgramsSchema(t *testing.T) {
	r := newRig(t, pgtest.Shared(t).URL(), 1)
	for name, columns := range map[string]string{
		"Other columns": "number integer",
		"Other types":   "version text, partitions text",
		"Other nothing": "version integer, partitions integer",
	} {
		r.exec(t, in(name, "CREATE SCHEMA {schema}; CREATE TABLE {schema}.version ("+columns+")"))
		if name == "Other types" {
			r.exec(t, in(name, "INSERT INTO {schema}.version VALUES ('one', 'two')"))
		}
		require.ErrorIs(t, Migrate(t.Context(), r.url, Config{Schema: name}), executor.ErrConfig, name)
		_, err := Open(t.Context(), r.url, Config{Schema: name, SingleServer: true})
		require.ErrorIs(t, err, executor.ErrConfig, name)
		require.ErrorContains(t, err, name)
	}
	require.ErrorIs(t, Migrate(t.Context(), r.url, Config{Schema: "\xff"}), executor.ErrConfig)
}
