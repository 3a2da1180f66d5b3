package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// mutation is a text that is replaced by another one, and the tests that notice.
type mutation struct {
	name     string
	file     string
	old, new string
	gate     gate
}

// gate is a selection of the tests of a package.
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
const gateTime = 60 * time.Second

// workspace is a copy of the module with mutations, seen through an overlay.
type workspace struct {
	root string // of the module
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
	pass, _, err := g.run(ctx, b.gate, "-overlay", overlay)
	if err != nil {
		return "", err
	}
	if pass {
		return missed, nil
	}
	return caught, nil
}

var errGate = errors.New("it must pass, and select a test")

// overlay writes the files that mutations change, and what makes go read them. Bugs
// in one file add up.
func (g *workspace) overlay(applied ...mutation) (string, error) {
	texts := map[string]string{}
	for _, b := range applied {
		path := filepath.Join(g.root, b.file)
		if _, known := texts[path]; !known {
			source, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			texts[path] = string(source)
		}
		if n := strings.Count(texts[path], b.old); n != 1 {
			return "", fmt.Errorf("%s: the text to replace is there %d times, not once:\n%s", b.file, n, b.old)
		}
		texts[path] = strings.Replace(texts[path], b.old, b.new, 1)
	}
	replace := map[string]string{}
	for path, text := range texts {
		broken, err := os.CreateTemp(g.tmp, "*.go")
		if err != nil {
			return "", err
		}
		_, err = broken.WriteString(text)
		if err := errors.Join(err, broken.Close()); err != nil {
			return "", err
		}
		replace[path] = broken.Name()
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(g.tmp, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}

// run builds the tests of a gate and runs them. A mutation that does not compile is
// an error: only the compiler has noticed it.
func (g *workspace) run(ctx context.Context, at gate, flags ...string) (pass bool, out []byte, err error) {
	program := filepath.Join(g.tmp, "gate")
	build := append(append([]string{"test", "-c", "-o", program}, flags...), at.pkg)
	if out, err := g.command(ctx, g.root, "go", build...).CombinedOutput(); err != nil {
		return false, out, fmt.Errorf("go %s: %w\n%s", strings.Join(build, " "), err, out)
	}
	ctx, cancel := context.WithTimeout(ctx, gateTime)
	defer cancel()
	args := []string{"-test.v", "-test.run", at.tests, "-test.timeout", gateTime.String()}
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
	cmd.WaitDelay = time.Second // children of a test that was killed may hold its output
	return cmd
}
