package journal

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCloseLocked(t *testing.T) {
	dir := t.TempDir() + "/journal"
	l, err := Open(dir, Config{})
	require.NoError(t, err)
	unlock, err := l.CloseLocked()
	require.NoError(t, err)
	require.NoError(t, l.Close(), "it is closed already")
	_, err = Open(dir, Config{})
	require.IsType(t, &LockedError{}, err)
	require.NoError(t, unlock())
	l, err = Open(dir, Config{})
	require.NoError(t, err)
	require.NoError(t, l.Close())
}
