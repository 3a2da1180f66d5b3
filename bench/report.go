package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// writeReport has the comparison with other systems, which is a module of its
// own, measure everything and write the page.
func (o *options) writeReport(ctx context.Context, out, errOut io.Writer) error {
	room, err := peersDir(ctx)
	if err != nil {
		return err
	}
	report, err := filepath.Abs(o.report)
	if err != nil {
		return err
	}
	args := []string{"run", "-C", room, ".", "-report", report}
	if o.dir != "." {
		dir, err := filepath.Abs(o.dir)
		if err != nil {
			return err
		}
		args = append(args, "-dir", dir)
	}
	if o.quick {
		args = append(args, "-quick")
	}
	command := exec.CommandContext(ctx, "go", args...)
	command.Stdout, command.Stderr = out, errOut
	// The terminal has told it, too. What it has begun it takes away.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = time.Minute
	if err := command.Run(); err != nil {
		return fmt.Errorf("go %s: %w", strings.Join(args, " "), errors.Join(context.Cause(ctx), err))
	}
	_, err = fmt.Fprintf(out, "%s\n", filepath.Join(report, "index.html"))
	return err
}

// peersDir returns where that module is: in the checkout that go works in.
func peersDir(ctx context.Context) (string, error) {
	found, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/strandjobs/strand").Output()
	dir := filepath.Join(string(bytes.TrimSpace(found)), "bench", "peers")
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "go.mod"))
	}
	if err != nil {
		return "", fmt.Errorf("-report: the module bench/peers is needed; run it in a checkout of Strand: %w", err)
	}
	return dir, nil
}
