//go:build unix

package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// A server is killed while it is moved to or from.
func TestMoveWithAKilledServer(t *testing.T) {
	third(t, 0)
	t.Parallel()
	server := pgtest.Start(t)
	t.Run("at the commit", func(t *testing.T) { killedAtTheCommit(t, server) })
	t.Run("at any moment", func(t *testing.T) { killedAtAnyMoment(t, server) })
}

// A server that is killed at any moment has all of an import or nothing, and Import says which;
// an export is there or not. What they are made from stays as it is.
func killedAtAnyMoment(t *testing.T, server *pgtest.Server) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	n, rounds := 1000, 1
	if long() {
		n, rounds = 10_000, 50
	}
	builtJournal(t, from, n)
	file, err := os.ReadFile(filepath.Join(from, "journal.db"))
	require.NoError(t, err)
	full := newRig(t, server.URL(), 4)
	began := time.Now()
	want, err := Import(t.Context(), server.URL(), full.config(), from)
	require.NoError(t, err)
	usual := time.Since(began)
	kill := func(do func() error) error {
		t.Helper()
		ended := make(chan error, 1)
		go func() { ended <- do() }()
		time.Sleep(rand.N(usual * 5 / 4)) // at a time that is not chosen
		server.Kill()
		server.Restart(t)
		err := <-ended
		require.NotErrorIs(t, err, journal.ErrCorrupt)
		require.NotErrorIs(t, err, journal.ErrUnknown, "it is back within a minute")
		return err
	}
	imported, exported := 0, 0
	r := newRig(t, server.URL(), 4)
	for range rounds {
		err := kill(func() error { _, err := Import(t.Context(), server.URL(), r.config(), from); return err })
		got, broken := Check(t.Context(), server.URL(), r.config())
		require.NoError(t, broken)
		if err == nil {
			require.Equal(t, want, got)
			imported++
			r = newRig(t, server.URL(), 4)
		} else {
			require.Equal(t, Moved{Partitions: 4}, got, "%v", err)
		}

		err = kill(func() error { _, err := Export(t.Context(), server.URL(), full.config(), to); return err })
		names, broken := os.ReadDir(dir)
		require.NoError(t, broken)
		if err == nil {
			exported++
			require.Len(t, names, 2)
			requireDivided(t, from, to, Config{}.divide(4))
			require.NoError(t, os.RemoveAll(to))
		} else {
			require.Len(t, names, 1, "%v", err)
		}
	}
	t.Logf("of %d kills %d came after an import, and %d after an export; an import takes %v", rounds, imported, exported, usual)
	_, err = Import(t.Context(), server.URL(), r.config(), from) // what the last one has left is no obstacle
	require.NoError(t, err)
	_, err = Export(t.Context(), server.URL(), full.config(), to)
	require.NoError(t, err)
	after, err := os.ReadFile(filepath.Join(from, "journal.db"))
	require.NoError(t, err)
	require.Equal(t, file, after)
}

// A server that is killed at the commit of an import has it or has not, and the import knows it,
// once the server is back. Nodes that wait for it serve all or nothing.
func killedAtTheCommit(t *testing.T, server *pgtest.Server) {
	c := newCluster(t, server.URL(), 2, leastLease)
	dir := filepath.Join(t.TempDir(), "journal")
	b, err := journal.NewBuilder(dir, 1000, 1)
	require.NoError(t, err)
	require.NoError(t, b.Queue("q", 1))
	const ids, each = 20, 5
	want := make(map[string]int)
	for i := range ids * each {
		id := fmt.Sprint("id ", i%ids)
		require.NoError(t, b.Add(journal.Entry{Kind: journal.KindEnqueued, Queue: 1, Position: journal.Position(i + 1), ID: []byte(id),
			Due: 1, Payload: fmt.Append(nil, i/ids+1)}))
		want[id] = each
	}
	require.NoError(t, b.Finish())

	// Before: the server never sees the commit, and is not back before the import gives up.
	n := c.node(c.url)
	for _, outcome := range []time.Duration{300 * time.Millisecond, time.Minute} {
		if outcome == time.Minute && !long() {
			continue
		}
		m, err := newMover(t.Context(), c.url, c.config(), true)
		require.NoError(t, err)
		m.outcome = outcome
		tx, err := m.begin(t.Context(), pgx.TxOptions{})
		require.NoError(t, err)
		uuids := [][]byte{format.NewUUID(), format.NewUUID()}
		require.NoError(t, m.fill(t.Context(), "journal", []string{dir}, uuids))
		server.Freeze()
		ended := make(chan error, 1)
		go func() { ended <- m.commit(context.Background(), tx, uuids[0]) }()
		server.Kill()
		if outcome == time.Minute {
			server.Restart(t)
			err = <-ended
			require.NotErrorIs(t, err, journal.ErrUnknown)
		} else {
			err = <-ended
			require.ErrorIs(t, err, journal.ErrUnknown)
			server.Restart(t)
		}
		require.Error(t, err)
		m.close()
		got, err := Check(t.Context(), c.url, c.config())
		require.NoError(t, err)
		require.Equal(t, Moved{Partitions: 2}, got)
	}

	// After: the server has it, and is killed before it says so, while it waits for a standby.
	server.SetStandbys(t, "nobody")
	ended := make(chan error, 1)
	go func() { _, err := Import(t.Context(), c.url, c.config(), dir); ended <- err }()
	watch := (&rig{}).newPool(t, c.url)
	require.Eventually(t, func() bool {
		waits := 0
		require.NoError(t, watch.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").Scan(&waits))
		return waits > 0
	}, time.Minute, 5*time.Millisecond)
	require.NoError(t, n.front.Start(context.Background()))
	require.Empty(t, n.Partitions())
	server.Kill()
	server.Restart(t)
	server.SetStandbys(t, "")
	require.NoError(t, <-ended)
	c.serving(n)
	c.await(want)
	require.Zero(t, c.repeats)
}
