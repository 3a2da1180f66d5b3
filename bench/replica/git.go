package main

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// usageError is something that only the person who started the program can
// put right: exit status 2.
type usageError struct{ error }

func wrong(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// repository is a git repository with a work tree and at least one commit.
type repository struct {
	git  string // the executable
	top  string // where its work tree begins
	head string // the commit that is replicated; HEAD may move meanwhile

	shallow bool // its first commits are missing
}

func openRepository(dir string) (*repository, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, wrong("git is not installed, or not in PATH: %w", err)
	}
	r := &repository{git: git, top: dir}
	answers, err := r.ask("rev-parse", "--is-bare-repository", "--is-inside-work-tree", "--is-shallow-repository")
	if err != nil {
		return nil, wrong("%q is not a git repository: %w", dir, err)
	}
	switch is := strings.Fields(answers); {
	case is[0] == "true":
		return nil, wrong("%q is a bare repository; make a clone with a work tree and replicate that", dir)
	case is[1] != "true":
		return nil, wrong("%q is inside the .git directory; use the work tree it belongs to", dir)
	default:
		r.shallow = is[2] == "true"
	}
	if r.top, err = r.ask("rev-parse", "--show-toplevel"); err != nil {
		return nil, err
	}
	if r.head, err = r.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}"); err != nil {
		return nil, wrong("%q has no commits yet, so there is nothing to replicate", dir)
	}
	return r, nil
}

// command prepares git. Settings of the user that would change what the
// commands print are put back to their defaults.
func (r *repository) command(args ...string) *exec.Cmd {
	defaults := []string{
		"-C", r.top, "-c", "log.showRoot=true", "-c", "log.showSignature=false",
		"-c", "log.diffMerges=first-parent", "-c", "diff.ignoreSubmodules=none",
	}
	return exec.Command(r.git, append(defaults, args...)...)
}

// ask returns what git prints, without the newline at its end.
func (r *repository) ask(args ...string) (string, error) {
	out, err := r.command(args...).Output()
	return string(bytes.TrimSuffix(out, []byte("\n"))), explain(err)
}

// explain adds what git said on stderr.
func explain(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		return fmt.Errorf("git: %s", bytes.TrimSpace(exit.Stderr))
	}
	return err
}
