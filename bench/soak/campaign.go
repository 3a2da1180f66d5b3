package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/strandjobs/strand/bench/child"
)

// campaign repeats one proof until it has done enough, and keeps its tallies.
// It belongs to one goroutine.
type campaign struct {
	proof string
	unit  string
	seed  uint64 // of the next trial; every trial takes the next one
	limit int    // units; 0: until the end of the time
	until time.Time
	start time.Time

	Done   int            // units
	Counts map[string]int // sums
	Peaks  map[string]int // maxima
}

func newCampaign(p proof, seed uint64, limit int, until time.Time) *campaign {
	return &campaign{
		proof: p.name, unit: p.unit, seed: seed, limit: limit, until: until, start: time.Now(),
		Counts: map[string]int{}, Peaks: map[string]int{},
	}
}

// more reports whether another trial is wanted.
func (c *campaign) more() bool {
	return (c.limit == 0 || c.Done < c.limit) && (c.until.IsZero() || time.Now().Before(c.until))
}

func (c *campaign) did(units int)              { c.Done += units }
func (c *campaign) count(name string, n int)   { c.Counts[name] += n }
func (c *campaign) highest(name string, n int) { c.Peaks[name] = max(c.Peaks[name], n) }

// trial runs f with the next seed in an empty directory. An error says how to
// repeat it; the directory stays for a look.
func (c *campaign) trial(f func(*campaign, *rand.Rand, string) error) error {
	seed := c.seed
	c.seed++
	dir, err := os.MkdirTemp(child.FastDir(), "strand-soak-")
	if err != nil {
		return err
	}
	// Symbolic links would make the paths of a trace differ from ours.
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	if err := f(c, rand.New(rand.NewPCG(seed, 1)), dir); err != nil {
		return fmt.Errorf("%s: %w\nafter %d %s; repeat it with: go run ./bench/soak -run '^%s$' -seed %d -cycles 1\nthe journal is in %s",
			c.proof, err, c.Done, c.unit, c.proof, seed, dir)
	}
	return os.RemoveAll(dir)
}
