//go:build unix && !solaris && !aix

package journal

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/strandjobs/strand/journal/internal/crash"
	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/stretchr/testify/require"
)

// stranger is a user that is not root.
const stranger = 12345

// What root does in another user's directory, that user can go on with.
func TestRootLeavesTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can")
	}
	top := t.TempDir()
	require.NoError(t, os.Chown(top, stranger, stranger))
	dir := filepath.Join(top, "j")
	l, err := Open(dir, Config{WALBytes: 8 << 10})
	require.NoError(t, err)
	r, err := l.RecordCrashes(1, 3)
	require.NoError(t, err)
	require.NoError(t, l.Copy(t.Context(), filepath.Join(top, "copy")))
	for _, path := range []string{
		dir, filepath.Join(dir, directory.FileName), filepath.Join(dir, directory.LockName), filepath.Join(dir, crash.RunningName),
		filepath.Join(dir, directory.WALFile), filepath.Join(top, "copy"), filepath.Join(top, "copy", directory.FileName),
	} {
		belongs(t, path, stranger, stranger)
	}
	require.NoError(t, r.Close(false))
	// What is there is kept as it is.
	path := filepath.Join(dir, directory.FileName)
	require.NoError(t, os.Chown(path, stranger+1, stranger+2))
	require.NoError(t, os.Chmod(path, 0o640))
	require.NoError(t, l.Compact(t.Context()))
	belongs(t, path, stranger+1, stranger+2)
	require.NoError(t, l.Close())
	require.NoError(t, os.Chown(path, stranger+3, stranger+4))
	_, _, err = Compact(dir)
	require.NoError(t, err)
	belongs(t, path, stranger+3, stranger+4)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode())
	l, err = Open(dir, Config{WALBytes: 8 << 10})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	belongs(t, filepath.Join(dir, directory.WALFile), stranger+3, stranger+4)
	info, err = os.Stat(filepath.Join(dir, directory.WALFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode())

	built := filepath.Join(top, "built")
	b, err := NewBuilder(built, 1, 1)
	require.NoError(t, err)
	require.NoError(t, b.Finish())
	belongs(t, filepath.Join(built, directory.FileName), stranger, stranger)
}

func belongs(t *testing.T, path string, uid, gid int) {
	t.Helper()
	info, err := os.Lstat(path)
	require.NoError(t, err)
	is, group, _ := directory.OwnerOf(info)
	require.Equal(t, []int{uid, gid}, []int{is, group}, path)
}

// A journal is not replaced without its LOCK: who may write to that could open it meanwhile. It is
// copied without.
func TestALockThatOnlyOthersCanWrite(t *testing.T) {
	const variable = "STRAND_TEST_STRANGER"
	if os.Getenv(variable) != "" {
		if os.Geteuid() == 0 {
			require.NoError(t, errors.Join(syscall.Setgid(stranger), syscall.Setuid(stranger)))
		}
		_, _, err := Compact("j")
		require.ErrorIs(t, err, fs.ErrPermission)
		require.NoError(t, Clone("j", "clone"))
		return
	}
	top := t.TempDir()
	dir := filepath.Join(top, "j")
	require.NoError(t, readers["Open"](dir, ""))
	require.NoError(t, os.Chmod(filepath.Join(dir, directory.LockName), 0o400))
	if os.Geteuid() == 0 {
		for _, path := range []string{top, dir, filepath.Join(dir, directory.LockName), filepath.Join(dir, directory.FileName)} {
			require.NoError(t, os.Chown(path, stranger, stranger))
		}
	}
	child := exec.CommandContext(t.Context(), must(os.Executable()), "-test.run=^TestALockThatOnlyOthersCanWrite$")
	child.Dir, child.Env = top, append(os.Environ(), variable+"=1")
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
