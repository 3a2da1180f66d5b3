//go:build unix

package control

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
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
	require.Equal(t, []string{filepath.Base(path(dir))}, names(t, dir))
}

// Under its name the socket has had its mode from the first moment on, whatever the umask
// of the process: whoever looks all the time never sees another one.
func TestTheModeIsThereBeforeTheName(t *testing.T) {
	dir := short(t)
	over, looked := make(chan struct{}), make(chan map[fs.FileMode]int)
	var seen atomic.Int32
	go func() {
		modes := make(map[fs.FileMode]int)
		for {
			if info, err := os.Lstat(path(dir)); err == nil {
				modes[info.Mode()]++
				seen.Add(1)
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
	for i := 0; i < 300 || seen.Load() == 0; i++ {
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
	require.NoError(t, listen(t, dir).Close(), "it died before there was a socket")
	require.NoError(t, os.Mkdir(filepath.Join(dir, nursery), 0o700))
	left(t, filepath.Join(dir, nursery, "s"))
	l := listen(t, dir)
	require.Equal(t, []string{filepath.Base(path(dir))}, names(t, dir))
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

	require.NoFileExists(t, filepath.Join(dir, nursery))
}

// What is in the place where the socket is made, and is no socket that nobody answers on,
// is left as it is.
func TestOnlyASocketOfTheDeadIsTakenAway(t *testing.T) {
	elsewhere := short(t)
	require.NoError(t, os.WriteFile(filepath.Join(elsewhere, "s"), []byte("kept"), 0o644))
	for what, put := range map[string]func(t *testing.T, at string){
		"a file":                             func(t *testing.T, at string) { require.NoError(t, os.WriteFile(at, []byte("kept"), 0o644)) },
		"a link":                             func(t *testing.T, at string) { require.NoError(t, os.Symlink(elsewhere, at)) },
		"a folder of a user":                 func(t *testing.T, at string) { folder(t, at, "letters") },
		"a file with the name of the socket": func(t *testing.T, at string) { folder(t, at, "s") },
		"a socket and a file": func(t *testing.T, at string) {
			folder(t, at, "letters")
			left(t, filepath.Join(at, "s"))
		},
		"a socket that answers": func(t *testing.T, at string) {
			require.NoError(t, os.Mkdir(at, 0o700))
			l, err := net.Listen("unix", filepath.Join(at, "s"))
			require.NoError(t, err)
			t.Cleanup(func() { _ = l.Close() })
		},
		"a socket for datagrams": func(t *testing.T, at string) {
			require.NoError(t, os.Mkdir(at, 0o700))
			conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(at, "s"), Net: "unixgram"})
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() })
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := short(t)
			put(t, filepath.Join(dir, nursery))
			before := tree(t, dir)
			_, err := Listen(dir)
			require.ErrorIs(t, err, errNoSocket)
			require.ErrorContains(t, err, filepath.Join(dir, nursery))
			require.ErrorContains(t, err, "move it away")
			require.Equal(t, before, tree(t, dir))
		})
	}
	text, err := os.ReadFile(filepath.Join(elsewhere, "s"))
	require.NoError(t, err)
	require.Equal(t, "kept", string(text))
}

// folder makes one with a file in it.
func folder(t *testing.T, at, name string) {
	t.Helper()
	require.NoError(t, os.Mkdir(at, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(at, name), []byte("kept"), 0o644))
}

// left is a socket that nobody answers on.
func left(t *testing.T, at string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
}

// tree is all that is in a directory, with its kind and when it changed.
func tree(t *testing.T, dir string) (all []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		all = append(all, fmt.Sprint(path, info.Mode(), info.Size(), info.ModTime()))
		return err
	}))
	return all
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

// A process that goes while it is asked is told as such, and not as an error of a socket.
func TestAProcessThatGoes(t *testing.T) {
	for _, answer := range []string{"", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"} {
		dir := short(t)
		l := listen(t, dir)
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1<<10))
			_, _ = conn.Write([]byte(answer))
			_ = conn.Close()
		}()
		c := Connect(dir, time.Minute)
		defer c.Close()
		_, err := Call[Hello](t.Context(), c, VerbHello, None{})
		require.ErrorIs(t, err, errCutOff)
		require.NotContains(t, err.Error(), dir)
	}
}
