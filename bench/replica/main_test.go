package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const asProgram = "STRAND_REPLICA_AS_PROGRAM"

// TestMain lets the test binary be the program, for tests that need processes.
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	code := m.Run()
	if eventful != "" {
		_ = os.RemoveAll(eventful)
	}
	os.Exit(code)
}

// program runs the program in dir and returns what it printed.
func program(t *testing.T, dir string, args ...string) (output string, status int) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	c.Dir = dir
	c.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0") // else every run under -race ends with a second's pause
	out, _ := c.CombinedOutput()
	return string(out), c.ProcessState.ExitCode()
}

// places returns flags for a fresh target and journal, and the target.
func places(t *testing.T) (flags []string, target string) {
	dir := t.TempDir()
	target = filepath.Join(dir, "target")
	return []string{"-target", target, "-journal", filepath.Join(dir, "journal")}, target
}

func requireRight(t *testing.T, output string, status int) {
	t.Helper()
	require.Contains(t, output, "order violations: 0\n", output)
	require.Contains(t, output, "events lost: 0\n", output)
	require.Contains(t, output, "tree matches HEAD: yes ", output)
	require.Zero(t, status, output)
}

// requireSame asks git, which the program's own verification does not.
func requireSame(t *testing.T, repo testRepository, target string) {
	t.Helper()
	changes := repo.git("--git-dir="+filepath.Join(repo.dir, ".git"), "--work-tree="+target,
		"status", "--porcelain", "--ignored", "--untracked-files=all", "--", ":!sub")
	require.Empty(t, changes)
}

func TestReplica(t *testing.T) {
	slow(t)
	repo := eventfulRepository(t)
	for name, flags := range map[string][]string{
		"defaults":            nil,
		"as parallel as git":  {"-workers", "8", "-delay", "0"},
		"one shard":           {"-workers", "2", "-shards", "1"},
		"failures":            {"-workers", "8", "-fail", "20%"},
		"failures and pauses": {"-fail", "50", "-delay", "5ms"},
	} {
		t.Run(name, func(t *testing.T) {
			to, target := places(t)
			output, status := program(t, repo.dir, append(to, flags...)...)
			requireRight(t, output, status)
			requireSame(t, repo, target)
			assert.Contains(t, output, "submodules: 1 ")
		})
	}
}

func TestCrash(t *testing.T) {
	slow(t)
	repo := eventfulRepository(t)
	for name, flags := range map[string][]string{
		"":              {"-delay", "20ms"},
		"with failures": {"-delay", "10ms", "-fail", "20%", "-workers", "8"},
	} {
		t.Run(name, func(t *testing.T) {
			to, target := places(t)
			output, status := program(t, repo.dir, append(append(to, "-crash", "3"), flags...)...)
			requireRight(t, output, status)
			requireSame(t, repo, target)
			require.Regexp(t, `kills: [1-3] of 3 \(`, output, "a life may be over before its moment comes")
		})
	}
}

// A second run with the same journal takes only what is new.
func TestResume(t *testing.T) {
	repo := eventfulRepository(t)
	to, target := places(t)
	output, status := program(t, repo.dir, to...)
	requireRight(t, output, status)
	before := field(t, output, "runs")

	output, status = program(t, repo.dir, to...)
	requireRight(t, output, status)
	assert.Equal(t, before, field(t, output, "runs"), "nothing ran")
	assert.Contains(t, output, "lives: 2 (0 ended in a crash)")

	repo.write("new", "new\n")
	repo.commit()
	output, status = program(t, repo.dir, to...)
	requireRight(t, output, status)
	requireSame(t, repo, target)

	require.NoError(t, os.WriteFile(filepath.Join(target, "new"), []byte("old\n"), 0o666))
	output, status = program(t, repo.dir, to...)
	assert.Equal(t, 1, status, output)
	assert.Contains(t, output, "tree matches HEAD: no")

	repo.git("commit", "--quiet", "--amend", "-m", "rewritten")
	output, status = program(t, repo.dir, to...)
	assert.Equal(t, 2, status, output)
	assert.Contains(t, output, "the history was rewritten")
}

func field(t *testing.T, output, name string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + `: (\d+)`).FindStringSubmatch(output)
	require.NotNil(t, found, output)
	return found[1]
}

// What the user has configured for git changes nothing.
func TestSettings(t *testing.T) {
	repo := eventfulRepository(t)
	for setting, value := range map[string]string{
		"log.showRoot": "false", "log.diffMerges": "combined", "diff.ignoreSubmodules": "all", "diff.relative": "true",
		"diff.renames": "copies", "color.ui": "always", "core.quotePath": "true", "log.decorate": "full",
	} {
		repo.git("config", setting, value)
	}
	inside := filepath.Join(repo.dir, "deep", "er")
	require.NoError(t, os.MkdirAll(inside, 0o777))
	to, target := places(t)
	output, status := program(t, inside, to...)
	requireRight(t, output, status)
	assert.Contains(t, output, "submodules: 1 ")
	requireSame(t, repo, target)
}

func TestShallow(t *testing.T) {
	repo := eventfulRepository(t)
	dir := filepath.Join(t.TempDir(), "shallow")
	repo.git("clone", "--quiet", "--depth=5", "file://"+filepath.ToSlash(repo.dir), dir)
	to, _ := places(t)
	output, status := program(t, dir, to...)
	requireRight(t, output, status)
	assert.Contains(t, output, "shallow clone: yes")
}

func TestSHA256(t *testing.T) {
	repo := newRepository(t, "--object-format=sha256")
	repo.write("a", "a\n")
	repo.commit()
	to, _ := places(t)
	output, status := program(t, repo.dir, to...)
	requireRight(t, output, status)
}

// A last tree without a file leaves an empty target.
func TestNothingLeft(t *testing.T) {
	repo := newRepository(t)
	repo.write("a/b", "1\n")
	repo.commit()
	repo.remove("a")
	repo.commit()
	to, target := places(t)
	output, status := program(t, repo.dir, to...)
	requireRight(t, output, status)
	left, err := os.ReadDir(target)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestWrongUse(t *testing.T) {
	slow(t)
	repo := newRepository(t)
	repo.write("a", "a\n")
	repo.commit()
	empty := newRepository(t).dir
	bare := filepath.Join(t.TempDir(), "bare.git")
	repo.git("clone", "--quiet", "--bare", repo.dir, bare)
	full, target := places(t)
	require.NoError(t, os.MkdirAll(filepath.Join(target, "precious"), 0o777))
	used, _ := places(t)
	output, status := program(t, repo.dir, used...)
	requireRight(t, output, status)

	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no repository":      {[]string{"-repo", t.TempDir()}, "is not a git repository"},
		"no directory":       {[]string{"-repo", filepath.Join(t.TempDir(), "none")}, "is not a git repository"},
		"bare":               {[]string{"-repo", bare}, "is a bare repository"},
		"inside .git":        {[]string{"-repo", filepath.Join(repo.dir, ".git")}, "is inside the .git directory"},
		"empty":              {[]string{"-repo", empty}, "has no commits yet"},
		"flag":               {[]string{"-wrokers", "3"}, "-wrokers"},
		"argument":           {[]string{"there"}, `unexpected argument "there"`},
		"percent":            {[]string{"-fail", "101%"}, "from 0% to 90%"},
		"percent, no number": {[]string{"-fail", "NaN"}, "from 0% to 90%"},
		"workers":            {[]string{"-workers", "0"}, "-workers is 0"},
		"shards":             {[]string{"-shards", "9999"}, "-shards is 9999"},
		"crash":              {[]string{"-crash", "-1"}, "-crash"},
		"full target":        {full, "is not empty"},
		"used journal":       {[]string{"-journal", used[3], "-target", t.TempDir()}, "is that of another replica"},
		"crash, used":        {[]string{"-journal", used[3], "-target", t.TempDir(), "-crash", "2", "-delay", "1s"}, "is that of another replica"},
	} {
		t.Run(name, func(t *testing.T) {
			output, status := program(t, repo.dir, c.args...)
			assert.Equal(t, 2, status, output)
			assert.Contains(t, output, c.says)
			assert.NotContains(t, output, "goroutine")
		})
	}
	t.Run("no git", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		output, status := program(t, repo.dir)
		assert.Equal(t, 2, status, output)
		assert.Contains(t, output, "git is not installed")
	})
	t.Run("help", func(t *testing.T) {
		output, status := program(t, repo.dir, "-help")
		assert.Zero(t, status, output)
		assert.Contains(t, output, "-journal")
	})
}

// slow leaves a test that takes seconds to .ci/run, which sets CI, and to those who name tests.
func slow(t *testing.T) {
	t.Helper()
	if flag.Lookup("test.run").Value.String() == "" && os.Getenv("CI") == "" && os.Getenv("STRAND_LONG") == "" {
		t.Skip("takes seconds: CI=1 makes it")
	}
}
