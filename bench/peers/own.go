package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// figure is a line of what go run ./bench -json prints.
type figure struct {
	Name          string  `json:"name"`
	Durability    string  `json:"durability"`
	Value         float64 `json:"value"`
	Min           float64 `json:"min"`
	Max           float64 `json:"max"`
	Unit          string  `json:"unit"`
	Slack         float64 `json:"slack,omitempty"`
	Baseline      string  `json:"baseline"`
	BaselineValue float64 `json:"baseline_value"`
	Ratio         float64 `json:"ratio"`
	RatioMin      float64 `json:"ratio_min"`
	RatioMax      float64 `json:"ratio_max"`
	N             int     `json:"n"`
	Rounds        int     `json:"rounds"`
	Goal          string  `json:"goal,omitempty"`
	Met           *bool   `json:"met,omitempty"`
}

// The quick version of Strand's own workloads: those whose figures need a
// number of jobs, with a small one, and those that take their time.
var (
	ownQuick = [][]string{
		{"-rounds", "1", "-n", "60000", "-run", "^(durable/bulk|durable/single|memory/bulk|memory/single|lowkiq|zipf|retry|mixed|scaling/.*|cost/.*|written/.*|allocs/.*|hotid|backlog)$"},
		{"-rounds", "1", "-run", "^(durable/latency|memory/latency|startup|idle)$"},
	}
	ownFull = [][]string{{"-run", ""}}
)

// ownLimit is how long one workload may take.
const ownLimit = 10 * time.Minute

// own measures Strand's own workloads, with the program beside this module,
// each in a process of its own: what one leaves behind doesn't change the next
// one, and what one breaks is not lost for the others. After each of them it
// hands over its figures.
func own(ctx context.Context, root, dir string, brief bool, progress io.Writer, add func([]figure)) (err error) {
	scratch, err := os.MkdirTemp(dir, "strand-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	program := filepath.Join(scratch, "bench")
	build := exec.CommandContext(ctx, "go", "build", "-C", root, "-o", program, "./bench")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./bench: %w: %s", err, tail(out))
	}
	runs := ownFull
	if brief {
		runs = ownQuick
	}
	orders, err := ownOrders(ctx, program, runs)
	if err != nil {
		return err
	}
	bar := newBar(len(orders), progress)
	defer func() { _ = bar.Finish() }() // a bar that can't be drawn is no reason to stop
	var failed []error
	for _, o := range orders {
		bar.Describe(fmt.Sprintf("%-28s", o.name))
		figures, err := ownRun(ctx, program, append([]string{"-json", "-dir", scratch}, o.args...))
		add(figures)
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", o.name, err))
		}
		_ = bar.Add(1)
	}
	return errors.Join(failed...)
}

// ownOrder is one workload, and how to measure it.
type ownOrder struct {
	name string
	args []string
}

func ownOrders(ctx context.Context, program string, runs [][]string) (all []ownOrder, err error) {
	for _, args := range runs {
		out, err := exec.CommandContext(ctx, program, append([]string{"-list"}, args...)...).Output()
		if err != nil {
			return nil, fmt.Errorf("bench -list: %w", err)
		}
		for name := range strings.FieldsSeq(string(out)) {
			all = append(all, ownOrder{name, append(args[:len(args)-2:len(args)-2], "-run", "^"+name+"$")})
		}
	}
	return all, nil
}

// ownRun returns what the program has measured, also if it fails.
func ownRun(ctx context.Context, program string, args []string) (all []figure, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, ownLimit, errHung)
	defer cancel()
	var out, errOut bytes.Buffer
	command := exec.CommandContext(ctx, program, args...)
	command.Stdout, command.Stderr, command.WaitDelay = &out, &errOut, 5*time.Second
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) } // its own children, too
	if err = command.Run(); err != nil {
		err = fmt.Errorf("%w: %s", errors.Join(context.Cause(ctx), err), tail(errOut.Bytes()))
	}
	for decoder := json.NewDecoder(&out); ; {
		var f figure
		if end := decoder.Decode(&f); errors.Is(end, io.EOF) {
			return all, err
		} else if end != nil {
			return all, errors.Join(err, end)
		}
		all = append(all, f)
	}
}
