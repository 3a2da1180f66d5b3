package main

import (
	"os"
	"path"
	"path/filepath"
	"slices"
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

// What comes out of the mutations compiles. As many as can go into one tree, which is much quicker
// than one each; modules that can't be had are left out of the build.
func TestMutationsCompile(t *testing.T) {
	builds(t)
	g, err := newWorkspace()
	require.NoError(t, err)
	defer g.close()
	for rest := mutations; len(rest) > 0; {
		var together, left []mutation
		texts := map[string]string{}
		for _, b := range rest {
			if g.apply(b, texts) == nil {
				together = append(together, b)
			} else {
				left = append(left, b)
			}
		}
		require.NotEmpty(t, together, "%v", left)
		compile(t, g, together)
		rest = left
	}
}

func compile(t *testing.T, g *workspace, together []mutation) {
	overlay, err := g.overlay(together...)
	require.NoError(t, err)
	packages := map[string][]string{} // of each module, and not ./..., whose programs would be linked
	for _, b := range together {
		if dir, pkg := g.module(path.Dir(b.file)); !slices.Contains(packages[dir], pkg) {
			packages[dir] = append(packages[dir], pkg)
		}
	}
	for dir, some := range packages {
		if !g.has(t.Context(), dir, some[0]) {
			t.Logf("the requirements of %s can't be had", dir)
			continue
		}
		out, err := g.command(t.Context(), dir, "go", append([]string{"build", "-overlay", overlay}, some...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
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
