//go:build unix && !solaris && !aix

package journal

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal/internal/directory"
)

// A copy or a smaller file that has no room for what waits in journal.wal is an error: the journal
// stays as it is, and there is no copy.
func TestNoRoomForWhatWaits(t *testing.T) {
	slow(t)
	const variable = "STRAND_TEST_NO_ROOM"
	if os.Getenv(variable) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoRoomForWhatWaits$") // the limit is the process's
		child.Env = append(os.Environ(), variable+"=1")
		out, err := child.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	f := startWAL(t, 1<<20)
	f.add(10)
	for i := range 10 {
		ticket, err := f.log.Append(t.Context(), []Entry{{Queue: f.queue, ID: fmt.Append(nil, i), Payload: make([]byte, 30<<10)}}, nil)
		require.NoError(t, err)
		require.NoError(t, ticket.Wait(t.Context()))
	}
	crashed := filesIn(t, f.dir)
	want := content(t, withFiles(t, crashed))
	for name, copied := range map[string]func(dir string) error{
		"Compact": func(dir string) error { _, _, err := Compact(dir); return err },
		"Clone":   func(dir string) error { return Clone(dir, dir+"-copy") },
		"Copy":    func(dir string) error { return f.log.Copy(t.Context(), dir+"-copy") },
	} {
		refused := 0
		for limit, full := uint64(64<<10), true; full; limit += 64 << 10 {
			dir := withFiles(t, crashed)
			err := limited(t, limit, func() error { return copied(dir) })
			if full = err != nil; full {
				refused++
				require.True(t, errors.Is(err, ErrFull) || directory.NoSpace(err), "%s: %v", name, err)
				require.NoDirExists(t, dir+"-copy")
			} else if name != "Compact" {
				dir += "-copy"
			}
			require.Equal(t, want, content(t, dir), "%s with %d bytes", name, limit)
			entries, err := os.ReadDir(filepath.Dir(dir))
			require.NoError(t, err)
			require.LessOrEqual(t, len(entries), 2, "nothing is left of what failed")
			require.NoFileExists(t, filepath.Join(dir, directory.NewName))
		}
		require.Greater(t, refused, 3, name)
	}
	require.NoError(t, f.log.Err())
}

// limited calls f while no file may grow beyond so many bytes.
func limited(t *testing.T, bytes uint64, f func() error) error {
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	limit := before
	limit.Cur = bytes
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	err := f()
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before))
	return err
}
