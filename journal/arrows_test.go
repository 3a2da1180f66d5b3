package journal_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What each package of the journal may import of the others.
var below = map[string][]string{
	"format":      nil,
	"directory":   {"format"},
	"pages":       {"format", "directory"},
	"crash":       {"format", "directory"},
	"wal":         {"format", "directory"},
	"store":       {"format", "directory", "pages", "crash", "wal"},
	"block":       {"format", "store"},
	"rest":        {"format", "directory", "pages", "crash", "wal", "store", "block"},
	"journaltest": nil, // the contract as a suite; only it is above the journal
	".":           {"format", "directory", "crash", "store", "block", "rest"},
}

// Arrows point down, and bbolt has one door.
func TestArrows(t *testing.T) {
	const ours = "github.com/strandjobs/strand/"
	for name, may := range below {
		dir := filepath.Join("internal", name)
		if name == "." {
			dir = "."
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			require.NoError(t, err)
			for _, spec := range file.Imports {
				imported := strings.Trim(spec.Path.Value, `"`)
				if target, found := strings.CutPrefix(imported, ours); found && (name != "journaltest" || target != "journal") {
					inside, found := strings.CutPrefix(target, "journal/internal/")
					assert.True(t, found && slices.Contains(may, inside), "%s imports %s", path, target)
				} else if strings.HasPrefix(imported, "go.etcd.io/bbolt") {
					assert.Equal(t, "store", name, path)
				}
			}
		}
	}
	all, err := filepath.Glob("internal/*")
	require.NoError(t, err)
	assert.Len(t, all, len(below)-1, "each package has a line")
}
