package main

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every bug can still be planted: its place is there, once, and what comes out
// compiles. All go into one tree, which is much quicker than one each.
func TestBugsApply(t *testing.T) {
	require.Greater(t, len(bugs), 80, "README says so")
	g, err := newGarden()
	require.NoError(t, err)
	defer g.close()
	overlay, err := g.overlay(bugs...)
	require.NoError(t, err)
	build := []string{"build", "-overlay", overlay} // and not ./..., whose programs would be linked
	for _, b := range bugs {
		if dir := "./" + path.Dir(b.file); !slices.Contains(build, dir) {
			build = append(build, dir)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", build...)
	cmd.Dir = g.root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	names := map[string]bool{}
	for _, b := range bugs {
		require.False(t, names[b.name], b.name)
		names[b.name] = true
	}
}

// A few bugs per push, all of them in the long tier. Nothing is left in the tree.
func TestBugsAreCaught(t *testing.T) {
	few := map[string]bool{"skip the checksum": true, "a shard that stays exempt": true, "use a token again": true}
	g, err := newGarden()
	require.NoError(t, err)
	defer g.close()
	for _, b := range bugs {
		if os.Getenv("STRAND_LONG") == "1" || few[b.name] {
			t.Run(b.name, func(t *testing.T) {
				v, err := g.try(t.Context(), b)
				require.NoError(t, err)
				require.Equal(t, caught, v)
			})
		}
	}
	left, err := filepath.Glob(filepath.Join(g.root, "*", "testdata", "rapid"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// A bug that no test can notice, and one that can't be planted.
func TestGardenIsHonest(t *testing.T) {
	g, err := newGarden()
	require.NoError(t, err)
	defer g.close()
	harmless := bug{"harmless", "lock/clock.go", "a.heap[0].slot().at > now {", "now < a.heap[0].slot().at {", gate{"./lock", "^TestOneHolderPerKey$"}}
	v, err := g.try(t.Context(), harmless)
	require.NoError(t, err)
	require.Equal(t, missed, v)
	for _, b := range []bug{
		{"stale", "lock/clock.go", "not there", "", harmless.gate},
		{"does not compile", "lock/clock.go", harmless.old, "{", harmless.gate},
		{"no such test", "lock/clock.go", harmless.old, harmless.new, gate{"./lock", "^TestNothing$"}},
	} {
		_, err := g.try(t.Context(), b)
		require.Error(t, err, b.name)
	}
}
