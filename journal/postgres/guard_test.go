//go:build unix

package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// A server that would not keep what it acknowledges is refused, with what to do.
func TestGuards(t *testing.T) {
	third(t, 1)
	t.Parallel()
	server := pgtest.Start(t)
	role := strings.Replace(server.URL(), "postgres@", "app@", 1)
	server.Exec(t, "CREATE ROLE app LOGIN")
	guard := func(url string, single bool) error { return guardServer(t.Context(), connect(t, url), single, true) }
	require.ErrorIs(t, guard(role, false), ErrUnsafe)
	require.ErrorContains(t, guard(role, false), "synchronous_standby_names is empty")
	require.ErrorContains(t, guard(role, false), "say SingleServer")
	require.NoError(t, guard(role, true))

	standby := server.Standby(t)
	require.NoError(t, guard(role, false))
	require.ErrorContains(t, guard(standby.URL(), true), "is a standby; give the url of the primary")
	server.SetStandbys(t, "")

	for _, test := range []struct {
		set, reset string
		says       string
		withSingle bool // refused with SingleServer, too
	}{
		{"ALTER SYSTEM SET fsync = off", "ALTER SYSTEM RESET fsync", "set fsync = on", true},
		{"ALTER SYSTEM SET full_page_writes = off", "ALTER SYSTEM RESET full_page_writes", "set full_page_writes = on", true},
		{"ALTER ROLE app SET synchronous_commit = off", "ALTER ROLE app RESET ALL", "synchronous_commit is off for app", true},
		{"ALTER ROLE app SET synchronous_commit = local", "ALTER ROLE app RESET ALL", "synchronous_commit is local for app", false},
		{"ALTER ROLE app SET synchronous_commit = remote_write", "ALTER ROLE app RESET ALL", "synchronous_commit is remote_write for app", false},
		{"ALTER ROLE app SET default_transaction_read_only = on", "ALTER ROLE app RESET ALL", "transactions of app are read-only", true},
	} {
		server.Exec(t, test.set)
		server.Exec(t, "SELECT pg_reload_conf()")
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			require.ErrorContains(c, guard(role, false), test.says)
		}, time.Minute, 10*time.Millisecond)
		err := guard(role, true)
		if test.withSingle {
			require.ErrorIs(t, err, ErrUnsafe, test.set)
			require.ErrorContains(t, err, test.says)
		} else {
			require.NoError(t, err, test.set)
		}
		server.Exec(t, test.reset)
		server.Exec(t, "SELECT pg_reload_conf()")
		require.EventuallyWithT(t, func(c *assert.CollectT) { require.NoError(c, guard(role, true)) }, time.Minute, 10*time.Millisecond)
	}
}

// A connection that is made later, to a server that was changed meanwhile, is not used: what
// is under way waits until that is put right.
func TestGuardOfLaterConnections(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	r := newRig(t, server.URL(), 1)
	s := r.own(t, r.pool, 0)
	server.Exec(t, "ALTER ROLE postgres SET synchronous_commit = off")
	r.pool.Reset()
	done := make(chan error)
	go func() { _, err := s.Get(format.BucketState, []byte("k")); done <- err }()
	select {
	case err := <-done:
		t.Fatalf("it was answered %v on a connection that is not safe", err)
	case <-time.After(200 * time.Millisecond):
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.ErrorIs(t, r.pool.Ping(ctx), ErrUnsafe)
	server.Exec(t, "ALTER ROLE postgres RESET ALL")
	require.NoError(t, <-done)
}

// A role with another isolation does not matter: what is read behind a lock is what its last owner has written.
func TestIsolationOfARole(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	server.Exec(t, "ALTER ROLE postgres SET default_transaction_isolation = 'serializable'")
	r := newRig(t, server.URL(), 1)
	var isolation string
	require.NoError(t, r.pool.QueryRow(t.Context(), "SELECT current_setting('transaction_isolation')").Scan(&isolation))
	require.Equal(t, "read committed", isolation)
}
