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
	dir := t.TempDir()
	source, overlaid := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(source, fmt.Appendf(nil, aroundReadme, ours[0]), 0o600))
	place, err := filepath.Abs("cmd/strand-postgres/main.go")
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {place: source, filepath.Join(filepath.Dir(place), "look.go"): ""}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlaid, overlay, 0o600))
	output, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlaid, "-o", os.DevNull, "./cmd/strand-postgres").CombinedOutput()
	require.NoError(t, err, "%s", output)
}
