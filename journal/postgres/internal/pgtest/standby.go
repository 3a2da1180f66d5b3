//go:build unix

package pgtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// standbyName is what a standby calls itself.
const standbyName = "strand_standby"

// Standby makes a standby of the server, for which its commits wait from then on, and runs
// it until the end of the test.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	b := &Server{settings: s.settings}
	require.NoError(t, b.place())
	t.Cleanup(b.remove)
	source := fmt.Sprintf("host=127.0.0.1 port=%s user=postgres application_name=%s", s.port, standbyName)
	require.NoError(t, b.run("pg_basebackup", "-D", b.data(), "-d", source, "-R", "-X", "stream", "-c", "fast", "--no-sync"))
	require.NoError(t, b.launch())
	s.SetStandbys(t, standbyName)
	s.await(t, fmt.Sprintf("SELECT EXISTS (SELECT FROM pg_stat_replication WHERE application_name = '%s' AND sync_state = 'sync')", standbyName))
	return b
}

// SetStandbys names the standbys that commits wait for; none: they wait for none.
func (s *Server) SetStandbys(t testing.TB, names string) {
	t.Helper()
	s.Exec(t, fmt.Sprintf("ALTER SYSTEM SET synchronous_standby_names = '%s'", names))
	s.Exec(t, "SELECT pg_reload_conf()")
	s.await(t, fmt.Sprintf("SELECT current_setting('synchronous_standby_names') = '%s'", names))
}

// Promote makes a standby a primary, and waits until it takes writes.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	s.Exec(t, "SELECT pg_promote(true)")
	s.await(t, "SELECT NOT pg_is_in_recovery()")
}

// Exec runs a statement as superuser.
func (s *Server) Exec(t testing.TB, sql string) {
	t.Helper()
	require.NoError(t, s.connected(patience, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql)
		return err
	}))
}

// await waits until a question is answered with true.
func (s *Server) await(t testing.TB, question string) {
	t.Helper()
	said := func() (yes bool) { return s.query(question, &yes) == nil && yes }
	if !assert.Eventually(t, said, patience, 10*time.Millisecond, question) {
		t.Fatal(s.Output())
	}
}

// Pooler runs pgbouncer before the server until the end of the test, in a mode: session,
// transaction or statement. Settings are like "server_round_robin = 1". It returns the URL of
// the server through it. Where it is not installed the test skips.
func (s *Server) Pooler(t testing.TB, mode string, settings ...string) string {
	t.Helper()
	if tool("pgbouncer") == "" {
		t.Skip("no pgbouncer here: install pgbouncer to run this test")
	}
	p := new(Server)
	require.NoError(t, p.place())
	t.Cleanup(p.remove)
	lines := append([]string{"[databases]", "* = host=127.0.0.1 port=" + s.port, "[pgbouncer]", "listen_addr = 127.0.0.1",
		"listen_port = " + p.port, "unix_socket_dir =", "auth_type = trust", "auth_file = users.txt", "pool_mode = " + mode}, settings...)
	users := []byte(`"postgres" ""` + "\n")
	for name, text := range map[string][]byte{"pgbouncer.ini": []byte(strings.Join(lines, "\n")), "users.txt": users} {
		require.NoError(t, os.WriteFile(filepath.Join(p.dir, name), text, 0o644))
	}
	require.NoError(t, p.begin("pgbouncer", "pgbouncer.ini"))
	if !p.answers(time.Now().Add(patience), s.data()) {
		t.Fatalf("pgbouncer does not answer: %s", p.Output())
	}
	return p.URL()
}
