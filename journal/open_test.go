package journal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ownEnv makes the test binary open the journal that it names, say so, and keep
// it until its standard input ends.
const ownEnv = "STRAND_TEST_OWN"

func own(dir string) int {
	l, err := Open(dir, Config{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ready")
	// For each line an entry, and what came of it.
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		ticket, err := l.Append(context.Background(), []Entry{{Queue: modelQueue, ID: lines.Bytes(), Payload: make([]byte, 5000)}}, nil)
		if err == nil {
			err = ticket.Wait(context.Background())
		}
		fmt.Println(err)
	}
	if err := l.Close(); err != nil {
		return 1
	}
	return 0
}

func TestSecondProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	owner := exec.CommandContext(t.Context(), os.Args[0])
	owner.Env = append(os.Environ(), ownEnv+"="+dir)
	stdin, err := owner.StdinPipe()
	require.NoError(t, err)
	stdout, err := owner.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, owner.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)

	before := tree(t, dir)
	_, err = Open(dir, Config{})
	locked, ok := errors.AsType[*LockedError](err)
	require.True(t, ok, "%v", err)
	assert.ErrorAs(t, err, new(*LockedError))
	assert.Equal(t, dir, locked.Dir)
	if runtime.GOOS != "windows" {
		assert.Equal(t, owner.Process.Pid, locked.PID)
	}
	assert.Equal(t, before, tree(t, dir))

	// However the owner ends, the lock goes with it.
	require.NoError(t, owner.Process.Kill())
	_ = owner.Wait()
	_ = stdin.Close()
	l, err := Open(dir, Config{})
	require.NoError(t, err)
	assert.Equal(t, uint64(2), l.Stats().Epoch)
	require.NoError(t, l.Close())
}

func TestSecondOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	l, err := Open(dir, Config{})
	require.NoError(t, err)
	for range 3 {
		_, err = Open(dir, Config{})
		locked, ok := errors.AsType[*LockedError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, os.Getpid(), locked.PID)
	}
	_, err = l.Queue(t.Context(), "still works")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	again, err := Open(dir, Config{})
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

// TestOpenElsewhere opens what can't be a journal. Nothing is made there.
func TestOpenElsewhere(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	require.NoError(t, os.WriteFile(at("file"), []byte("text"), 0o600))
	require.NoError(t, os.Mkdir(at("dir"), 0o700))
	require.NoError(t, os.Mkdir(at("taken"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(at("taken"), directory.FileName), 0o700))
	require.NoError(t, os.Mkdir(at("sealed"), 0o500))
	for name, want := range map[string]error{
		"file":        ErrNotJournal,
		"file/below":  nil,
		"nowhere/dir": fs.ErrNotExist,
		"":            fs.ErrNotExist,
		"loop":        nil,
		"taken":       nil,
		"sealed":      fs.ErrPermission,
		"sealed/dir":  fs.ErrPermission,
	} {
		t.Run(name, func(t *testing.T) {
			switch name {
			case "loop":
				if err := os.Symlink(at("loop"), at("loop")); err != nil {
					t.Skip(err)
				}
			case "sealed", "sealed/dir":
				if os.Geteuid() == 0 || runtime.GOOS == "windows" {
					t.Skip("nothing is forbidden here")
				}
			}
			dir := at(name)
			if name == "" {
				dir = ""
			}
			before := names(t, root)
			_, err := Open(dir, Config{})
			require.Error(t, err)
			if want != nil {
				assert.ErrorIs(t, err, want)
			}
			assert.Contains(t, err.Error(), "journal")
			assert.Equal(t, before, names(t, root))
		})
	}
}

// names lists everything below dir.
func names(t *testing.T, dir string) (list []string) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		list = append(list, path)
		return err
	}))
	return list
}

// TestCrashInCreation leaves what a crash while the file was made can leave.
func TestCrashInCreation(t *testing.T) {
	for name, file := range map[string][]byte{"empty": {}, "half": make([]byte, 5000), "whole": readFile(t, sample(t))} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, directory.FileName+".new"), file, 0o600))
			text, err := describe(dir)
			require.NoError(t, err)
			assert.Contains(t, text, "map[] map[] 1 1")
		})
	}
}

// TestReleased opens and closes often: nothing stays behind.
func TestReleased(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	before := runtime.NumGoroutine()
	for range 50 {
		l, err := Open(dir, Config{})
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
	assert.Less(t, runtime.NumGoroutine(), before+10) // of those of others, some end late
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		assert.Less(t, len(fds), 40)
	}
}
