package executor_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const rows = "../bench/ROWS.md"

// numbered is a test whose name has the number of a row: TestLowkiq_L07_….
var numbered = regexp.MustCompile(`(?m)^func (Test\w*?_([LRSMA]\d\d))_\w+\(`)

// TestRows: what a number in the name of a test means is written down, once, and
// what is written down is tested.
func TestRows(t *testing.T) {
	there := map[string]string{} // begin of a test's name → its number
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, test := range numbered.FindAllStringSubmatch(string(text), -1) {
			there[test[1]] = test[2]
		}
		return err
	}))
	require.NotEmpty(t, there)

	text, err := os.ReadFile(rows)
	require.NoError(t, err)
	table := regexp.MustCompile(`(?m)^\| (\w+) \| .+ \| (.+) \|$`).FindAllStringSubmatch(string(text), -1)
	known, before := map[string]bool{}, map[string]bool{}
	for _, row := range table {
		number := row[1]
		if number == "row" {
			continue
		}
		assert.False(t, before[number], "%s: %s has two rows", rows, number)
		before[number] = true
		for test := range strings.SplitSeq(row[2], ", ") {
			test = strings.Trim(test, "`")
			assert.Equal(t, number, there[test], "%s: no test begins with %s_", rows, test)
			known[test] = true
		}
	}
	for test, number := range there {
		assert.True(t, known[test], "%s: %s has no row with %s", rows, number, test)
	}
}
