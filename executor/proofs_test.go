package executor_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProofsAreTestsThatThereAre: each promise in bench/PROOFS.md names tests that exist.
func TestProofsAreTestsThatThereAre(t *testing.T) {
	soak, err := os.ReadFile("../bench/soak/doc.go")
	require.NoError(t, err)
	there := map[string][]string{} // by directory
	for promise, tests := range promiseTable(t) {
		for test := range strings.SplitSeq(tests, ", ") {
			room, name, found := strings.Cut(strings.Trim(test, "`"), " ")
			require.True(t, found, "%s: want a directory and a test: %s", promise, test)
			if room == "bench/soak" {
				assert.Contains(t, string(soak), "//   - "+name+":", promise)
				continue
			}
			if strings.HasSuffix(name, ".script") {
				assert.FileExists(t, filepath.Join("..", room, "testdata", name), promise)
				continue
			}
			if there[room] == nil {
				there[room] = strings.Fields(testsIn(t, filepath.Join("..", room)))
			}
			assert.True(t, slices.Contains(there[room], name), "%s: %s has no %s", promise, room, name)
		}
	}
}

// promiseTable returns the tests of each promise in bench/PROOFS.md.
func promiseTable(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../bench/PROOFS.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "## Which test holds which promise\n")
	require.True(t, found)
	all := map[string]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if strings.HasPrefix(line, "| ") && len(cells) == 2 && cells[0] != "promise" {
			all[cells[0]] = cells[1]
		}
	}
	require.Greater(t, len(all), 100)
	return all
}
