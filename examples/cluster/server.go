//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// server is a PostgreSQL server with a temporary directory of its own.
type server struct {
	dir, port string
	who       *syscall.Credential // it refuses to be root; nil: as we are
	paired    bool                // commits wait for a standby
	standby   *server             // nil: it is one itself, or there is none
}

// errMissing is returned where PostgreSQL is not installed.
var errMissing = errors.New("no PostgreSQL here: install postgresql, or give -url")

// startServer makes a server and starts it: paired, with a synchronous standby.
func startServer(paired bool) (s *server, err error) {
	if s, err = newServer(paired); err != nil {
		return nil, err
	}
	err = s.do("initdb", "-D", s.data(), "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-instructions")
	if err == nil {
		err = s.start()
	}
	if err == nil && paired {
		if s.standby, err = newServer(paired); err == nil {
			err = s.standby.follow(s)
		}
	}
	if err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

// newServer finds a directory and a port for a server.
func newServer(paired bool) (s *server, err error) {
	if _, err := exec.LookPath(tool("initdb")); err != nil {
		return nil, errMissing
	}
	s = &server{paired: paired}
	if s.dir, err = os.MkdirTemp("", "strand-cluster-"); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			return nil, errors.Join(errMissing, err)
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		s.who = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(s.dir, uid, gid); err != nil {
			return nil, err
		}
	}
	// Not one that the system gives to clients: while the server is away one of them may get it.
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(20000+rand.IntN(12000)))
	if err != nil {
		return nil, err
	}
	_, s.port, _ = net.SplitHostPort(l.Addr().String())
	return s, l.Close() // the port was free a moment ago
}

func (s *server) data() string { return filepath.Join(s.dir, "data") }

// url is where the server is, or whichever of a pair takes writes.
func (s *server) url() string {
	hosts := "127.0.0.1:" + s.port
	if s.standby != nil {
		hosts += ",127.0.0.1:" + s.standby.port
	}
	return "postgres://postgres@" + hosts + "/postgres?sslmode=disable&target_session_attrs=read-write"
}

func (s *server) start() error {
	options := "-p " + s.port + " -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c max_connections=200" +
		" -c dynamic_shared_memory_type=mmap" // in its directory, so that little is left of one that is killed
	if s.paired { // whether there is a standby, by its default name, or not yet: commits wait until there is one
		options += " -c synchronous_standby_names=walreceiver"
	}
	return s.do("pg_ctl", "start", "-w", "-D", s.data(), "-l", filepath.Join(s.dir, "log"), "-o", options)
}

// follow makes the server a standby of another one, whatever it was before.
func (s *server) follow(primary *server) error {
	if err := os.RemoveAll(s.data()); err != nil {
		return err
	}
	err := s.do("pg_basebackup", "-D", s.data(), "-h", "127.0.0.1", "-p", primary.port, "-U", "postgres",
		"-R", "-X", "stream", "-c", "fast", "--no-sync")
	if err != nil {
		return err
	}
	return s.again()
}

// promote kills the server, has its standby take its place, and makes it the standby of that. It returns who serves.
func (s *server) promote() (*server, error) {
	if err := s.kill(); err != nil {
		return s, err
	}
	next := s.standby
	next.standby, s.standby = s, nil
	if err := next.do("pg_ctl", "promote", "-w", "-D", next.data()); err != nil {
		return next, err
	}
	return next, s.follow(next)
}

// kill kills the server with all its processes. The first is stopped before: a process that it starts meanwhile would
// be left out, and may wait forever, for a lock that one of the killed has, and keep their memory, with which no server
// can start.
func (s *server) kill() error {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return err
	}
	_ = syscall.Kill(pid, syscall.SIGSTOP) // it may have ended
	for range 2 {                          // a fork may have been under way
		for _, child := range childrenOf(first) {
			_ = syscall.Kill(child, syscall.SIGKILL)
		}
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// again starts a server that was killed.
func (s *server) again() error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		// Until the last of its processes is gone its memory is taken.
		err := s.start()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			said, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("the server does not start again: %w; it says: %s", err, said[max(0, len(said)-1000):])
		}
	}
}

// childrenOf lists the processes that one has started.
func childrenOf(parent string) (children []int) {
	list, _ := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output() // without it those that are left end by themselves
	for line := range strings.Lines(string(list)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[1] == parent {
			child, _ := strconv.Atoi(fields[0])
			children = append(children, child)
		}
	}
	return children
}

// remove ends the server, and its standby, and deletes their directories.
func (s *server) remove() {
	if s.standby != nil {
		s.standby.remove()
	}
	_ = s.do("pg_ctl", "stop", "-w", "-m", "immediate", "-D", s.data()) // it may not run
	_ = os.RemoveAll(s.dir)
}

// do runs a program of PostgreSQL.
func (s *server) do(name string, args ...string) error {
	c := exec.Command(tool(name), args...)
	c.Dir, c.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.who, Setpgid: true} // Ctrl-C is for us
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}

// tool finds a program of PostgreSQL, which Debian keeps out of PATH.
func tool(name string) string {
	if found, _ := filepath.Glob(filepath.Join("/usr/lib/postgresql/*/bin", name)); len(found) > 0 {
		return slices.Max(found)
	}
	return name
}
