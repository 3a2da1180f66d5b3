package directory

import (
	"os"
	"path/filepath"
	"strconv"
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
		require.NoError(t, Fill(dir, func(file string) error { return os.WriteFile(file, []byte("x"), 0o600) }))
		defer func() {
			require.FileExists(t, filepath.Join(dir, FileName))
			require.NoError(t, os.RemoveAll(dir))
		}()
	}
	close(over)
	sweepers.Wait()
}
