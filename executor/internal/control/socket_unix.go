//go:build unix && !solaris && !aix

package control

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Listen makes the socket of the journal in dir, whose lock the caller has. Close takes it
// away, unless another one is there by then.
func Listen(dir string) (net.Listener, error) {
	if n := len(filepath.Join(dir, nursery, born)); n > longestPath {
		return nil, fmt.Errorf("%w: the path in %s would have %d bytes, and the system takes %d; open the journal by a shorter one, relative or through a link",
			errNoSocket, dir, n, longestPath)
	}
	l, err := deliver(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoSocket, err)
	}
	info, err := os.Lstat(path(dir))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", errNoSocket, err), l.Close())
	}
	return &socket{UnixListener: l, path: path(dir), made: info}, nil
}

// nursery is the directory in that of the journal in which the socket is made, and born its name
// there.
const (
	nursery = "control.new"
	born    = "s"
)

// longestPath is what fits into an address on all systems.
const longestPath = 103

// private returns an error for a directory in which every user may put a socket of his
// own in the place of this one.
func private(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && info.Mode().Perm()&0o002 != 0 {
		err = fmt.Errorf("every user may write to %s, mode %v; take that away: chmod o-w", dir, info.Mode())
	}
	return err
}

// vacate makes room for the socket. What a process has left that died goes; anything else
// is an error, and then nothing has been touched.
func vacate(dir string) error {
	if err := leftover(path(dir)); err != nil { // or it is replaced
		return err
	}
	room := filepath.Join(dir, nursery)
	info, err := os.Lstat(room)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is there, and is no directory (mode %v); move it away", room, info.Mode())
	}
	entries, err := os.ReadDir(room)
	for _, e := range entries {
		if e.Name() != born {
			return fmt.Errorf("%s is there, with %q in it; move it away", room, e.Name())
		}
	}
	if err = cmp.Or(err, leftover(filepath.Join(room, born))); err != nil {
		return err
	}
	return clearRoom(room)
}

// clearRoom removes a nursery. What has come into it meanwhile is an error, and stays.
func clearRoom(room string) error {
	if err := os.Remove(filepath.Join(room, born)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Remove(room)
}

// leftover returns nil for a socket that nobody answers on, and where there is nothing.
func leftover(at string) error {
	info, err := os.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there, and is no socket (mode %v); move it away", at, info.Mode())
	}
	conn, err := net.DialTimeout("unix", at, time.Second)
	if err == nil {
		_ = conn.Close()
		return fmt.Errorf("somebody answers on %s already; stop that process, or move it away", at)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) { // full, of another kind, of another user
		return fmt.Errorf("whether somebody answers on %s is not known; move it away: %w", at, err)
	}
	return nil
}

// deliver makes the socket where nobody else can reach it, and gives it its mode and then
// its name.
func deliver(dir string) (*net.UnixListener, error) {
	room := filepath.Join(dir, nursery)
	err := private(dir)
	if err == nil {
		err = vacate(dir)
	}
	if err == nil {
		err = os.Mkdir(room, 0o700)
	}
	if err != nil {
		return nil, err
	}
	at := filepath.Join(room, born)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	if err != nil {
		return nil, errors.Join(err, os.Remove(room))
	}
	l.SetUnlinkOnClose(false) // its name will be another one
	if err = os.Chmod(at, 0o600); err == nil {
		err = os.Rename(at, path(dir))
	}
	if err = errors.Join(err, clearRoom(room)); err != nil {
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
	if err == nil || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("control socket: %w", err)
}
