//go:build unix

// Package pgtest starts real PostgreSQL servers for tests, and hurts them: it kills them,
// stops them for a while, and promotes their standbys.
//
// A server listens on a port of the loopback and keeps its files in a directory of its own
// below that of os.TempDir. As root it runs as the user postgres. Where no server is
// installed tests skip. All servers end with the test process.
package pgtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

const patience = 60 * time.Second

// Server is a PostgreSQL server. Its methods are for one goroutine at a time.
type Server struct {
	dir, port string
	who       *syscall.Credential // nil: as we are
	settings  []string
	command   *exec.Cmd
	ended     chan struct{}
}

// Start makes a server and runs it until the end of the test. Settings are like "fsync=off".
// Without any it has those of the server, but for a smaller cache.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := start(settings)
	usable(t, err)
	t.Cleanup(s.remove)
	return s
}

// lasting are servers that Main removes.
var lasting sync.Map

var shared = sync.OnceValues(func() (*Server, error) {
	s, err := start(nil)
	if err == nil {
		lasting.Store(s, true)
	}
	return s, err
})

// Shared is one server for all tests of a package that don't hurt it; each takes a schema of
// its own. [Main] ends it.
func Shared(t testing.TB) *Server {
	t.Helper()
	s, err := shared()
	usable(t, err)
	return s
}

// Main is for TestMain: it runs the tests and ends the shared server. Parallel ones wait for leases
// and servers more than they compute: unless -parallel is given there are twice as many at a time.
func Main(m *testing.M) (code int) {
	_ = flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))) // testing has it
	defer lasting.Range(func(s, _ any) bool { s.(*Server).remove(); return true })
	return m.Run()
}

// errMissing is why a test skips.
var errMissing = errors.New("install postgresql to run this test")

// usable ends a test that has got no server.
func usable(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, errMissing) {
		t.Skip(err)
	}
	require.NoError(t, err)
}

func start(settings []string) (*Server, error) {
	s := &Server{settings: settings}
	for _, name := range []string{"postgres", "initdb", "pg_basebackup"} {
		if tool(name) == "" {
			return nil, fmt.Errorf("no %s here: %w", name, errMissing)
		}
	}
	if err := s.place(); err != nil {
		return nil, err
	}
	first, err := template()
	if err == nil {
		err = s.run("cp", "-a", first.data(), s.data())
	}
	if err == nil {
		err = s.launch()
	}
	if err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

// template is a server that was never started: to copy it takes a fraction of what making
// one does.
var template = sync.OnceValues(func() (*Server, error) {
	s := new(Server)
	if err := s.place(); err != nil {
		return nil, err
	}
	lasting.Store(s, true)
	return s, s.run("initdb", "-D", s.data(), "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync", "--no-instructions")
})

// tool finds a program of PostgreSQL, which Debian keeps out of PATH.
func tool(name string) string {
	if found, err := filepath.Glob(filepath.Join("/usr/lib/postgresql/*/bin", name)); err == nil && len(found) > 0 {
		return slices.Max(found)
	}
	found, _ := exec.LookPath(name) // empty without one
	return found
}

// place makes a directory that the server's user can get to, and finds a port.
func (s *Server) place() error {
	dir, err := os.MkdirTemp("", "strand-pg-")
	if err != nil {
		return err
	}
	s.dir = dir
	if os.Geteuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			return fmt.Errorf("no user postgres here: %w", errMissing)
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		s.who = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, int(uid), int(gid)); err != nil {
			return err
		}
	}
	s.port, err = freePort()
	return err
}

// freePort finds a port that the system does not give to outgoing connections: while the server
// is away, one of its clients' could be from that very port, to itself, and keep it.
func freePort() (string, error) {
	first, last := 32768, 65535 // with what other systems have
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(text), &first, &last) // as it was if it says something else
	}
	for range 1000 {
		port := 10000 + rand.IntN(65536-10000)
		if first <= port && port <= last {
			continue
		}
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return strconv.Itoa(port), l.Close() // it was free a moment ago
		}
	}
	return "", fmt.Errorf("no port is free of 10000 to 65535 without %d to %d, which are those of clients", first, last)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// run runs a program to its end, as the server's user.
func (s *Server) run(name string, args ...string) error {
	c := exec.Command(cmp.Or(tool(name), name), args...)
	c.Dir, c.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.who}
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	return nil
}

// launch starts the server and waits until it answers.
func (s *Server) launch() error {
	args := []string{"-D", s.data(), "-p", s.port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "shared_buffers=64MB", "-c", "max_connections=400", "-c", "max_wal_senders=4",
		"-c", "dynamic_shared_memory_type=mmap", "-c", "shared_preload_libraries=plpgsql"} // in its directory, so that little is left of one that is killed
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	deadline := time.Now().Add(patience)
	for {
		if err := s.begin("postgres", args...); err != nil {
			return err
		}
		if s.answers(deadline, s.data()) {
			return nil
		}
		// What was killed may have its memory for a moment longer, and others the port.
		if time.Now().After(deadline) {
			return fmt.Errorf("postgres does not answer: %s", s.Output())
		}
	}
}

// begin starts a program as the server's user, from a thread that lives as long as it does: what
// ends it with us, however we end, is sent when the thread ends.
func (s *Server) begin(name string, args ...string) error {
	output, err := os.Create(s.outputFile())
	if err != nil {
		return err
	}
	defer output.Close()
	command, ended, started := exec.Command(tool(name), args...), make(chan struct{}), make(chan error)
	command.Dir, command.SysProcAttr = s.dir, attributes(s.who)
	command.Stdout, command.Stderr = output, output
	s.command, s.ended = command, ended
	go func() {
		runtime.LockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait()
			close(ended)
		}
	}()
	return <-started
}

func (s *Server) outputFile() string { return filepath.Join(s.dir, "output") }

// answers waits until the server accepts connections, or ends: with its files in data, because
// another may have got the port.
func (s *Server) answers(deadline time.Time, of string) bool {
	for time.Now().Before(deadline) {
		var data string
		if err := s.query("SHOW data_directory", &data); err == nil && data == of {
			return true
		}
		select {
		case <-s.ended:
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return false
}

// query asks on a connection of its own.
func (s *Server) query(question string, answer any) error {
	return s.connected(5*time.Second, func(ctx context.Context, conn *pgx.Conn) error { return conn.QueryRow(ctx, question).Scan(answer) })
}

// connected calls do with a connection of its own, which has the settings of the moment.
func (s *Server) connected(most time.Duration, do func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	return do(ctx, conn)
}

// URL is where the server is, for its superuser.
func (s *Server) URL() string {
	return "postgres://postgres@127.0.0.1:" + s.port + "/postgres?sslmode=disable"
}

// Addr is host and port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", s.port) }

// Output is what the server has said since it was started.
func (s *Server) Output() string {
	text, _ := os.ReadFile(s.outputFile()) // empty without one
	return string(text)
}

// Kill ends the server and all its processes with kill -9.
func (s *Server) Kill() {
	s.signal(syscall.SIGKILL)
	<-s.ended
}

// Restart starts a server again that has ended.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	<-s.ended
	require.NoError(t, s.launch())
}

// Freeze stops all processes of the server, with SIGSTOP, until Thaw.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw lets them go on.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

// Stop ends the server in order, without waiting for its clients, and waits for it.
func (s *Server) Stop() {
	_ = s.command.Process.Signal(syscall.SIGINT)
	<-s.ended
}

// Keep copies the files of a server that has ended. SetBack puts them in the place of those that
// it has then, once it has ended again.
func (s *Server) Keep(t testing.TB) (setBack func()) {
	t.Helper()
	kept := filepath.Join(s.dir, "kept")
	require.NoError(t, s.run("cp", "-a", s.data(), kept))
	return func() {
		t.Helper()
		require.NoError(t, os.RemoveAll(s.data()))
		require.NoError(t, os.Rename(kept, s.data()))
	}
}

// signal sends a signal to the server and its children. The server is stopped before: a child
// that it starts meanwhile would be left out, and may wait forever, for a lock that one of the
// killed has, and keep their memory, with which no server can start.
func (s *Server) signal(sig syscall.Signal) {
	if sig != syscall.SIGCONT {
		_ = s.command.Process.Signal(syscall.SIGSTOP)
	}
	pid := s.command.Process.Pid
	for range 2 { // a fork may have been under way
		list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)) // nothing once it has ended
		for field := range strings.FieldsSeq(string(list)) {
			if child, err := strconv.Atoi(field); err == nil {
				_ = syscall.Kill(child, sig)
			}
		}
	}
	_ = s.command.Process.Signal(sig)
}

// remove ends the server, if it runs, and deletes its files.
func (s *Server) remove() {
	if s.command != nil && s.command.Process != nil {
		s.Thaw()
		s.Kill()
	}
	// A server that was killed leaves a segment of System V, which is in the seventh line of this
	// file; of those a machine has 4,096.
	if text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid")); err == nil {
		if lines := strings.Split(string(text), "\n"); len(lines) > 6 {
			if ids := strings.Fields(lines[6]); len(ids) == 2 {
				_ = exec.Command("ipcrm", "-m", ids[1]).Run()
			}
		}
	}
	_ = os.RemoveAll(s.dir)
}
