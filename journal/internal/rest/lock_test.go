package rest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/stretchr/testify/require"
)

// A copy that could have no LOCK is none when another process has opened the journal meanwhile.
func TestACloneWithoutALockAsksAtItsEnd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	b, err := NewBuilder(dir, 1, 1)
	require.NoError(t, err)
	require.NoError(t, b.Finish())
	owner, err := directory.Lock(dir)
	require.NoError(t, err)
	require.ErrorAs(t, (&View{dir: dir}).clone(dir+"-copy"), new(*format.LockedError))
	require.NoDirExists(t, dir+"-copy")
	require.NoError(t, owner.Undo())
	require.NoError(t, (&View{dir: dir}).clone(dir+"-copy"))
}

// Where it is not known whether the new file has its name on disk, the log of the old one stays: a machine that goes down
// may come back with that.
func TestTheLogStaysWithoutASync(t *testing.T) {
	p, err := directory.Open(t.TempDir())
	require.NoError(t, err)
	defer p.Close()
	log := p.Path(directory.WALFile)
	require.NoError(t, os.WriteFile(log, nil, 0o600))
	names, err := os.Open(p.Name())
	require.NoError(t, err)
	require.NoError(t, names.Close())
	require.ErrorIs(t, dropLog(p, names), os.ErrClosed)
	require.FileExists(t, log)
	require.NoError(t, dropLog(p, nil))
	require.NoFileExists(t, log)
}
