//go:build unix && !solaris && !aix

package journal

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/stretchr/testify/require"
)

// A process that dies while it copies or builds leaves a draft behind. The next
// process that works beside it removes that, and nothing else.
func TestLeftovers(t *testing.T) {
	from := sample(t)
	for name, next := range map[string]func(parent string) error{
		"Open": func(parent string) error { return readers["Open"](filepath.Join(parent, "other"), "") },
		"Copy": func(parent string) error {
			l, err := Open(from, Config{})
			require.NoError(t, err)
			defer func() { require.NoError(t, l.Close()) }()
			return l.Copy(t.Context(), filepath.Join(parent, "copy"))
		},
		"Clone": func(parent string) error { return Clone(from, filepath.Join(parent, "clone")) },
		"NewBuilder": func(parent string) error {
			b, err := NewBuilder(filepath.Join(parent, "built"), 1, 1)
			require.NoError(t, err)
			return b.Finish()
		},
		"NewBuilder, given up": func(parent string) error {
			b, err := NewBuilder(filepath.Join(parent, "built"), 1, 1)
			require.NoError(t, err)
			return b.Discard()
		},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			die := func(d *directory.Draft) { // as the system would see to it
				require.NoError(t, d.Lock.Unlock())
				require.NoError(t, d.Parent.Close())
			}
			left := func(name string) *directory.Draft {
				d, err := directory.NewDraft(filepath.Join(parent, name))
				require.NoError(t, err)
				return d
			}
			whole, mine := left("whole"), left("mine")
			for _, file := range []string{directory.FileName, directory.NewName} {
				require.NoError(t, os.WriteFile(filepath.Join(whole.Path(), file), nil, 0o600))
			}
			require.NoError(t, os.WriteFile(filepath.Join(mine.Path(), "notes"), nil, 0o600))
			early := left("early")
			require.NoError(t, os.Remove(filepath.Join(early.Path(), directory.LockName)))
			renamed, opened, busy := left("renamed"), left("opened"), left("busy")
			moved := filepath.Join(parent, "x.new-77")
			require.NoError(t, os.Rename(renamed.Path(), moved))
			for _, d := range []*directory.Draft{whole, mine, early, renamed, opened} {
				die(d)
			}
			require.NoError(t, readers["Open"](opened.Path(), ""), "another process has taken it for its own")
			stay := []string{mine.Path(), moved, opened.Path(), busy.Path()}
			for _, name := range []string{"user.new-12", "user.new-x", ".new-1"} {
				stay = append(stay, filepath.Join(parent, name))
				require.NoError(t, os.Mkdir(filepath.Join(parent, name), 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(parent, name, "data"), nil, 0o600))
			}
			stay = append(stay, filepath.Join(parent, "file.new-1"))
			require.NoError(t, os.WriteFile(filepath.Join(parent, "file.new-1"), nil, 0o600))
			link := filepath.Join(parent, "link.new-1")
			stay = append(stay, link)
			require.NoError(t, os.Symlink(parent, link))

			require.NoError(t, next(parent))
			require.NoDirExists(t, whole.Path())
			require.NoDirExists(t, early.Path())
			for _, path := range stay {
				_, err := os.Lstat(path)
				require.NoError(t, err)
			}
			require.NoError(t, busy.Reveal(), "it was no leftover")
		})
	}
}

// A copy that is whole has nothing of its draft, and one that failed leaves
// nothing.
func TestCopyLeavesNothingElse(t *testing.T) {
	from, parent := sample(t), t.TempDir()
	require.NoError(t, Clone(from, filepath.Join(parent, "copy")))
	names := func(dir string) (all []string) {
		for _, e := range must(os.ReadDir(dir)) {
			all = append(all, e.Name())
		}
		return all
	}
	require.Equal(t, []string{"copy"}, names(parent))
	require.Equal(t, []string{directory.FileName}, names(filepath.Join(parent, "copy")))
	require.NoError(t, os.Truncate(filepath.Join(from, directory.FileName), 100))
	require.Error(t, Clone(from, filepath.Join(parent, "bad")))
	require.Equal(t, []string{"copy"}, names(parent))
}
