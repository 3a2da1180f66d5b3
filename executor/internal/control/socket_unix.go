//go:build unix && !solaris && !aix

package control

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Listen makes the socket of the journal in dir, whose lock the caller has. Close takes it
// away, unless another one is there by then.
func Listen(dir string) (net.Listener, error) {
	if err := private(dir); err != nil {
		return nil, err
	}
	if n := len(filepath.Join(dir, nursery, "s")); n > longestPath {
		return nil, noSocket("the path in %s would have %d bytes, and the system takes %d; open the journal by a shorter one, relative or through a link", dir, n, longestPath)
	}
	if err := vacate(dir); err != nil {
		return nil, err
	}
	l, err := deliver(dir)
	if err != nil {
		return nil, noSocket("%w", err)
	}
	info, err := os.Lstat(path(dir))
	if err != nil {
		return nil, errors.Join(noSocket("%w", err), l.Close())
	}
	return &socket{UnixListener: l, path: path(dir), made: info}, nil
}

// longestPath is what fits into an address on all systems.
const longestPath = 103

// private returns an error for a directory in which every user may put a socket of his
// own in the place of this one.
func private(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return noSocket("%w", err)
	}
	if mode := info.Mode(); mode.Perm()&0o002 != 0 {
		return noSocket("every user may write to %s, mode %v; take that away: chmod o-w", dir, mode)
	}
	return nil
}

// vacate makes room for the socket: what a process has left that died goes, and nothing
// else.
func vacate(dir string) error {
	if err := os.RemoveAll(filepath.Join(dir, nursery)); err != nil { // it follows no link
		return noSocket("%w", err)
	}
	info, err := os.Lstat(path(dir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return noSocket("%w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return noSocket("%s is there, and is no socket (mode %v); move it away", path(dir), info.Mode())
	}
	if conn, err := net.DialTimeout("unix", path(dir), time.Second); err == nil {
		_ = conn.Close()
		return noSocket("somebody answers on %s already", path(dir))
	}
	return nil // it is replaced
}

// deliver makes the socket where nobody else can reach it, and gives it its mode and then
// its name.
func deliver(dir string) (*net.UnixListener, error) {
	room := filepath.Join(dir, nursery)
	if err := os.Mkdir(room, 0o700); err != nil {
		return nil, err
	}
	born := filepath.Join(room, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: born, Net: "unix"})
	if err != nil {
		return nil, errors.Join(err, os.Remove(room))
	}
	l.SetUnlinkOnClose(false) // its name will be another one
	if err = os.Chmod(born, 0o600); err == nil {
		err = os.Rename(born, path(dir))
	}
	if err = errors.Join(err, os.RemoveAll(room)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// socket is a listener that takes its name with it.
type socket struct {
	*net.UnixListener
	path string
	made fs.FileInfo
}

func (s *socket) Close() error {
	err := s.UnixListener.Close()
	if now, gone := os.Lstat(s.path); gone == nil && os.SameFile(now, s.made) {
		err = errors.Join(err, os.Remove(s.path))
	}
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	return nil
}
