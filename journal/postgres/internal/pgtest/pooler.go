//go:build unix

package pgtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
