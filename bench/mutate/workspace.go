package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// mutation is a text that is replaced by another one, and the tests that notice. They are in the
// module of their package, and may be in another one than the file.
type mutation struct {
	name     string
	file     string
	old, new string
	gate     gate
}

// gate is a selection of the tests of a package. Flags of theirs may stand behind it.
type gate struct{ pkg, tests string }

func (g gate) String() string { return g.pkg + " " + g.tests }

type verdict string

const (
	caught verdict = "caught"
	missed verdict = "NOT NOTICED"
	absent verdict = "skipped" // the gate needs something that is not here
)

// gateTime bounds one run of a gate: a mutation may make it wait for ever, which is
// a way to be noticed.
const gateTime = 2 * time.Minute

// workspace is a copy of the repository with mutations, seen through an overlay.
type workspace struct {
	root string // of the repository, and of the module that nested ones are in
	tmp  string
	good map[gate]bool // gates that pass without a mutation
}

func newWorkspace() (*workspace, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m: %w", err)
	}
	tmp, err := os.MkdirTemp("", "strand-mutate-")
	if err != nil {
		return nil, err
	}
	return &workspace{root: strings.TrimSpace(string(root)), tmp: tmp, good: map[gate]bool{}}, nil
}

func (g *workspace) close() { _ = os.RemoveAll(g.tmp) }

// try applies b and runs its gate.
func (g *workspace) try(ctx context.Context, b mutation) (verdict, error) {
	if !g.good[b.gate] {
		if dir, pkg := g.module(b.gate.pkg); !g.has(ctx, dir, pkg) {
			return absent, nil
		}
		pass, out, err := g.run(ctx, b.gate)
		if bytes.Contains(out, []byte("--- SKIP")) {
			return absent, err
		}
		if err != nil || !pass {
			return "", fmt.Errorf("gate %s without a mutation: %w\n%s", b.gate, errors.Join(err, errGate), out)
		}
		g.good[b.gate] = true
	}
	overlay, err := g.overlay(b)
	if err != nil {
		return "", err
	}
	if path.Ext(b.file) == ".sql" { // which the compiler does not see
		if pass, out, err := g.run(ctx, migrated, "-overlay", overlay); err != nil || !pass {
			return "", fmt.Errorf("what comes out is no SQL: %w\n%s", err, out)
		}
	}
	pass, _, err := g.run(ctx, b.gate, "-overlay", overlay)
	if err != nil {
		return "", err
	}
	if pass {
		return missed, nil
	}
	return caught, nil
}

// module returns the directory of the module that a package is in, and what the package is called
// there.
func (g *workspace) module(pkg string) (dir, name string) {
	at := filepath.Join(g.root, pkg)
	for dir = at; dir != g.root; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
	}
	name, _ = filepath.Rel(dir, at) // both are below root
	return dir, "./" + filepath.ToSlash(name)
}

// has reports whether the requirements of a nested module can be had.
func (g *workspace) has(ctx context.Context, dir, pkg string) bool {
	return dir == g.root || g.command(ctx, dir, "go", "list", "-deps", "-test", pkg).Run() == nil
}

var errGate = errors.New("it must pass, and select a test")

// overlay writes the files that mutations change, and what makes go read them. Bugs
// in one file add up.
func (g *workspace) overlay(applied ...mutation) (string, error) {
	texts := map[string]string{}
	for _, b := range applied {
		if err := g.apply(b, texts); err != nil {
			return "", err
		}
	}
	replace := map[string]string{}
	for file, text := range texts {
		broken, err := os.CreateTemp(g.tmp, "*.go")
		if err != nil {
			return "", err
		}
		_, err = broken.WriteString(text)
		if err := errors.Join(err, broken.Close()); err != nil {
			return "", err
		}
		replace[file] = broken.Name()
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(g.tmp, "overlay.json")
	return file, os.WriteFile(file, list, 0o600)
}

// apply changes the text of b's file, which is read if it is none of texts yet.
func (g *workspace) apply(b mutation, texts map[string]string) error {
	file := filepath.Join(g.root, b.file)
	if _, known := texts[file]; !known {
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		texts[file] = string(source)
	}
	if n := strings.Count(texts[file], b.old); n != 1 {
		return fmt.Errorf("%s: the text to replace is there %d times, not once:\n%s", b.file, n, b.old)
	}
	texts[file] = strings.Replace(texts[file], b.old, b.new, 1)
	return nil
}

// run builds the tests of a gate and runs them. A mutation that does not compile is
// an error: only the compiler has noticed it.
func (g *workspace) run(ctx context.Context, at gate, flags ...string) (pass bool, out []byte, err error) {
	dir, pkg := g.module(at.pkg)
	program := filepath.Join(g.tmp, "gate")
	if len(flags) == 0 { // it serves all gates of the package
		program += strings.ReplaceAll(at.pkg, "/", "_")
	}
	if _, err := os.Stat(program); err != nil || len(flags) > 0 {
		build := append(append([]string{"test", "-c", "-o", program}, flags...), pkg)
		if out, err := g.command(ctx, dir, "go", build...).CombinedOutput(); err != nil {
			return false, out, fmt.Errorf("go %s: %w\n%s", strings.Join(build, " "), err, out)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, gateTime)
	defer cancel()
	args := append([]string{"-test.v", "-test.timeout", gateTime.String(), "-test.run"}, strings.Fields(at.tests)...)
	if knows(program, "rapid.nofailfile") {
		args = append(args, "-rapid.nofailfile") // what fails here is no find to be kept
	}
	out, err = g.command(ctx, filepath.Join(g.root, at.pkg), program, args...).CombinedOutput()
	if err == nil && !bytes.Contains(out, []byte("--- PASS")) {
		return false, out, nil // nothing was selected, or all of it skipped
	}
	return err == nil, out, nil
}

// knows reports whether a program has a flag.
func knows(program, flag string) bool {
	text, err := os.ReadFile(program)
	return err == nil && bytes.Contains(text, []byte(flag))
}

func (g *workspace) command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	// Each module by itself, and compiled as .ci/run compiles nested ones. A gate makes all that a push makes, on any day.
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "STRAND_PUSH=1", "STRAND_THIRD=")
	cmd.WaitDelay = time.Second // children of a test that was killed may hold its output
	return cmd
}
