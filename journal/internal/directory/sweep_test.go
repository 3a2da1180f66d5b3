package directory

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Who sweeps while a draft gets its name leaves the finished journal alone.
func TestSweepLeavesFinishedDrafts(t *testing.T) {
	t.Parallel()
	if !canLock {
		t.Skip("nothing is swept here")
	}
	parent := t.TempDir()
	var sweepers sync.WaitGroup
	over := make(chan struct{})
	for range 3 {
		sweepers.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					SweepBeside(filepath.Join(parent, "x"))
				}
			}
		})
	}
	for i := range 200 {
		dir := filepath.Join(parent, strconv.Itoa(i))
		err := errRemoved
		for err != nil && strings.Contains(err.Error(), "removed all the time") { // by sweepers that do nothing else
			err = Fill(dir, func(file string) error { return os.WriteFile(file, []byte("x"), 0o600) })
		}
		require.NoError(t, err)
		defer func() {
			require.FileExists(t, filepath.Join(dir, FileName))
			require.NoError(t, os.RemoveAll(dir))
		}()
	}
	close(over)
	sweepers.Wait()
}

// A maker whose draft another one has locked first makes another draft, and leaves nothing of that one.
func TestTwoMakersOfADraft(t *testing.T) {
	if !canLock {
		t.Skip("nothing is locked here")
	}
	parent := t.TempDir()
	var looking sync.Mutex // nothing is discarded meanwhile
	var taken *DirLock
	rival := func() bool {
		looking.Lock()
		defer looking.Unlock()
		drafts, _ := os.ReadDir(parent)
		for _, draft := range drafts {
			var err error
			if taken, err = tryLock(filepath.Join(parent, draft.Name()), "rival", false); err == nil {
				return true
			}
		}
		return false
	}
	won := make(chan struct{})
	go func() {
		defer close(won)
		for !rival() {
		}
	}()
	for over := false; !over; {
		d, err := NewDraft(filepath.Join(parent, "j"))
		require.NoError(t, err)
		select {
		case <-won:
			over = true
		default:
		}
		looking.Lock()
		require.NoError(t, d.Discard())
		looking.Unlock()
	}
	require.NoError(t, taken.Unlock())
	left, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A draft that has its name, but not durably, is removed under that name.
func TestDiscardAfterTheRename(t *testing.T) {
	if !canLock {
		t.Skip("what is open can't be renamed here")
	}
	parent := t.TempDir()
	d, err := NewDraft(filepath.Join(parent, "j"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(d.Path(), FileName), []byte("x"), 0o600))
	unable, err := os.Open(parent)
	require.NoError(t, errors.Join(err, unable.Close()))
	require.ErrorIs(t, d.rename(unable), os.ErrClosed)
	require.DirExists(t, filepath.Join(parent, "j"))
	require.NoError(t, d.Discard())
	left, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Empty(t, left)
}
