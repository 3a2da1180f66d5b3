package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newTarget(t *testing.T) *target {
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return &target{root: root}
}

func content(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

// TestTargetInAnyOrder brings paths that exclude each other up to date in a
// random order, as jobs do, and expects the last tree.
func TestTargetInAnyOrder(t *testing.T) {
	t.Parallel()
	names := []string{"a", "a/b", "a/b/c", "a/d", "e/f", "e"}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		var pending [6][]string // changes of each path that its job has not done, "" removes it
		var now [6]string
		x := newTarget(t)
		step := func() {
			i := random.IntN(len(names))
			if len(pending[i]) == 0 {
				return
			}
			var err error
			switch newest := pending[i][len(pending[i])-1]; {
			case newest == "":
				err = x.remove(names[i])
			case strings.HasPrefix(newest, "link"):
				err = x.write(names[i], modeSymlink, content(newest))
			default:
				err = x.write(names[i], "100644", content(newest))
			}
			if errors.Is(err, errBusy) {
				require.NotEmpty(t, pending[i][len(pending[i])-1], "a removal never waits")
				return
			}
			require.NoError(t, err, "seed %d", seed)
			pending[i] = nil
		}
		for commit := range 12 {
			tree := randomTree(random, names, commit)
			for i := range names {
				if now[i] != tree[i] {
					pending[i] = append(pending[i], tree[i])
					now[i] = tree[i]
				}
			}
			for range random.IntN(8) {
				step()
			}
		}
		for steps := 0; slices.ContainsFunc(pending[:], func(c []string) bool { return len(c) > 0 }); steps++ {
			require.Less(t, steps, 10000, "seed %d: they wait for each other", seed)
			step()
		}
		assert.Equal(t, now, treeOf(t, x, names), "seed %d", seed)
	}
}

// randomTree gives contents to names of which none is the directory of another.
func randomTree(random *rand.Rand, names []string, commit int) (tree [6]string) {
	for _, i := range random.Perm(len(names)) {
		free := random.IntN(3) > 0
		for j, other := range names {
			if tree[j] != "" && (strings.HasPrefix(other, names[i]+"/") || strings.HasPrefix(names[i], other+"/")) {
				free = false
			}
		}
		if free {
			tree[i] = fmt.Sprintf("%s%d", []string{"link", "file"}[random.IntN(2)], commit)
		}
	}
	return tree
}

// treeOf reads the target. There must be nothing but names in it.
func treeOf(t *testing.T, x *target, names []string) (tree [6]string) {
	t.Helper()
	require.NoError(t, fs.WalkDir(x.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if d.IsDir() {
			if in, err := fs.ReadDir(x.root.FS(), name); err == nil && len(in) == 0 && name != "." {
				t.Errorf("%s is an empty directory", name)
			}
			return err
		}
		i := slices.Index(names, name)
		require.GreaterOrEqual(t, i, 0, name)
		if d.Type() == fs.ModeSymlink {
			tree[i], err = x.root.Readlink(name)
			return err
		}
		data, err := fs.ReadFile(x.root.FS(), name)
		tree[i] = string(data)
		return err
	}))
	return tree
}

// A link in the way leads nowhere: nothing is written or removed behind it.
func TestTargetDoesNotFollowLinks(t *testing.T) {
	x, outside := newTarget(t), t.TempDir()
	require.NoError(t, os.WriteFile(outside+"/precious", nil, 0o666))
	require.NoError(t, x.write("inside/precious", "100644", content("")))
	for _, to := range []string{outside, "inside"} {
		require.NoError(t, x.write("link", modeSymlink, content(to)))
		require.ErrorIs(t, x.write("link/precious", "100755", content("taken")), errBusy)
		require.NoError(t, x.remove("link/precious"))
	}
	for _, name := range []string{outside + "/precious", x.root.Name() + "/inside/precious"} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.Zero(t, info.Size())
	}
}

func TestVerify(t *testing.T) {
	r := eventfulRepository(t)
	repo, err := openRepository(r.dir)
	require.NoError(t, err)
	for name, spoil := range map[string]func(root *os.Root) error{
		`"run": its content is`:           func(root *os.Root) error { return root.WriteFile("run", []byte("else"), 0o666) },
		`"tool": it is a -rw-r--r--`:      func(root *os.Root) error { return root.Chmod("tool", 0o644) },
		`"main": it is a -rwx`:            func(root *os.Root) error { return root.Chmod("main", 0o755) },
		`"a": statat a: no such file`:     func(root *os.Root) error { return root.Remove("a") },
		`"more": it is in the target`:     func(root *os.Root) error { return root.WriteFile("more", nil, 0o666) },
		`"dir/more": it is in the target`: func(root *os.Root) error { return root.Mkdir("dir/more", 0o777) },
		`"sub": it is in the target`:      func(root *os.Root) error { return root.Mkdir("sub", 0o777) },
		`"dangling": its content is`:      func(root *os.Root) error { return errors.Join(root.Remove("dangling"), root.Symlink("x", "dangling")) },
		`"dangling": it is a -rw`: func(root *os.Root) error {
			return errors.Join(root.Remove("dangling"), root.WriteFile("dangling", []byte("no\nwhere"), 0o666))
		},
		`"new\nline": it is a drwx`: func(root *os.Root) error {
			return errors.Join(root.Remove("new\nline"), root.Mkdir("new\nline", 0o777))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r.git("--work-tree="+dir, "checkout", "--force", "HEAD", "--", ":!sub")
			root, err := os.OpenRoot(dir)
			require.NoError(t, err)
			defer root.Close()
			v, err := verify(repo, root)
			require.NoError(t, err)
			require.Empty(t, v.differences)
			require.NoError(t, spoil(root))
			v, err = verify(repo, root)
			require.NoError(t, err)
			require.Len(t, v.differences, 1)
			require.True(t, strings.HasPrefix(v.differences[0], name), v.differences[0])
		})
	}
}
