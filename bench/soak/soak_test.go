package main

import (
	"flag"
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	beChild()
	_ = flag.Set("test.parallel", "5") // proofs wait for processes; -parallel of go test counts
	os.Exit(m.Run())
}

// oneIn thins out what waits for processes: in a go test of every day a proof makes one in so many
// units. With STRAND_PUSH=1 it makes all: .ci/run does.
var oneIn = func() int {
	if longTier() || os.Getenv("STRAND_PUSH") != "" {
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
			switch {
			case p.name == "stop": // which runs in this process, counts its goroutines, and has what the detector is for
			case raceEnabled:
				t.Skip("looks at what processes leave behind: .ci/run makes it without the detector")
			case p.name == "syscall" && oneIn > 1:
				t.Skip("stops at every call of the system: STRAND_PUSH=1 does it, as .ci/run")
			default:
				t.Parallel() // they wait for processes, most of the time
			}
			if !raceEnabled {
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
