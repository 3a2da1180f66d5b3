//go:build unix && !solaris && !aix

package directory

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process that is started has our open files until its program begins. It holds up
// nobody who opens what we gave back.
func TestUnlockBesideAChildThatBegins(t *testing.T) {
	dir := t.TempDir()
	held, err := tryLock(dir, "", false)
	require.NoError(t, err)
	child, err := syscall.Dup(int(held.F.Fd()))
	require.NoError(t, err)
	defer syscall.Close(child)
	_, err = tryLock(dir, "", false)
	require.ErrorIs(t, err, errHeld)
	require.NoError(t, held.Unlock())
	next, err := tryLock(dir, "", false)
	require.NoError(t, err)
	require.NoError(t, next.Unlock())
}
