//go:build unix && !solaris && !aix

package journal

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal/internal/crash"
	"github.com/strandjobs/strand/journal/internal/directory"
)

// kinds put something that is not a file under a name. elsewhere is a file that
// must stay as it is.
var kinds = map[string]func(path, elsewhere string) error{
	"pipe":             func(path, _ string) error { return syscall.Mkfifo(path, 0o600) },
	"directory":        func(path, _ string) error { return os.Mkdir(path, 0o700) },
	"link":             func(path, elsewhere string) error { return os.Symlink(elsewhere, path) },
	"link to nothing":  func(path, elsewhere string) error { return os.Symlink(elsewhere+"-not-there", path) },
	"link to a device": func(path, _ string) error { return os.Symlink("/dev/zero", path) },
	"link to a pipe": func(path, elsewhere string) error {
		return os.Symlink(filepath.Join(filepath.Dir(elsewhere), "pipe"), path)
	},
	"socket": func(path, _ string) error {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			return err
		}
		l.SetUnlinkOnClose(false)
		return l.Close()
	},
}

// readers are what may be done to a journal at rest.
var readers = map[string]func(dir, to string) error{
	"Open": func(dir, _ string) error {
		l, err := Open(dir, Config{})
		if err == nil {
			err = l.Close()
		}
		return err
	},
	"OpenView": func(dir, _ string) error {
		v, err := OpenView(dir)
		if err == nil {
			err = v.Close()
		}
		return err
	},
	"Check":   func(dir, _ string) error { _, err := Check(dir); return err },
	"Clone":   Clone,
	"Compact": func(dir, _ string) error { _, _, err := Compact(dir); return err },
	"Salvage": func(dir, to string) error { _, err := Salvage(dir, to); return err },
	"look":    func(dir, _ string) error { _, err := Salvage(dir, ""); return err },
}

// What has the name of a file of the journal and is none is refused by its name:
// nothing waits for it, follows it or changes it.
func TestNotAFile(t *testing.T) {
	journal := readFile(t, sample(t))
	for _, name := range []string{directory.LockName, crash.RunningName, directory.FileName, directory.NewName, directory.WALFile} {
		for kind, put := range kinds {
			for reader, read := range readers {
				t.Run(strings.Join([]string{name, kind, reader}, " "), func(t *testing.T) {
					top, err := os.MkdirTemp("", "strand") // names of sockets are short
					require.NoError(t, err)
					t.Cleanup(func() { require.NoError(t, os.RemoveAll(top)) })
					dir, elsewhere := filepath.Join(top, "j"), filepath.Join(top, "elsewhere")
					require.NoError(t, os.Mkdir(dir, 0o700))
					require.NoError(t, os.WriteFile(elsewhere, journal, 0o600))
					require.NoError(t, syscall.Mkfifo(filepath.Join(top, "pipe"), 0o600))
					if name != directory.FileName {
						require.NoError(t, os.WriteFile(filepath.Join(dir, directory.FileName), journal, 0o600))
					}
					path := filepath.Join(dir, name)
					require.NoError(t, put(path, elsewhere))
					before, err := os.Lstat(path)
					require.NoError(t, err)

					err = soon(t, func() error { return read(dir, filepath.Join(top, "to")) })
					require.ErrorIs(t, err, ErrNotJournal)
					require.ErrorContains(t, err, path+" is ")
					after, err := os.Lstat(path)
					require.NoError(t, err)
					assert.True(t, os.SameFile(before, after))
					assert.Equal(t, journal, must(os.ReadFile(elsewhere)))
					assert.NoFileExists(t, elsewhere+"-not-there")
				})
			}
		}
	}
}

// soon fails the test when f hangs.
func soon(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		require.FailNow(t, "it hangs")
		return nil
	}
}

// The directory itself may be anything, too; a link to one is an operator's
// decision.
func TestNotADirectory(t *testing.T) {
	for kind, put := range kinds {
		if kind == "directory" || kind == "link to nothing" {
			continue
		}
		for reader, read := range readers {
			t.Run(kind+" "+reader, func(t *testing.T) {
				top, err := os.MkdirTemp("", "strand")
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, os.RemoveAll(top)) })
				elsewhere := filepath.Join(top, "elsewhere")
				require.NoError(t, os.WriteFile(elsewhere, []byte("text"), 0o600))
				require.NoError(t, syscall.Mkfifo(filepath.Join(top, "pipe"), 0o600))
				dir := filepath.Join(top, "j")
				require.NoError(t, put(dir, elsewhere))
				require.ErrorIs(t, soon(t, func() error { return read(dir, filepath.Join(top, "to")) }), ErrNotJournal)
			})
		}
	}
	dir := filepath.Join(t.TempDir(), "j")
	require.NoError(t, readers["Open"](dir, ""))
	require.NoError(t, os.Symlink(dir, dir+"-link"))
	for reader, read := range readers {
		require.NoError(t, read(dir+"-link", filepath.Join(t.TempDir(), "to")), reader)
	}
}

// LOCK and RUNNING may have any size and content.
func TestForgedSizes(t *testing.T) {
	t.Parallel()
	slow(t)
	forged := func(words uint64) string {
		b := make([]byte, crash.RunningHeader)
		for i, v := range []uint64{crash.RunningMagic, 1, words} {
			for j := range 8 {
				b[8*i+j] = byte(v >> (8 * j))
			}
		}
		return string(b)
	}
	for name, content := range map[string]string{
		"nothing": "", "no pid": "x", "a huge pid": strings.Repeat("9", 400), "below zero": "-1",
		"no words": forged(0), "one that is missing": forged(1), "many": forged(1 << 60), "most": forged(1<<64 - 1), "overflow": forged(1 << 61),
	} {
		for _, file := range []string{directory.LockName, crash.RunningName} {
			for _, size := range []int64{-1, 1 << 42} {
				t.Run(fmt.Sprint(file, " ", name, " ", size), func(t *testing.T) {
					dir := filepath.Join(t.TempDir(), "j")
					require.NoError(t, readers["Open"](dir, ""))
					path := filepath.Join(dir, file)
					require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
					if size >= 0 {
						if err := os.Truncate(path, size); err != nil {
							t.Skip("no such files here: ", err)
						}
					}
					lock, err := directory.Lock(dir)
					require.NoError(t, err)
					require.NoError(t, os.Truncate(filepath.Join(dir, directory.LockName), max(size, 5)))
					_, err = Open(dir, Config{})
					require.ErrorAs(t, err, new(*LockedError))
					require.NoError(t, lock.Unlock())
					for reader, read := range readers {
						require.NoError(t, read(dir, filepath.Join(t.TempDir(), "to")), reader)
					}
				})
			}
		}
	}
}

// An owner whose directory was taken away, or whose files were, leaves those of
// the next one alone.
func TestReplacedDirectory(t *testing.T) {
	for name, replace := range map[string]func(dir string) error{
		"moved away": func(dir string) error { return os.Rename(dir, dir+"-moved") },
		"removed":    os.RemoveAll,
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "j")
			old, err := Open(dir, Config{})
			require.NoError(t, err)
			was, err := old.RecordCrashes(1, 3)
			require.NoError(t, err)
			was.Set(1, 7)
			require.NoError(t, replace(dir))

			next, err := Open(dir, Config{})
			require.NoError(t, err)
			is, err := next.RecordCrashes(1, 3)
			require.NoError(t, err)
			before := filesOf(t, dir)
			_ = old.Compact(t.Context())
			was.Clear(1)
			require.NoError(t, was.Close(false))
			_ = old.Close()
			require.Equal(t, before, filesOf(t, dir))
			_, err = Open(dir, Config{})
			require.ErrorAs(t, err, new(*LockedError))
			require.NoError(t, is.Close(false))
			require.NoError(t, next.Close())
			for _, place := range []string{dir, dir + "-moved"} {
				l, err := Open(place, Config{})
				require.NoError(t, err)
				require.Nil(t, l.crash.Death, "our own says that it ended in order")
				require.NoError(t, l.Close())
			}
		})
	}
	t.Run("the file", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "j")
		l, err := Open(dir, Config{})
		require.NoError(t, err)
		r, err := l.RecordCrashes(1, 3)
		require.NoError(t, err)
		path := filepath.Join(dir, crash.RunningName)
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.WriteFile(path, []byte("another"), 0o600))
		require.NoError(t, r.Close(false))
		require.Equal(t, "another", string(must(os.ReadFile(path))))
		require.NoError(t, l.Close())
	})
	t.Run("the journal, while it is compacted", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "j")
		l, err := Open(dir, Config{})
		require.NoError(t, err)
		path := filepath.Join(dir, directory.FileName)
		require.NoError(t, os.Rename(path, path+".away"))
		require.NoError(t, os.WriteFile(path, []byte("another"), 0o600))
		require.ErrorIs(t, l.Compact(t.Context()), ErrCorrupt)
		require.Equal(t, "another", string(must(os.ReadFile(path))))
		_ = l.Close()
	})
}

// filesOf are the files of a directory, and which files they are.
func filesOf(t *testing.T, dir string) (files []string) {
	t.Helper()
	for _, e := range must(os.ReadDir(dir)) {
		info, err := e.Info()
		require.NoError(t, err)
		data := must(os.ReadFile(filepath.Join(dir, e.Name())))
		if e.Name() == crash.RunningName {
			clear(data[crash.RunningHeader:][:8]) // the beat goes on
		}
		files = append(files, fmt.Sprint(e.Name(), " ", info.Sys().(*syscall.Stat_t).Ino, " ", string(data)))
	}
	return files
}

// A recorder whose file was cut says so once, and the process goes on.
func TestRunningCut(t *testing.T) {
	for _, size := range []int64{0, 4096} {
		dir := filepath.Join(t.TempDir(), "j")
		log := &lines{c: make(chan string, 9)}
		l, err := Open(dir, Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
		require.NoError(t, err)
		r, err := l.RecordCrashes(1, 2000)
		require.NoError(t, err)
		r.Set(1999, 7)
		require.NoError(t, os.Truncate(filepath.Join(dir, crash.RunningName), size))
		for range 3 {
			r.Set(1999, 8)
			r.Clear(1999)
			r.Set(3, 9)
		}
		line := <-log.c
		require.Contains(t, line, "crash recorder lost")
		require.Contains(t, line, filepath.Join(dir, crash.RunningName))
		require.NoError(t, r.Close(false))
		require.NoError(t, l.Close())
		require.Empty(t, log.c, "once")
		require.NoError(t, readers["Open"](dir, ""))
	}
	// Nothing was written since: then nothing is lost.
	dir := filepath.Join(t.TempDir(), "j")
	l, err := Open(dir, Config{})
	require.NoError(t, err)
	r, err := l.RecordCrashes(1, 5)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(filepath.Join(dir, crash.RunningName), 0))
	require.NoError(t, r.Close(false))
	require.NoError(t, l.Close())
	require.Panics(t, func() { crash.NewRecorder(1, 5).Set(5, 1) }, "a bug is no loss")
}

type lines struct{ c chan string }

func (l *lines) Write(b []byte) (int, error) {
	l.c <- string(b)
	return len(b), nil
}

// A directory that all users may write to is used, and the logger is told.
func TestWritableForAll(t *testing.T) {
	for mode, told := range map[os.FileMode]bool{0o700: false, 0o755: false, 0o775: false, 0o777: true, 0o1777: true, 0o702: true} {
		dir := filepath.Join(t.TempDir(), "j")
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, syscall.Chmod(dir, uint32(mode)))
		var out bytes.Buffer
		l, err := Open(dir, Config{Logger: slog.New(slog.NewTextHandler(&out, nil))})
		require.NoError(t, err)
		require.NoError(t, l.Close())
		require.Equal(t, told, strings.Contains(out.String(), "writable for all"), "%o: %s", mode, &out)
	}
}

// So it is in a directory in which the first journal is about to be made.
func TestNotAFileBeforeTheFirstJournal(t *testing.T) {
	for kind, put := range kinds {
		t.Run(kind, func(t *testing.T) {
			top, err := os.MkdirTemp("", "strand")
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, os.RemoveAll(top)) })
			dir, elsewhere := filepath.Join(top, "j"), filepath.Join(top, "elsewhere")
			require.NoError(t, os.Mkdir(dir, 0o700))
			require.NoError(t, os.WriteFile(elsewhere, nil, 0o600))
			require.NoError(t, syscall.Mkfifo(filepath.Join(top, "pipe"), 0o600))
			path := filepath.Join(dir, directory.NewName)
			require.NoError(t, put(path, elsewhere))
			before, err := os.Lstat(path)
			require.NoError(t, err)
			err = soon(t, func() error { return readers["Open"](dir, "") })
			require.ErrorIs(t, err, ErrNotJournal)
			require.ErrorContains(t, err, path+" is ")
			after, err := os.Lstat(path)
			require.NoError(t, err)
			require.True(t, os.SameFile(before, after))
		})
	}
}
