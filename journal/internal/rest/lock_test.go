package rest

import (
	"os"
	"testing"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/stretchr/testify/require"
)

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
