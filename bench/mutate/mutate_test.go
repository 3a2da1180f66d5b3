package main

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
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
	modules := map[string]map[string][]mutation{} // by directory, and by package there
	for _, b := range mutations {
		if path.Ext(b.file) == ".go" {
			dir, name := g.module(path.Dir(b.file))
			if modules[dir] == nil {
				modules[dir] = map[string][]mutation{}
			}
			modules[dir][name] = append(modules[dir][name], b)
		}
	}
	for dir, packages := range modules {
		names := slices.Collect(maps.Keys(packages))
		if !g.has(t.Context(), dir, names[0]) {
			t.Logf("the requirements of %s can't be had", dir)
			continue
		}
		list := g.command(t.Context(), dir, "go", append([]string{"list", "-export", "-deps",
			"-f", "{{.Dir}}\t{{.ImportPath}}\t{{.Export}}\t{{join .GoFiles \" \"}}"}, names...)...)
		list.Stderr = t.Output()
		out, err := list.Output()
		require.NoError(t, err)
		exports, files := map[string]string{}, map[string]string{}
		for line := range strings.Lines(string(out)) {
			fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t") // one may be empty
			exports[fields[1]], files[fields[0]] = fields[2], fields[3]
		}
		for name, all := range packages {
			check(t, g, filepath.Join(dir, name), strings.Fields(files[filepath.Join(dir, name)]), exports, all)
		}
	}
}

// check looks at the types of the package in dir under each of its mutations.
func check(t *testing.T, g *workspace, dir string, names []string, exports map[string]string, all []mutation) {
	fset := token.NewFileSet()
	known := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	files := map[string]*ast.File{}
	require.NotEmpty(t, names, dir)
	for _, name := range names {
		f, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range f.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name != "init" && f.Type.TypeParams == nil {
				f.Body = nil // it can only become wrong by what is in another file
			}
		}
		files[filepath.Join(dir, name)] = f
	}
	for _, b := range all {
		texts := map[string]string{}
		require.NoError(t, g.apply(b, texts), b.name)
		mutated := maps.Clone(files)
		for file, text := range texts {
			f, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
			require.NoError(t, err, b.name)
			mutated[file] = f
		}
		imports := types.Config{Importer: known, Error: func(err error) {
			e := err.(types.Error)
			if _, changed := texts[fset.Position(e.Pos).Filename]; changed || !e.Soft { // imports that no body is left to use
				t.Errorf("%s: %v", b.name, err)
			}
		}}
		_, _ = imports.Check(dir, fset, slices.Collect(maps.Values(mutated)), nil)
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
