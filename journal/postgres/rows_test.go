//go:build unix

package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// rowTests is the number of a row of bench/ROWS.md in the name of a test.
var rowTests = regexp.MustCompile(`(?m)^func (Test\w*_[LRSMA]\d\d_\w+)\(`)

// noJournal are the packages whose tests of rows are not repeated here, and why.
var noJournal = map[string]string{
	"executor/dashboard/browsertest": "what is there is about what a browser shows, and a module of its own",
	"lock":                           "what is there is in memory, and knows of no journal: who keeps it in one is tested in executor",
}

// What is promised of the rows of bench/ROWS.md holds on PostgreSQL: their tests, as they
// stand in the root module, with each log that is opened in one of them on a partition.
//
// They are compiled with other files in the place of some: see testdata/rows. There a
// journal.Memory has its faults and its crashes, and its store is a partitionStore.
func TestRows(t *testing.T) {
	if !long() {
		t.Skip("compiles and runs the tests of executor, cron and dashboard: STRAND_LONG=1 does it")
	}
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	wanted := testsOfRows(t, root)
	packages := slices.Sorted(maps.Keys(wanted))
	packages = slices.DeleteFunc(packages, func(dir string) bool { return noJournal[dir] != "" })
	require.NotEmpty(t, packages)

	server := pgtest.Shared(t)
	args := []string{"test", "-v", "-count=1", "-vet=off", "-timeout=30m", "-run", `_[LRSMA][0-9][0-9]_`}
	args = append(args, substitute(t, root, packages)...)
	for _, dir := range packages {
		args = append(args, "./"+dir)
	}
	c := exec.CommandContext(t.Context(), "go", args...)
	c.Dir = root
	// The long tiers of those tests are of what is above a store.
	short := slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "STRAND_LONG=") })
	c.Env = append(short, rowsURL+"="+server.URL())
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, dir := range packages {
		for _, test := range wanted[dir] {
			assert.Contains(t, string(out), "--- PASS: "+test+" (", "%s: %s did not run", dir, test)
		}
	}
	commits := commitsOf(t, server.URL())
	require.Len(t, commits, len(packages), "each has had a schema")
	for schema, n := range commits {
		assert.Greater(t, n, 50, "commits in %s", schema)
	}
}

// rowsURL names the server to testdata/rows/disk.go.
const rowsURL = "STRAND_ROWS_URL"

// testsOfRows returns the tests of rows, by the directory of their package.
func testsOfRows(t *testing.T, root string) map[string][]string {
	all := make(map[string][]string)
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		dir, _ := filepath.Rel(root, filepath.Dir(path)) // path is below root
		for _, test := range rowTests.FindAllStringSubmatch(string(text), -1) {
			all[dir] = append(all[dir], test[1])
		}
		return err
	}))
	return all
}

// substitute returns the flags by which the root module is compiled with what is in
// testdata/rows, and with this module, which it does not require.
func substitute(t *testing.T, root string, packages []string) (flags []string) {
	made := t.TempDir()
	read := func(path string) string {
		b, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		return string(b)
	}
	write := func(name, text string) (path string) {
		path = filepath.Join(made, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	const here = "github.com/strandjobs/strand/journal/postgres"
	mod := write("go.mod", read("go.mod")+"\nrequire "+here+" v0.0.0\n\nreplace "+here+" => ./journal/postgres\n")
	write("go.sum", read("go.sum")+read("journal/postgres/go.sum"))

	const open = "func openDir(dir string, cfg Config) (*Log, error) {\n"
	const elsewhere = "\tif NewDisk != nil {\n\t\treturn openElsewhere(dir, cfg)\n\t}\n"
	opens := read("journal/open.go")
	require.Contains(t, opens, open)
	files := map[string]string{
		"journal/memory.go":        filepath.Join(root, "journal/postgres/testdata/rows/memory.go"),
		"journal/postgres/rows.go": filepath.Join(root, "journal/postgres/testdata/rows/disk.go"),
		"journal/open.go":          write("open.go", strings.Replace(opens, open, open+elsewhere, 1)),
	}
	for i, dir := range packages {
		text := fmt.Sprintf("package %s_test\n\nimport _ %q\n", filepath.Base(dir), here)
		files[dir+"/rows_here_test.go"] = write(fmt.Sprint(i, "_test.go"), text)
	}
	var overlay struct{ Replace map[string]string }
	overlay.Replace = make(map[string]string)
	for name, by := range files {
		overlay.Replace[filepath.Join(root, name)] = by
	}
	text, err := json.Marshal(overlay)
	require.NoError(t, err)
	return []string{"-mod=mod", "-modfile=" + mod, "-overlay=" + write("overlay.json", string(text))}
}

// commitsOf returns how many commits there were in each schema of testdata/rows/disk.go.
func commitsOf(t *testing.T, url string) map[string]int {
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	rows, err := conn.Query(t.Context(), "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'rows %'")
	require.NoError(t, err)
	schemas, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	commits := make(map[string]int)
	for _, schema := range schemas {
		var n int
		require.NoError(t, conn.QueryRow(t.Context(), in(schema, "SELECT sum(number) FROM {schema}.tail")).Scan(&n))
		commits[schema] = n
	}
	return commits
}
