package main

import (
	"bufio"
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
	"time"

	"github.com/schollz/progressbar/v3"
)

// figure is a line of what go run ./bench -json prints.
type figure struct {
	Name          string  `json:"name"`
	Durability    string  `json:"durability"`
	Value         float64 `json:"value"`
	Min           float64 `json:"min"`
	Max           float64 `json:"max"`
	Unit          string  `json:"unit"`
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
	ownFull = [][]string{nil}
)

// own measures Strand's own workloads, with the program beside this module.
func own(ctx context.Context, root, dir string, brief bool, progress io.Writer) (all []figure, err error) {
	scratch, err := os.MkdirTemp("", "strand-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	program := filepath.Join(scratch, "bench")
	build := exec.CommandContext(ctx, "go", "build", "-C", root, "-o", program, "./bench")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build ./bench: %w: %s", err, tail(out))
	}
	runs := ownFull
	if brief {
		runs = ownQuick
	}
	for _, args := range runs {
		figures, err := ownRun(ctx, program, append([]string{"-json", "-dir", dir}, args...), progress)
		all = append(all, figures...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

func ownRun(ctx context.Context, program string, args []string, progress io.Writer) (all []figure, err error) {
	command := exec.CommandContext(ctx, program, args...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) } // it removes its files
	command.WaitDelay = 20 * time.Second
	var out bytes.Buffer
	command.Stdout = &out
	said, err := command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	complaints := follow(said, progress)
	if err := command.Wait(); err != nil {
		return nil, fmt.Errorf("bench: %w: %s", err, complaints)
	}
	for decoder := json.NewDecoder(&out); ; {
		var f figure
		if err := decoder.Decode(&f); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return all, fmt.Errorf("bench: %w", err)
		}
		all = append(all, f)
	}
}

// follow draws a bar from lines like "3/12 durable/bulk". It returns the other
// ones.
func follow(said io.Reader, progress io.Writer) (others string) {
	var bar *progressbar.ProgressBar
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		var at, total int
		var name string
		if n, _ := fmt.Sscanf(lines.Text(), "%d/%d %s", &at, &total, &name); n != 3 {
			others += lines.Text() + "\n"
			continue
		}
		if bar == nil {
			bar = newBar(total, progress)
		}
		bar.Describe(fmt.Sprintf("%-28s", name))
		_ = bar.Set(at - 1) // a bar that can't be drawn is no reason to stop
	}
	if bar != nil {
		_ = bar.Finish()
	}
	return strings.TrimSpace(others)
}

func newBar(total int, progress io.Writer) *progressbar.ProgressBar {
	return progressbar.NewOptions(total, progressbar.OptionSetWriter(progress), progressbar.OptionSetPredictTime(true),
		progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))
}
