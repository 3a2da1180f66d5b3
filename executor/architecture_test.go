package executor_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const modulePath = "github.com/strandjobs/strand"

// arrows holds what the packages of each room may import of ours. A name ending in
// /... stands for every package below. The first line that matches a package
// counts; a package without a line is a violation. Tests may import what they like.
var arrows = []struct {
	room string
	may  []string
}{
	{"actor", nil},
	{"lock", nil},
	{"journal", nil},
	{"journal/...", []string{"journal", "journal/..."}},
	{"shard", []string{"actor", "journal", "lock"}},
	{"executor/events", nil},
	{"executor/inspect", []string{"executor/internal/brief"}},
	{"executor", []string{"actor", "executor/events", "executor/inspect", "journal", "lock", "shard"}},
	{"executor/cmd/...", []string{"executor/command"}},
	{"executor/command", []string{"executor", "executor/events", "executor/inspect", "journal", "shard", "executor/internal/admin", "executor/internal/brief", "executor/internal/control", "executor/internal/each", "executor/internal/statekey"}}, // folds a log as a shard does, and calls a process
	{"executor/cluster", []string{"executor", "executor/internal/backdoor", "executor/internal/fleet", "executor/internal/guard", "executor/internal/quota", "executor/internal/submit", "journal"}},                                                 // a door to the engine
	{"executor/executortest", []string{"executor", "executor/events", "executor/inspect", "executor/internal/admin", "executor/internal/backdoor", "executor/internal/brief", "executor/internal/each", "journal"}},
	{"executor/metrics", []string{"executor", "executor/cluster", "executor/events", "executor/inspect", "executor/internal/brief", "executor/internal/guard"}},
	{"executor/cron", []string{"executor", "executor/cluster", "executor/internal/guard", "executor/internal/ownership", "lock"}},                                                                                                                         // asks whose an id is
	{"executor/dashboard", []string{"executor", "executor/cluster", "executor/cron", "executor/inspect", "executor/internal/admin", "executor/internal/brief", "executor/internal/each", "executor/internal/guard", "executor/internal/serving", "lock"}}, // bounds its answers as the control socket does
	{"executor/...", []string{"executor", "executor/...", "journal", "lock"}},
	{"bench/world", []string{"bench/child", "executor", "executor/cluster", "executor/cron", "executor/events", "executor/executortest", "executor/inspect", "journal", "lock", "shard"}}, // a test
	{"bench/...", []string{"actor", "bench/...", "executor", "executor/...", "journal", "lock", "shard"}},
	{"bench", []string{"actor", "bench/...", "executor", "executor/...", "journal", "lock", "shard"}},
	{"examples/...", []string{"executor", "executor/...", "lock"}}, // what users import
}

// forTests are packages that only tests may import.
var forTests = []string{"executor/executortest"}

// doors holds the rooms that may import a module of others, packages below them
// included: one each, and what it is measured against.
var doors = map[string][]string{
	"github.com/asynkron/protoactor-go": {"actor"},
	"go.etcd.io/bbolt":                  {"journal", "bench/baseline"},
}

// drawers are names under which anything can be filed, and sooner or later is.
var drawers = []string{"util", "utils", "common", "helper", "helpers", "types", "base"}

// topLevel is everything that the root of the repository may hold, beside names
// that begin with a dot.
var topLevel = []string{
	"actor", "bench", "examples", "executor", "journal", "lock", "shard",
	"README.md", "LICENSE", "go.mod", "go.sum",
}

func TestArchitecture(t *testing.T) {
	for _, goos := range []string{"linux", "darwin", "windows"}[:sampled(3)] {
		assert.Empty(t, violations(listPackages(t, goos)), goos)
	}
}

func TestTopLevel(t *testing.T) {
	for _, name := range inRoot(t) {
		if !strings.HasPrefix(name, ".") {
			assert.Contains(t, topLevel, name, "does not belong in the root of the repository")
		}
	}
}

// inRoot names what the root of the repository holds: in a checkout what git tracks
// or would add, without what .gitignore names, a binary that was built there for
// example; elsewhere whatever is there.
func inRoot(t *testing.T) (names []string) {
	t.Helper()
	if _, err := os.Stat("../.git"); err == nil {
		list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
		list.Dir = ".."
		if output, err := list.Output(); err == nil { // git may be missing, or not trust the owner
			for file := range strings.SplitSeq(strings.TrimRight(string(output), "\x00"), "\x00") {
				name, _, _ := strings.Cut(file, "/")
				names = append(names, name)
			}
			return slices.Compact(names)
		}
	}
	entries, err := os.ReadDir("..")
	require.NoError(t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// A program that imports executor gets bbolt, x/sync and what protoactor-go takes,
// and nothing that only tests, tools and the command line need: their requirements
// stay out of its go.mod.
func TestUsersResolveLittle(t *testing.T) {
	known := append(modulesUnder(t, "github.com/asynkron/protoactor-go/actor"), modulesUnder(t, "go.etcd.io/bbolt")...)
	for _, module := range modulesUnder(t, "./executor") {
		assert.Contains(t, append(known, modulePath, "golang.org/x/sync"), module)
	}
}

func modulesUnder(t *testing.T, pkg string) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", pkg)
	list.Dir = ".."
	output, err := list.Output()
	require.NoError(t, err)
	return slices.Compact(slices.Sorted(strings.FieldsSeq(string(output))))
}

// go install executor/cmd/strand@latest refuses a module whose go.mod replaces or
// excludes something.
func TestTheCommandCanBeInstalled(t *testing.T) {
	file, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	assert.NotRegexp(t, `(?m)^\s*(replace|exclude)\b`, string(file))
	_, err = os.Stat("cmd/strand/go.mod")
	assert.ErrorIs(t, err, os.ErrNotExist, "the command is a part of the root module")
}

// A rule that finds nothing proves nothing: each of these packages breaks one.
func TestArchitectureFindsViolations(t *testing.T) {
	const ours, theirs = modulePath + "/", "github.com/asynkron/protoactor-go/actor"
	for want, p := range map[string]goPackage{
		"lock imports actor":                               {"lock", ours + "lock", []string{ours + "actor"}},
		"journal imports shard":                            {"journal", ours + "journal", []string{ours + "shard"}},
		"shard imports executor":                           {"shard", ours + "shard", []string{ours + "executor"}},
		"executor/events imports executor":                 {"events", ours + "executor/events", []string{ours + "executor"}},
		"executor/inspect imports executor":                {"inspect", ours + "executor/inspect", []string{ours + "executor"}},
		"executor imports executor/cron":                   {"executor", ours + "executor", []string{ours + "executor/cron"}},
		"executor/cron imports shard":                      {"cron", ours + "executor/cron", []string{ours + "shard"}},
		"executor/cron imports executor/executortest":      {"cron", ours + "executor/cron", []string{ours + "executor/executortest"}},
		"executor/cron imports executor/internal/backdoor": {"cron", ours + "executor/cron", []string{ours + "executor/internal/backdoor"}},
		"bench imports executor/executortest":              {"main", ours + "bench", []string{ours + "executor/executortest"}},
		"examples/hello imports journal":                   {"main", ours + "examples/hello", []string{ours + "journal"}},
		"shard imports " + theirs:                          {"shard", ours + "shard", []string{theirs}},
		"actor imports go.etcd.io/bbolt/errors":            {"actor", ours + "actor", []string{"go.etcd.io/bbolt/errors"}},
		"bench imports go.etcd.io/bbolt":                   {"main", ours + "bench", []string{"go.etcd.io/bbolt"}},
		"shard/internal/x imports executor":                {"x", ours + "shard/internal/x", []string{ours + "executor"}},
		"lock imports shard/internal/x":                    {"lock", ours + "lock", []string{ours + "shard/internal/x"}},
		"executor/cmd/strand imports journal":              {"main", ours + "executor/cmd/strand", []string{ours + "journal"}},
		"executor/command imports executor/internal/x":     {"command", ours + "executor/command", []string{ours + "executor/internal/x"}},
		"no rule for package misc":                         {"misc", ours + "misc", nil},
		"no rule for package .":                            {"strand", modulePath, nil},
		"package journal/util is a drawer":                 {"util", ours + "journal/util", nil},
		"package executor/metrics/x named as types":        {"types", ours + "executor/metrics/x", nil},
	} {
		assert.Equal(t, []string{want}, violations([]goPackage{p}))
	}
	assert.Empty(t, violations([]goPackage{
		{"shard", ours + "shard", []string{"fmt", ours + "shard/internal/x", ours + "journal"}},
		{"command", ours + "executor/command", []string{ours + "journal", ours + "shard", ours + "executor/internal/control"}},
	}))
}

// goPackage is what the rules need of the output of go list.
type goPackage struct {
	Name       string
	ImportPath string
	Imports    []string // of files that are not tests
}

func listPackages(t *testing.T, goos string) []goPackage {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-json=Name,ImportPath,Imports", "./...")
	list.Dir = ".."
	list.Env = append(os.Environ(), "GOOS="+goos)
	output, err := list.Output()
	if failure, ok := errors.AsType[*exec.ExitError](err); ok {
		require.NoError(t, err, string(failure.Stderr))
	}
	require.NoError(t, err)
	var packages []goPackage
	decoder := json.NewDecoder(strings.NewReader(string(output)))
	for {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			require.NotEmpty(t, packages)
			return packages
		} else {
			require.NoError(t, err)
		}
		packages = append(packages, p)
	}
}

func violations(packages []goPackage) []string {
	var found []string
	for _, p := range packages {
		name := inModule(p.ImportPath)
		for _, drawer := range drawers {
			if path.Base(name) == drawer {
				found = append(found, fmt.Sprintf("package %s is a drawer", name))
			} else if p.Name == drawer {
				found = append(found, fmt.Sprintf("package %s named as %s", name, drawer))
			}
		}
		may, ruled := rule(roomOf(name))
		if !ruled {
			found = append(found, "no rule for package "+name)
			continue
		}
		for _, imported := range p.Imports {
			if !allowed(name, may, imported) {
				found = append(found, fmt.Sprintf("%s imports %s", name, inModule(imported)))
			}
		}
	}
	return found
}

func rule(room string) (may []string, ruled bool) {
	for _, arrow := range arrows {
		if matches(arrow.room, room) {
			return arrow.may, true
		}
	}
	return nil, false
}

// allowed reports whether the package name, which may import what may says, may
// import the package imported.
func allowed(name string, may []string, imported string) bool {
	for _, module := range slices.Sorted(maps.Keys(doors)) {
		if below(module, imported) {
			return slices.ContainsFunc(doors[module], func(room string) bool { return below(room, name) })
		}
	}
	if !below(modulePath, imported) {
		return true
	}
	target := inModule(imported)
	if roomOf(target) == roomOf(name) {
		return true // what is internal to a room is the room
	}
	if slices.Contains(may, target) { // by its very name, also what is internal
		return true
	}
	return !strings.Contains(target+"/", "/internal/") && !slices.Contains(forTests, target) &&
		slices.ContainsFunc(may, func(pattern string) bool { return matches(pattern, target) })
}

// roomOf leaves out what is internal to a package: shard/internal/x is part of
// shard.
func roomOf(name string) string {
	room, _, _ := strings.Cut(name+"/", "/internal/")
	return strings.TrimSuffix(room, "/")
}

func matches(pattern, name string) bool {
	if parent, all := strings.CutSuffix(pattern, "/..."); all {
		return strings.HasPrefix(name, parent+"/")
	}
	return pattern == name
}

func below(parent, name string) bool {
	return name == parent || strings.HasPrefix(name, parent+"/")
}

// inModule shortens our own import paths; others stay as they are.
func inModule(importPath string) string {
	if importPath == modulePath {
		return "."
	}
	return strings.TrimPrefix(importPath, modulePath+"/")
}
