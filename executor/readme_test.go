package executor_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// around is what a reader brings along to the code in README.
const around = `package readme

import (
	"context"
	"testing"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/executor/executortest"
	"github.com/strandjobs/strand/executor/inspect"
)

type (
	Order   struct{}
	Event   struct{}
	Report  struct{ Day time.Time }
	Webhook struct{ Order string }
	Sale    struct{}
	Charge  struct{ Customer string }
)

var (
	ctx       context.Context
	x         *executor.Executor
	orders    *executor.Queue[Order]
	shipments *executor.Queue[Order]
	order     Order
	requestID string
	events    *executor.Queue[Event]
	event     Event
	offset    int64
	service   struct {
		Register executortest.Setup
		Orders   *executor.Queue[Order]
	}
	t *testing.T
	reports   *executor.Queue[Report]
)

func apply(context.Context, string, Order) error                  { return nil }
func ship(context.Context, executor.Job[Webhook]) error           { return nil }
func cancelRest(context.Context, executor.Job[Webhook]) error     { return nil }
func print(Sale, int) error                                       { return nil }
func priceOf(context.Context, Order) (int, error)                 { return 0, nil }
func addViews(context.Context, string, int) error                 { return nil }
func charge(context.Context, executor.Job[Charge]) error          { return nil }
`

// documents are what a reader is sent to, from the directory of each.
var documents = []string{"../README.md", "README.md", "cmd/strand/README.md", "../bench/PROOFS.md", "../bench/README.md"}

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

func TestCodeInReadmeCompiles(t *testing.T) {
	slow(t)
	var program strings.Builder
	program.WriteString(around)
	var blocks [][]string
	for _, name := range documents {
		blocks = append(blocks, regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(document(t, name), -1)...)
	}
	require.NotEmpty(t, blocks)
	for i, block := range blocks {
		if strings.Contains(block[1], "postgres.") {
			continue // it is for that module, whose test compiles it
		}
		fmt.Fprintf(&program, "\nfunc block%d() error {\n%s\nreturn nil\n}\n", i, block[1])
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(source, []byte(program.String()), 0o600))
	place, err := filepath.Abs("../examples/readme/readme.go") // where the module's packages can be imported
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {place: source}})
	require.NoError(t, err)
	overlaid := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(overlaid, overlay, 0o600))

	// With what the tests are compiled with, and no program to link.
	build := exec.CommandContext(t.Context(), "go", "build", fmt.Sprint("-race=", raceEnabled), "-overlay", overlaid, "-gcflags=-e", "./examples/readme")
	build.Dir = ".."
	output, err := build.CombinedOutput()
	var faults []string
	for line := range strings.Lines(string(output)) {
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, "declared and not used") {
			faults = append(faults, line)
		}
	}
	require.Empty(t, faults, program.String())
	if len(output) == 0 {
		require.NoError(t, err)
	}
}

// TestDocumentsNameTestsThatThereAre: go test -run succeeds when no test has such a
// name.
func TestDocumentsNameTestsThatThereAre(t *testing.T) {
	commands := regexp.MustCompile("`go test -run '?([^' ]+)'? ([^`]+)`").FindAllStringSubmatch(document(t, "../bench/PROOFS.md"), -1)
	require.NotEmpty(t, commands)
	for _, command := range commands {
		var tests strings.Builder
		for dir := range strings.FieldsSeq(command[2]) {
			tests.WriteString(testsIn(t, filepath.Join("..", dir)))
		}
		for part := range strings.SplitSeq(strings.ReplaceAll(command[1], `\|`, "|"), "|") {
			assert.Regexp(t, `(?m)`+part, tests.String(), command[0])
		}
	}
}

// testsIn returns the names of a directory's tests, one on a line.
func testsIn(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files, dir)
	var names strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			function, is := strings.CutPrefix(line, "func ")
			if is && (strings.HasPrefix(function, "Test") || strings.HasPrefix(function, "Example")) {
				name, _, _ := strings.Cut(function, "(")
				names.WriteString(name + "\n")
			}
		}
	}
	return names.String()
}

// TestDocumentsPointToWhatThereIs: links, and the programs that they run.
func TestDocumentsPointToWhatThereIs(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^:)#]+)\)`)
	program := regexp.MustCompile(`(?:go run (?:-C )?\.|go install github\.com/strandjobs/strand)/([\w/]+)`)
	for _, name := range documents {
		text := document(t, name)
		for _, to := range link.FindAllStringSubmatch(text, -1) {
			_, err := os.Stat(filepath.Join(filepath.Dir(name), to[1]))
			assert.NoError(t, err, "%s: %s", name, to[0])
		}
		for _, p := range program.FindAllStringSubmatch(text, -1) {
			_, err := os.Stat(filepath.Join("..", p[1]))
			assert.NoError(t, err, "%s: %s", name, p[0])
		}
	}
}
