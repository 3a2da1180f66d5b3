package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/journal"
)

// imagesPerLife is how many images one recording is good for.
const imagesPerLife = 100

// openingCalls is about how many the opening of a journal makes.
const openingCalls = 100

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

// imageRun records some lives on one journal, and tries images of each. A life ends in
// order, or the power is lost in its midst: then the next one begins with what that has left.
func imageRun(c *campaign, r *rand.Rand, dir string) error {
	o := newOracle()
	journalDir := filepath.Join(dir, "jobs.strand")
	m, err := newMedium(journalDir)
	if err != nil {
		return err
	}
	for number := range 4 {
		l := randomLife(r, journalDir, number+1)
		l.Ops = 5 + r.IntN(40)
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
		lost := r.IntN(3) > 0
		if lost {
			calls = calls[:r.IntN(len(calls)+1)]
		}
		if err := tryImages(c, r, o, m, calls, filepath.Join(dir, "image")); err != nil {
			return fmt.Errorf("life %d: %w", number+1, err)
		}
		o.end()
		switch {
		case !lost && !o.clean:
			return fmt.Errorf("life %d ended with: %s", number+1, o.class)
		case !lost:
			err = m.agree()
		default:
			c.count("lives on what a loss of power has left", 1)
			m, err = m.loseAll(r)
		}
		if err != nil {
			return fmt.Errorf("life %d: %w", number+1, err)
		}
	}
	return nil
}

// loseAll has the power lost for good: the directory is as that leaves it.
func (m *medium) loseAll(r *rand.Rand) (*medium, error) {
	if err := os.RemoveAll(m.dir); err != nil {
		return nil, err
	}
	if err := m.lose(r, m.dir); err != nil {
		return nil, err
	}
	return newMedium(m.dir)
}

// tryImages follows a recording and loses the power at random calls.
func tryImages(c *campaign, r *rand.Rand, o *oracle, m *medium, calls []call, dir string) error {
	points := make([]int, imagesPerLife)
	for i := range points {
		points[i] = r.IntN(len(calls) + 1)
		if i%3 == 0 { // while it is opened
			points[i] = r.IntN(min(len(calls), openingCalls) + 1)
		}
	}
	slices.Sort(points)
	for i := 0; ; i++ {
		for ; len(points) > 0 && points[0] == i; points = points[1:] {
			err := m.lose(r, dir)
			if err == nil {
				err = tryImage(c, r, o, dir)
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
			if err := m.do(calls[i]); err != nil {
				return fmt.Errorf("this proof has no such disk: %w", err)
			}
			continue
		}
		for line := range strings.Lines(string(calls[i].data)) {
			if err := o.hear(line); err != nil {
				return err
			}
		}
	}
}

// tryImage opens an image, and asks the oracle whether it has what it has to. Now and then
// it is read as it lies there before, and copied.
func tryImage(c *campaign, r *rand.Rand, o *oracle, dir string) error {
	atRest := found(nil)
	look := r.IntN(8) == 0
	if look {
		var err error
		if atRest, err = lookAt(dir, r.IntN(2) == 0); err != nil {
			return fmt.Errorf("at rest: %w", err)
		}
		c.count("images read as they lie there", 1)
		if err := tryAlone(c, dir); err != nil {
			return err
		}
	}
	waiting, dead, err := split(dir)
	if err == nil {
		err = o.again(waiting)
	}
	in := waiting.with(dead)
	if err == nil {
		err = o.missing(in)
	}
	if err == nil && look && len(in)+len(atRest) > 0 && !reflect.DeepEqual(in, atRest) {
		err = fmt.Errorf("who opens it finds %v, who looked at it before found %v", in, atRest)
	}
	return err
}

// tryAlone takes the log away. A journal that needs it says so, and another one is the same
// without.
func tryAlone(c *campaign, dir string) error {
	file, err := os.ReadFile(filepath.Join(dir, journalFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	alone := dir + "-alone"
	err = errors.Join(err, os.Mkdir(alone, 0o700), os.WriteFile(filepath.Join(alone, journalFile), file, 0o600))
	if err != nil {
		return err
	}
	defer os.RemoveAll(alone)
	whole, err := view(dir)
	if err != nil {
		return err
	}
	in, err := view(alone)
	if errors.Is(err, journal.ErrCorrupt) {
		c.count("of these, with a log that may have more than the file", 1)
		return nil
	}
	if err == nil && !reflect.DeepEqual(in, whole) {
		err = fmt.Errorf("without its log, which it does not need, it has %v, and with it %v", in, whole)
	}
	return err
}

// lookAt returns what is in a journal without opening it, or in what is salvaged of it.
func lookAt(dir string, salvage bool) (in found, err error) {
	if salvage {
		to := dir + "-salvaged"
		var s *journal.Salvaged
		if s, err = journal.Salvage(dir, to); err == nil {
			in, err = contents(to)
			err = errors.Join(err, os.RemoveAll(to))
		}
		if err == nil && len(s.Losses) > 0 {
			err = fmt.Errorf("salvage lost: %v", s.Losses)
		}
	} else {
		in, err = view(dir)
	}
	if errors.Is(err, journal.ErrNotJournal) || errors.Is(err, fs.ErrNotExist) {
		return nil, nil // there is none yet
	}
	return in, err
}
