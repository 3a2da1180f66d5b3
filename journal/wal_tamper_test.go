package journal

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal/internal/directory"
)

// A process whose log is cut, deleted or replaced does not crash, accepts nothing any more, and
// leaves alone what is there instead.
func TestTamperedLogWhileOpen(t *testing.T) {
	slow(t)
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not allow that")
	}
	for name, tamper := range map[string]func(path string) error{
		"cut to nothing":  func(path string) error { return os.Truncate(path, 0) },
		"cut in the head": func(path string) error { return os.Truncate(path, 4096) },
		"grown":           func(path string) error { return os.Truncate(path, 8<<20) },
		"deleted":         os.Remove,
		"a link":          linked,
		"replaced": func(path string) error {
			if err := os.WriteFile(path+".tmp", make([]byte, 4<<20), 0o600); err != nil {
				return err
			}
			return os.Rename(path+".tmp", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "j")
			path := filepath.Join(dir, directory.WALFile)
			say, end := startOwner(t, dir)
			for range 50 {
				require.Equal(t, "<nil>\n", say())
			}
			require.NoError(t, tamper(path))
			after, _ := os.ReadFile(path)
			for range 3 {
				answer := say()
				require.Contains(t, answer, "journal: ")
				require.Contains(t, answer, "corrupt")
			}
			require.NoError(t, end(), "the process did not crash")
			now, _ := os.ReadFile(path)
			require.Equal(t, after, now)
		})
	}
}
