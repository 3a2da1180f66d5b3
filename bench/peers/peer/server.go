package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

const (
	startUp  = 20 * time.Second
	windDown = 10 * time.Second
)

// process is a server that runs as long as its peer. A child that is killed
// takes it along: they are in one process group.
type process struct {
	command *exec.Cmd
	output  bytes.Buffer
	ended   chan struct{}
}

// start runs a server and waits until it accepts connections.
func start(ctx context.Context, command *exec.Cmd, address string) (*process, error) {
	p := &process{command: command, ended: make(chan struct{})}
	command.Stdout, command.Stderr = &p.output, &p.output
	if err := command.Start(); err != nil {
		return nil, err
	}
	go func() { _ = command.Wait(); close(p.ended) }()
	ctx, cancel := context.WithTimeout(ctx, startUp)
	defer cancel()
	for {
		if conn, err := net.Dial("tcp", address); err == nil {
			return p, conn.Close()
		}
		select {
		case <-p.ended:
			return nil, fmt.Errorf("%s ended: %s", command.Path, bytes.TrimSpace(p.output.Bytes()))
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("%s does not answer on %s: %w", command.Path, address, context.Cause(ctx)), p.stop())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (p *process) stop() error {
	_ = p.command.Process.Signal(syscall.SIGINT) // it may have ended
	select {
	case <-p.ended:
		return nil
	case <-time.After(windDown):
		return errors.Join(fmt.Errorf("%s did not end within %v", p.command.Path, windDown), p.command.Process.Kill())
	}
}

// freeAddress returns a port on loopback that was free a moment ago.
func freeAddress() (address, port string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	address = l.Addr().String()
	_, port, err = net.SplitHostPort(address)
	return address, port, errors.Join(err, l.Close())
}

func noRedis() string {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return "redis-server"
	}
	return ""
}

// startRedis runs a Redis that keeps everything in an append-only file in dir.
func startRedis(ctx context.Context, dir, appendfsync string) (*process, string, error) {
	address, port, err := freeAddress()
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		return nil, "", err
	}
	p, err := start(ctx, exec.Command("redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "",
		"--appendonly", "yes", "--appendfsync", appendfsync), address)
	return p, address, err
}

// postgresTool finds a program of PostgreSQL. Debian keeps them out of PATH.
func postgresTool(name string) string {
	if found, err := filepath.Glob(filepath.Join("/usr/lib/postgresql/*/bin", name)); err == nil && len(found) > 0 {
		return slices.Max(found)
	}
	found, _ := exec.LookPath(name) // empty without one
	return found
}

func noPostgres() string {
	if postgresTool("postgres") == "" || postgresTool("initdb") == "" {
		return "postgresql"
	}
	return ""
}

// startPostgres makes a new cluster in dir and runs it with its default
// settings.
func startPostgres(ctx context.Context, dir string) (*process, string, error) {
	return runPostgres(ctx, dir, "initdb", "-D", dir, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync", "--no-instructions")
}

// startStandby makes a copy of a server in dir and runs it as its standby.
func startStandby(ctx context.Context, dir string, of uint16) (*process, error) {
	p, _, err := runPostgres(ctx, dir, "pg_basebackup", "-D", dir, "-R", "-X", "stream", "-c", "fast", "--no-sync",
		"-d", fmt.Sprintf("host=127.0.0.1 port=%d user=postgres application_name=standby", of))
	return p, err
}

// runPostgres runs a server on what a command puts into dir. It refuses to run as
// root; then it runs as the user postgres.
func runPostgres(ctx context.Context, dir, tool string, args ...string) (*process, string, error) {
	who := &syscall.SysProcAttr{}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, "", err
	}
	if os.Geteuid() == 0 {
		credential, err := ownBy("postgres", dir)
		if err != nil {
			return nil, "", err
		}
		who.Credential = credential
	}
	address, port, err := freeAddress()
	if err != nil {
		return nil, "", err
	}
	fill := exec.CommandContext(ctx, postgresTool(tool), args...)
	fill.SysProcAttr, fill.Dir = who, dir
	if out, err := fill.CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("%s: %w: %s", tool, err, bytes.TrimSpace(out))
	}
	command := exec.Command(postgresTool("postgres"), "-D", dir, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=")
	command.SysProcAttr, command.Dir = who, dir
	p, err := start(ctx, command, address)
	return p, fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", address), err
}

// ownBy gives dir to a user, who must be able to get there.
func ownBy(name, dir string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, errU := strconv.ParseUint(u.Uid, 10, 32)
	gid, errG := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(errU, errG, os.Chown(dir, int(uid), int(gid)), os.Chmod(filepath.Dir(dir), 0o711)); err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
