//go:build unix

package control

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// short is a directory whose path leaves room for a socket.
func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "c")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func listen(t *testing.T, dir string) net.Listener {
	t.Helper()
	l, err := Listen(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// names are what a directory holds.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// abandon leaves a socket as a process that is killed does.
func abandon(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, listen(t, dir).(*socket).UnixListener.Close())
	require.Equal(t, []string{socketName}, names(t, dir))
}

// Under its name the socket has had its mode from the first moment on, whatever the umask
// of the process: whoever looks all the time never sees another one.
func TestTheModeIsThereBeforeTheName(t *testing.T) {
	dir := short(t)
	over, looked := make(chan struct{}), make(chan map[fs.FileMode]int)
	go func() {
		modes := make(map[fs.FileMode]int)
		for {
			if info, err := os.Lstat(path(dir)); err == nil {
				modes[info.Mode()]++
			}
			if info, err := os.Lstat(filepath.Join(dir, nursery)); err == nil {
				modes[info.Mode()]++
			}
			select {
			case <-over:
				looked <- modes
				return
			default:
			}
		}
	}()
	for range 300 {
		require.NoError(t, listen(t, dir).Close())
	}
	close(over)
	modes := <-looked
	require.NotEmpty(t, modes)
	for mode := range modes {
		assert.Contains(t, []fs.FileMode{fs.ModeSocket | 0o600, fs.ModeDir | 0o700}, mode)
	}
	require.Empty(t, names(t, dir), "Close takes all away")
}

// What a dead process has left is replaced, and so is a nursery.
func TestWhatTheDeadLeft(t *testing.T) {
	dir := short(t)
	abandon(t, dir)
	require.NoError(t, os.Mkdir(filepath.Join(dir, nursery), 0o700))
	left, err := net.Listen("unix", filepath.Join(dir, nursery, "s"))
	require.NoError(t, err)
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, left.Close())
	l := listen(t, dir)
	require.Equal(t, []string{socketName}, names(t, dir))
	conn, err := net.Dial("unix", path(dir))
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.NoError(t, l.Close())
	require.NoError(t, l.Close(), "twice")
}

// What is not ours stays: a socket that answers, a file, a link and what it points at. So
// does what has come in the place of the socket before it is closed.
func TestWhatIsNotOursStays(t *testing.T) {
	dir := short(t)
	l := listen(t, dir)
	_, err := Listen(dir)
	require.ErrorIs(t, err, errNoSocket)
	require.ErrorContains(t, err, "somebody answers on "+path(dir))

	require.NoError(t, os.Remove(path(dir)))
	precious := filepath.Join(dir, "precious")
	require.NoError(t, os.WriteFile(precious, []byte("kept"), 0o644))
	require.NoError(t, os.Symlink(precious, path(dir)))
	require.NoError(t, l.Close())
	_, err = Listen(dir)
	require.ErrorIs(t, err, errNoSocket)
	require.ErrorContains(t, err, "is no socket (mode L")
	require.NoError(t, os.Remove(path(dir)))
	require.NoError(t, os.WriteFile(path(dir), []byte("kept"), 0o644))
	_, err = Listen(dir)
	require.ErrorContains(t, err, "is no socket (mode -rw-r--r--); move it away")
	require.NoError(t, os.Remove(path(dir)))

	// A nursery that is a link is taken away, and not what it points at.
	elsewhere := short(t)
	require.NoError(t, os.WriteFile(filepath.Join(elsewhere, "s"), []byte("kept"), 0o644))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, nursery)))
	listen(t, dir)
	for _, kept := range []string{precious, filepath.Join(elsewhere, "s")} {
		text, err := os.ReadFile(kept)
		require.NoError(t, err)
		require.Equal(t, "kept", string(text))
	}
}

func TestWhereThereIsNoSocket(t *testing.T) {
	dir := short(t)
	require.NoError(t, os.Chmod(dir, 0o777))
	_, err := Listen(dir)
	require.ErrorIs(t, err, errNoSocket)
	require.ErrorContains(t, err, "every user may write to "+dir+", mode drwxrwxrwx; take that away: chmod o-w")
	require.Empty(t, names(t, dir))

	long := filepath.Join(short(t), strings.Repeat("x", 90))
	require.NoError(t, os.Mkdir(long, 0o700))
	_, err = Listen(long)
	require.ErrorIs(t, err, errNoSocket)
	require.ErrorContains(t, err, "and the system takes 103; open the journal by a shorter one")
	_, err = Listen(filepath.Join(dir, "no"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	// The longest one that works: 89 bytes.
	fits := short(t)
	fits = filepath.Join(fits, strings.Repeat("x", 89-len(fits)-1))
	require.NoError(t, os.Mkdir(fits, 0o700))
	listen(t, fits)
	_, err = Listen(fits + "/.")
	require.ErrorContains(t, err, "somebody answers", "it is the path that counts, as it is when it is clean")
}

// A client of a socket that is not there, or that nobody answers on, is told so.
func TestNobody(t *testing.T) {
	dir := short(t)
	for range 2 {
		c := Connect(dir, time.Minute)
		_, err := Call[Hello](context.Background(), c, VerbHello, None{})
		require.ErrorIs(t, err, ErrNobody)
		c.Close()
		if len(names(t, dir)) == 0 {
			abandon(t, dir)
		}
	}
}
