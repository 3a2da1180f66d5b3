package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	beChild()
	_ = flag.Set("test.parallel", "5") // proofs wait for processes; -parallel of go test counts
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		code = 1
	}
	os.Exit(code)
}

// runTests gives the children a program without the race detector, if this one has
// it: under strace it makes them ten times slower. Proofs that need no child
// run with it.
func runTests(m *testing.M) (int, error) {
	if !raceEnabled {
		return m.Run(), nil
	}
	dir, err := os.MkdirTemp("", "strand-soak-")
	if err != nil {
		return 0, err
	}
	program := filepath.Join(dir, "soak")
	if output, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err == nil {
		childProgram = func() (string, error) { return program, nil }
	} else {
		fmt.Fprintf(os.Stderr, "soak: children run with the race detector: %v: %s\n", err, output)
	}
	return m.Run(), os.RemoveAll(dir)
}

// oneIn thins out what waits for processes, and what one goroutine makes of their lines: in a go
// test of every day and under the detector a proof makes one in so many units. With STRAND_PUSH=1
// and without the detector it makes all: .ci/run does.
var oneIn = func() int {
	switch {
	case raceEnabled:
		return 9
	case longTier() || os.Getenv("STRAND_PUSH") != "":
		return 1
	}
	return 20
}()

func TestProofs(t *testing.T) {
	for _, p := range proofs {
		t.Run(p.name, func(t *testing.T) {
			if p.lacks != nil {
				if why := p.lacks(); why != "" {
					t.Skip(why)
				}
			}
			units := p.short
			if p.name == "syscall" && !raceEnabled && oneIn > 1 {
				t.Skip("stops at every call of the system: STRAND_PUSH=1 does it, as .ci/run")
			}
			if p.name != "stop" { // which runs in this process, and counts its goroutines
				t.Parallel() // they wait for processes, most of the time
			}
			if p.name != "stop" || !raceEnabled { // it has what the detector is for
				units = max(units/oneIn, 1)
			}
			if longTier() {
				units = p.long
			}
			c := newCampaign(p, uint64(time.Now().UnixNano()), units, time.Time{})
			if err := p.run(c); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d %s in %v", c.Done, c.unit, time.Since(c.start).Round(time.Millisecond))
			for _, line := range c.lines() {
				t.Log(line)
			}
		})
	}
}
