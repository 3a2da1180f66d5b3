package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/strandjobs/strand/bench/baseline"
)

// childVariable tells a process that it is a child, and what to do.
const childVariable = "STRAND_BENCH_CHILD"

const (
	childReplay       = "replay"
	childScan         = "scan"
	childIdle         = "idle"          // an executor that has nothing to do
	childLocks        = "locks"         // the same, with locks held and jobs that wait for them
	childEmpty        = "empty"         // a process that has nothing to do
	childLargeBacklog = "beyond-memory" // a backlog larger than its memory
)

// order is what a child is told, report what it says.
type (
	order struct {
		Kind, Scratch, Dir string
		N, Shards          int
	}
	report struct {
		Seconds, PeakMiB float64
		Wakeups, CPU     float64 // per second, and milliseconds per second

		FillSeconds, AnonymousMiB float64 // of a large backlog, when it was complete
		Error                     string
	}
)

// child does the work in another process.
func (l *lab) child(ctx context.Context, kind string) (r report, err error) {
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	what, err := json.Marshal(order{kind, l.scratch, l.dir, l.n, l.shards})
	if err != nil {
		return r, err
	}
	command := exec.CommandContext(ctx, self)
	command.Env = append(os.Environ(), childVariable+"="+string(what))
	var errOut bytes.Buffer
	command.Stderr = &errOut
	out, err := command.Output()
	if err != nil {
		return r, fmt.Errorf("child: %w: %s", err, bytes.TrimSpace(errOut.Bytes()))
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return r, fmt.Errorf("child: %w in %q", err, out)
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}

// childMain reports whether this process is a child, after its work.
func childMain() bool {
	what, is := os.LookupEnv(childVariable)
	if !is {
		return false
	}
	var o order
	var r report
	err := json.Unmarshal([]byte(what), &o)
	if err == nil {
		r, err = o.carryOut()
	}
	if err != nil {
		r.Error = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		os.Exit(exitFailed) // there is no reader any more
	}
	return true
}

func (o order) carryOut() (r report, err error) {
	var took time.Duration
	switch o.Kind {
	case childReplay:
		took, err = o.replay()
	case childScan:
		took, err = baseline.Scan(o.Dir, o.N)
	case childIdle:
		return o.keepStill()
	case childLocks:
		return o.keepLocked()
	case childEmpty:
		return doNothing(o.N), nil
	case childLargeBacklog:
		return o.largeBacklog()
	}
	return report{Seconds: took.Seconds(), PeakMiB: peakMiB()}, err
}
