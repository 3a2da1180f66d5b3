//go:build unix

package postgres

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// aroundReadme is what the code of the README stands in.
const aroundReadme = `package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres"
)

var (
	ctx = context.Background()
	tx  pgx.Tx
)

func deliver(context.Context, executor.Job[string]) error { return nil }

func main() {
%s
	_ = err
}
`

// What the README says of this module compiles. It is in a package of main for the time of a
// build: in place of the command's files.
func TestCodeInReadmeCompiles(t *testing.T) {
	readme, err := os.ReadFile("../../executor/README.md")
	require.NoError(t, err)
	var ours []string
	for _, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		if strings.Contains(block[1], "postgres.") {
			ours = append(ours, block[1])
		}
	}
	require.Len(t, ours, 1)
	built(t, fmt.Appendf(nil, aroundReadme, ours[0]))
}

// built builds a program that imports this module, and returns where it is.
func built(t *testing.T, program []byte) string {
	t.Helper()
	dir := t.TempDir()
	source, overlaid, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(source, program, 0o600))
	place, err := filepath.Abs("cmd/strand-postgres/main.go")
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {place: source}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlaid, overlay, 0o600))
	output, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlaid, "-o", binary, "./cmd/strand-postgres").CombinedOutput()
	require.NoError(t, err, "%s", output)
	return binary
}

// The first example says the same on one machine and on several: one line of it is another.
func TestAProgramMovesByOneLine(t *testing.T) {
	third(t, 2)
	const one = "executor.Open(dir+\"/journal\", executor.Config{Workers: 1})"
	const several = "postgres.Open(context.Background(), os.Getenv(\"SERVER\"), postgres.Config{SingleServer: true, Executor: executor.Config{Workers: 1}})"
	program, err := os.ReadFile("../../examples/quickstart/main.go")
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(program), one))
	const soon = "1500*time.Millisecond" // which is over before the retry where many tests run
	require.Equal(t, 1, strings.Count(string(program), soon))
	program = []byte(strings.Replace(string(program), soon, "6*time.Second", 1))
	moved := strings.Replace(string(program), one, several, 1)
	moved = strings.Replace(moved, "import (", "import (\n\t\"github.com/strandjobs/strand/journal/postgres\"\n", 1)
	server := pgtest.Start(t)
	require.NoError(t, Migrate(t.Context(), server.URL(), Config{}))
	said := make([]string, 2)
	for i, source := range []string{string(program), moved} {
		run := exec.CommandContext(t.Context(), built(t, []byte(source)))
		run.Env = append(os.Environ(), "SERVER="+server.URL())
		output, err := run.Output()
		require.NoError(t, err)
		said[i] = string(output)
	}
	require.Equal(t, said[0], said[1])
}
