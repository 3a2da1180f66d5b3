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
		return fmt.Errorf("go build ./bench: %w: %s", err, gist(out))
	}
	args := []string{"-json", "-dir", scratch}
	if brief {
		args = append(args, "-quick")
	}
	names, err := exec.CommandContext(ctx, program, append(args, "-list")...).Output()
	if err != nil {
		return fmt.Errorf("bench -list: %w", err)
	}
	workloads := strings.Fields(string(names))
	bar := newBar(len(workloads), progress)
	defer func() { _ = bar.Finish() }() // a bar that can't be drawn is no reason to stop
	var failed []error
	for _, name := range workloads {
		bar.Describe(fmt.Sprintf("%-28s", name))
		figures, err := ownRun(ctx, program, append(args, "-run", "^"+name+"$"))
		add(figures)
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
		}
		_ = bar.Add(1)
	}
	return errors.Join(failed...)
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
		err = fmt.Errorf("%w: %s", errors.Join(context.Cause(ctx), err), gist(errOut.Bytes()))
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
