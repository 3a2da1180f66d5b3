package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// imagesPerRun is how many images one recording is good for.
const imagesPerRun = 500

// imageProof repeats N2: what a loss of power may leave on a disk at any moment
// of a run, the first creation included, opens and has everything that was
// accepted.
func imageProof(c *campaign) error {
	for c.more() {
		if err := c.trial(imageRun); err != nil {
			return err
		}
	}
	return nil
}

// imageRun records two lives on one journal, and tries images of each.
func imageRun(c *campaign, r *rand.Rand, dir string) error {
	o := newOracle()
	journalDir := filepath.Join(dir, "jobs.strand")
	for number := range 2 {
		l := randomLife(r, journalDir, number+1)
		l.Ops = 5 + r.IntN(40)
		m, err := newMedium(journalDir)
		if err != nil {
			return err
		}
		trace := filepath.Join(dir, fmt.Sprintf("trace%d", number))
		p, err := startLife(l, func(string) error { return nil }, straceArgs(trace)...)
		if err != nil {
			return err
		}
		if err := p.Wait(30 * time.Second); err != nil {
			return err
		}
		calls, err := readTrace(trace, journalDir)
		if err != nil {
			return err
		}
		o.begin(number + 1)
		c.count("calls recorded", len(calls))
		if err := tryImages(c, r, o, m, calls, filepath.Join(dir, "image")); err != nil {
			return fmt.Errorf("life %d: %w", number+1, err)
		}
		o.end()
		if !o.clean {
			return fmt.Errorf("life %d ended with: %s", number+1, o.class)
		}
	}
	return nil
}

// tryImages follows a recording and loses the power at random calls.
func tryImages(c *campaign, r *rand.Rand, o *oracle, m *medium, calls []call, dir string) error {
	points := make([]int, imagesPerRun/2)
	for i := range points {
		points[i] = r.IntN(len(calls) + 1)
	}
	slices.Sort(points)
	for i := 0; ; i++ {
		for ; len(points) > 0 && points[0] == i; points = points[1:] {
			if err := m.lose(r, dir); err != nil {
				return err
			}
			in, err := contents(dir)
			if err == nil {
				err = o.missing(in)
			}
			if err != nil {
				return fmt.Errorf("power lost at call %d of %d: %w", i, len(calls), err)
			}
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			if c.did(1); !c.more() {
				points = nil
				break
			}
		}
		if i == len(calls) {
			return nil
		}
		if calls[i].path != "stdout" {
			m.do(calls[i])
			continue
		}
		for line := range strings.Lines(string(calls[i].data)) {
			if err := o.hear(line); err != nil {
				return err
			}
		}
	}
}
