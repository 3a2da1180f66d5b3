package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testRepository is a git repository that a test makes.
type testRepository struct {
	t   *testing.T
	dir string
}

func newRepository(t *testing.T, flags ...string) testRepository {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	for name, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_SYSTEM": os.DevNull, "GIT_CONFIG_NOSYSTEM": "1",
		"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com",
	} {
		t.Setenv(name, value)
	}
	r := testRepository{t, filepath.Join(t.TempDir(), "repo")}
	require.NoError(t, os.Mkdir(r.dir, 0o777))
	r.git(append([]string{"init", "--quiet", "-b", "main"}, flags...)...)
	return r
}

func (r testRepository) git(args ...string) string {
	r.t.Helper()
	c := exec.Command("git", append([]string{"-c", "maintenance.auto=false"}, args...)...) // one process less for each commit
	c.Dir = r.dir
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	require.NoError(r.t, err, "git %q: %s", args, said.String())
	return strings.TrimSuffix(string(out), "\n")
}

func (r testRepository) commit() {
	r.t.Helper()
	r.git("add", "--all", ".", ":!sub")
	r.git("commit", "--quiet", "--allow-empty", "-m", "change")
}

// clear makes room for name.
func (r testRepository) clear(name string) string {
	full := filepath.Join(r.dir, name)
	for dir := filepath.Dir(full); dir != r.dir; dir = filepath.Dir(dir) {
		if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
			require.NoError(r.t, os.Remove(dir))
		}
	}
	require.NoError(r.t, os.RemoveAll(full))
	require.NoError(r.t, os.MkdirAll(filepath.Dir(full), 0o777))
	return full
}

func (r testRepository) remove(name string) {
	require.NoError(r.t, os.RemoveAll(filepath.Join(r.dir, name)))
}

func (r testRepository) write(name, content string) {
	require.NoError(r.t, os.WriteFile(r.clear(name), []byte(content), 0o666))
}

func (r testRepository) link(name, to string) { require.NoError(r.t, os.Symlink(to, r.clear(name))) }

func (r testRepository) executable(name string, yes bool) {
	mode := os.FileMode(0o644)
	if yes {
		mode = 0o755
	}
	require.NoError(r.t, os.Chmod(filepath.Join(r.dir, name), mode))
}

// eventful is the .git directory of an eventfulRepository, TestMain's to remove: to make it takes
// hundreds of processes.
var eventful string

// eventfulRepository has everything that may go wrong.
func eventfulRepository(t *testing.T) testRepository {
	if runtime.GOOS == "windows" {
		t.Skip("names, links and modes that this system does not have")
	}
	r := newRepository(t)
	git := filepath.Join(r.dir, ".git")
	if eventful == "" {
		makeEventful(r)
		dir, err := os.MkdirTemp("", "eventful-")
		require.NoError(t, err)
		eventful = dir
		require.NoError(t, os.CopyFS(eventful, os.DirFS(git)))
		return r
	}
	require.NoError(t, os.RemoveAll(git))
	require.NoError(t, os.CopyFS(git, os.DirFS(eventful)))
	r.git("reset", "--quiet", "--hard")
	return r
}

func makeEventful(r testRepository) {
	long := strings.Repeat(strings.Repeat("d", 200)+"/", 3)
	for _, name := range []string{
		"a", "dir/x", "dir/y", "run", "tool", "to-remove", "to-rename", " lead", "new\nline", "quote\"s", "tab\t", ":100644 x", "ünï",
		"empty", "-dash", "deep/er/est", long + "one", long + "two",
	} {
		r.write(name, name+"\n")
	}
	r.write("empty", "")
	r.write("binary", "\x00\xff\r\n")
	if runtime.GOOS == "linux" { // others insist on UTF-8
		r.write("\xff\xfe", "no UTF-8\n")
	}
	r.executable("run", true)
	r.link("link", "dir")
	r.link("dangling", "no\nwhere")
	r.commit()

	r.write("a/b", "a is a directory\n") // file → directory
	r.write("a/c/d", "deeper\n")
	r.executable("run", false)
	r.executable("tool", true)
	r.commit()
	r.write("link/x", "link is a directory\n") // link → directory, which must not go through the link
	r.write(long+"one", "changed\n")
	r.commit()
	r.commit() // changes nothing
	r.write("a", "a file again\n")
	r.remove("to-remove")
	r.remove("dir/y")
	r.git("mv", "to-rename", "renamed")
	r.commit()

	r.git("checkout", "--quiet", "-b", "side")
	for i := range 3 {
		r.write("side", strings.Repeat("s", i+1))
		r.commit()
	}
	r.git("checkout", "--quiet", "main")
	r.write("main", "m\n")
	r.commit()
	r.git("merge", "--quiet", "--no-ff", "-m", "merge", "side")

	head := r.git("rev-parse", "HEAD")
	submodule := func() {
		r.git("update-index", "--add", "--cacheinfo", "160000,"+head+",sub")
		r.git("commit", "--quiet", "-m", "submodule")
	}
	submodule()
	r.git("rm", "--quiet", "--cached", "sub")
	r.write("sub/file", "not a submodule\n")
	r.git("add", "sub/file")
	r.git("commit", "--quiet", "-m", "no submodule")
	r.git("rm", "--quiet", "-r", "--cached", "sub")
	r.remove("sub")
	submodule()

	for i := range 40 {
		switch n := strings.Repeat("n", i); i % 4 {
		case 0:
			r.write("flip", n)
		case 1:
			r.write("flip/in", n)
			r.write("flip/side/in", n)
		case 2:
			r.link("flip", "a"+n)
		default:
			r.write("flip/in/deep", n)
		}
		for _, name := range []string{"dir/x", "deep/er/est", "main"}[:i%4] {
			r.write(name, strings.Repeat(name, i))
		}
		r.commit()
	}
}
