package main

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// builds skips what builds mutated trees, which takes long, unless it is asked for.
func builds(t *testing.T) {
	if os.Getenv("STRAND_PUSH") == "" && os.Getenv("STRAND_LONG") == "" {
		t.Skip("builds mutated trees: set STRAND_PUSH=1 or STRAND_LONG=1")
	}
}

// The place of every mutation is there, once, and each has a name of its own.
func TestMutationsHaveTheirPlace(t *testing.T) {
	require.Greater(t, len(mutations), 100, "PROOFS says so")
	g, err := newWorkspace()
	require.NoError(t, err)
	defer g.close()
	names := map[string]bool{}
	for _, b := range mutations {
		assert.NoError(t, g.apply(b, map[string]string{}), b.name)
		require.False(t, names[b.name], b.name)
		names[b.name] = true
	}
}

// What comes out of each mutation has types that hold, beside the packages that its own imports as they are.
// Modules that can't be had are left out.
func TestMutationsCompile(t *testing.T) {
	builds(t)
	g, err := newWorkspace()
	require.NoError(t, err)
	defer g.close()
	packages := map[string][]mutation{}
	for _, b := range mutations {
		if path.Ext(b.file) == ".go" {
			packages[path.Dir(b.file)] = append(packages[path.Dir(b.file)], b)
		}
	}
	for pkg, all := range packages {
		check(t, g, pkg, all)
	}
}

// check looks at the types of a package under each of its mutations.
func check(t *testing.T, g *workspace, pkg string, all []mutation) {
	dir, name := g.module(pkg)
	if !g.has(t.Context(), dir, name) {
		t.Logf("the requirements of %s can't be had", dir)
		return
	}
	list := g.command(t.Context(), dir, "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}} {{join .GoFiles \" \"}}", name)
	list.Stderr = t.Output()
	out, err := list.Output()
	require.NoError(t, err)
	exports, last := map[string]string{}, []string(nil)
	for line := range strings.Lines(string(out)) {
		last = strings.Fields(line) // the package itself: -deps lists it behind what it imports
		exports[last[0]] = last[1]
	}
	fset := token.NewFileSet()
	imports := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	for _, b := range all {
		texts := map[string]string{}
		require.NoError(t, g.apply(b, texts), b.name)
		var files []*ast.File
		for _, file := range last[2:] {
			file = filepath.Join(g.root, pkg, file)
			var source any // nil: of the file
			if text, changed := texts[file]; changed {
				source = text
			}
			f, err := parser.ParseFile(fset, file, source, parser.SkipObjectResolution)
			require.NoError(t, err, b.name)
			files = append(files, f)
		}
		_, err := imports.Check(last[0], fset, files, nil)
		require.NoError(t, err, b.name)
	}
}

// A few mutations per push, in packages that are small to build, and all of them in
// the long tier. Nothing is left in the tree.
func TestMutationsAreCaught(t *testing.T) {
	builds(t)
	few := map[string]bool{"convict without a proof": true, "stop before the last message": true, "use a token again": true}
	g, err := newWorkspace()
	require.NoError(t, err)
	defer g.close()
	for _, b := range mutations {
		if os.Getenv("STRAND_LONG") == "1" || few[b.name] {
			t.Run(b.name, func(t *testing.T) {
				v, err := g.try(t.Context(), b)
				require.NoError(t, err)
				if v == absent {
					t.Skip("its gate can't run here")
				}
				require.Equal(t, caught, v)
			})
		}
	}
	left, err := filepath.Glob(filepath.Join(g.root, "*", "testdata", "rapid"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// A mutation that no test can notice, and one that can't be applied.
func TestWorkspaceIsHonest(t *testing.T) {
	builds(t)
	g, err := newWorkspace()
	require.NoError(t, err)
	defer g.close()
	harmless := mutation{"harmless", "lock/entry.go", "r.at <= o.now() {", "o.now() >= r.at {", gate{"./lock", "^TestOneHolderPerKey$"}}
	v, err := g.try(t.Context(), harmless)
	require.NoError(t, err)
	require.Equal(t, missed, v)
	for _, b := range []mutation{
		{"stale", "lock/entry.go", "not there", "", harmless.gate},
		{"does not compile", "lock/entry.go", harmless.old, "{", harmless.gate},
		{"no such test", "lock/entry.go", harmless.old, harmless.new, gate{"./lock", "^TestNothing$"}},
	} {
		_, err := g.try(t.Context(), b)
		require.Error(t, err, b.name)
	}
}
