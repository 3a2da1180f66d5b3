package journal

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/stretchr/testify/require"
)

// A process whose file is cut, deleted or replaced does not crash, accepts
// nothing any more, and leaves alone what is there instead.
func TestTamperedWhileOpen(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not allow that")
	}
	other := readFile(t, sample(t))
	for name, tamper := range map[string]func(path string) error{
		"cut to nothing":  func(path string) error { return os.Truncate(path, 0) },
		"cut to one page": func(path string) error { return os.Truncate(path, 4096) },
		"cut in the middle": func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.Truncate(path, info.Size()/2)
		},
		"deleted": os.Remove,
		"a link":  linked,
		"replaced": func(path string) error {
			if err := os.WriteFile(path+".tmp", other, 0o600); err != nil {
				return err
			}
			return os.Rename(path+".tmp", path)
		},
		"moved away and replaced": func(path string) error {
			if err := os.Rename(path, path+".away"); err != nil {
				return err
			}
			return os.WriteFile(path, other, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "j")
			path := filepath.Join(dir, directory.FileName)
			say, end := startOwner(t, dir)
			for range 20 {
				require.Equal(t, "<nil>\n", say())
			}
			require.NoError(t, tamper(path))
			after, _ := os.ReadFile(path)
			for range 3 {
				answer := say()
				require.Contains(t, answer, "journal: ")
				require.Contains(t, answer, "corrupt")
			}
			require.NoError(t, end(), "the process did not crash")
			now, _ := os.ReadFile(path)
			require.Equal(t, after, now)
		})
	}
}

// A directory may be moved while it is in use.
func TestMovedWhileOpen(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not allow that")
	}
	dir := filepath.Join(t.TempDir(), "j")
	say, end := startOwner(t, dir)
	require.Equal(t, "<nil>\n", say())
	require.NoError(t, os.Rename(dir, dir+"-moved"))
	require.Equal(t, "<nil>\n", say())
	require.NoError(t, end())
	l, err := Open(dir+"-moved", Config{})
	require.NoError(t, err)
	require.Len(t, slices.Concat(l.PendingPages(modelQueue)...), 2)
	require.NoError(t, l.Close())
}

// spawnOwner starts a process that opens dir, appends an entry for each line that it
// gets, and says what came of it.
func spawnOwner(t *testing.T, dir string) (owner *exec.Cmd, stdin io.WriteCloser, lines *bufio.Reader) {
	owner = exec.CommandContext(t.Context(), os.Args[0])
	owner.Env = append(os.Environ(), ownEnv+"="+dir)
	stdin, err := owner.StdinPipe()
	require.NoError(t, err)
	stdout, err := owner.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, owner.Start())
	lines = bufio.NewReader(stdout)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	return owner, stdin, lines
}

// startOwner is spawnOwner with the talk. say has it append an entry and returns what
// came of it; end ends it, and fails when it crashed.
func startOwner(t *testing.T, dir string) (say func() string, end func() error) {
	owner, stdin, lines := spawnOwner(t, dir)
	n := 0
	return func() string {
			n++
			_, err := fmt.Fprintf(stdin, "id %d\n", n)
			require.NoError(t, err)
			line, err := lines.ReadString('\n')
			require.NoError(t, err, "the process has ended")
			return line
		}, func() error {
			if err := stdin.Close(); err != nil {
				return err
			}
			err := owner.Wait()
			if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() == 1 {
				return nil // Close said that the log had failed
			}
			return err
		}
}
