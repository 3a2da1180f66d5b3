package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/strandjobs/strand/executor"
)

// slowProof repeats B5: a disk stands still in the middle of a sync. Calls
// return when their context ends, the figures and Err tell a person, Stop returns
// in time, and when the disk goes on, so does everything else.
func slowProof(c *campaign) error {
	for c.more() {
		if err := c.trial(hangTwice); err != nil {
			return err
		}
	}
	return nil
}

// hangTwice hangs two disks at a time, because most of it is waiting: one that
// goes on, and one that does not before the process ends.
func hangTwice(c *campaign, r *rand.Rand, dir string) error {
	var group errgroup.Group
	peaks := make([]map[string]int, 2)
	for i, mode := range []string{slowMode, slowStopMode} {
		home := filepath.Join(dir, mode)
		l := randomLife(r, filepath.Join(home, "jobs.strand"), 1)
		l.Mode, peaks[i] = mode, map[string]int{}
		if l.WAL >= 0 {
			l.WAL = smallWAL // some calls later the file is written to, too
		}
		if l.Hangs = walFile; l.WAL < 0 || r.IntN(2) == 0 {
			l.Hangs = journalFile
		}
		c.count("disks that hang in a sync of "+l.Hangs, 1)
		group.Go(func() error {
			if err := os.Mkdir(home, 0o700); err != nil {
				return err
			}
			if err := hangOnce(l, peaks[i]); err != nil {
				return fmt.Errorf("%s: %w", mode, err)
			}
			return nil
		})
	}
	err := group.Wait()
	for _, list := range peaks {
		for name, n := range list {
			c.highest(name, n)
		}
	}
	c.did(2)
	return err
}

func hangOnce(l life, peaks map[string]int) error {
	var hang atomic.Bool
	goOn := make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	s := newSupervisor(l.Dir, func(c call, _ int) (e effect) {
		if c.name == "fdatasync" && filepath.Base(c.path) == l.Hangs && hang.CompareAndSwap(true, false) {
			e.resume = goOn
		}
		return e
	})
	o := newOracle()
	o.begin(1)
	p, err := startSupervised(l, s, func(line string) error {
		switch words := strings.Fields(line); words[0] {
		case "h":
			hang.Store(true)
			return nil
		case "g":
			release()
			return nil
		case "t":
			n, err := strconv.Atoi(words[2])
			peaks[words[1]] = n
			return err
		}
		return o.hear(line)
	})
	if err != nil {
		return err
	}
	err = p.Wait(30 * time.Second)
	release()
	if _, fault := s.result(); err == nil {
		err = fault
	}
	if err != nil {
		return err
	}
	if !o.clean {
		return fmt.Errorf("the life ended with: %s", o.class)
	}
	o.end()
	in, err := contents(l.Dir)
	if err == nil {
		err = o.missing(in)
	}
	return err
}

// slowAfter is when Err has to say ErrSlowDisk, and lateness how much longer
// things may take on a machine that has other work.
const (
	slowAfter = 5 * time.Second
	lateness  = 2 * time.Second
)

// hangDisk is the life of the child.
func hangDisk(l life) int {
	f := startFiller(l, executor.QueueConfig[[]byte]{Share: executor.Share{Shards: 3}})
	if f == nil {
		return 0
	}
	close(f.gate)
	if _, err := f.enqueueWithin(lateness); err != nil {
		say("x before the disk hangs: %v", err)
	}
	f.hang()
	if l.Mode == slowStopMode {
		f.stopHanging()
		return 0
	}
	say("g")
	if _, err := f.enqueueWithin(lateness); err != nil {
		say("x when the disk goes on: %v", err)
	}
	if err := f.x.Err(); err != nil {
		say("x when the disk goes on, Err says: %v", err)
	}
	f.drain()
	f.stop()
	return 0
}

// hang watches the disk stand still.
func (f *filler) hang() {
	const patience = time.Second
	say("h")
	took, err := f.enqueueWithin(patience)
	for err == nil { // a sync may have been quicker than the line
		took, err = f.enqueueWithin(patience)
	}
	if !errors.Is(err, executor.ErrUnknown) || took > patience+lateness {
		say("x a call that waits for the disk: after %v: %v", took, err)
	}
	if err := f.x.Err(); err != nil {
		say("x after a second, Err says: %v", err)
	}
	for start := time.Now(); !errors.Is(f.x.Err(), executor.ErrSlowDisk); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > slowAfter+lateness {
			say("x Err does not tell that the disk hangs: %v", f.x.Err())
			return
		}
	}
	s, err := f.x.Stats(context.Background())
	if err != nil || s.Journal.CommitAge < slowAfter || s.Journal.CommitAge > slowAfter+patience+lateness {
		say("x the commit is %v old: %v", s.Journal.CommitAge, err)
	}
	say("t milliseconds-until-it-is-told %d", s.Journal.CommitAge.Milliseconds())
}

// stopHanging stops while the disk still hangs.
func (f *filler) stopHanging() {
	const patience = 300 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	start := time.Now()
	err := f.x.Stop(ctx)
	if took := time.Since(start); err == nil || took > patience+time.Second+lateness {
		say("x Stop took %v: %v", took, err)
	}
	say("t milliseconds-to-stop %d", time.Since(start).Milliseconds())
	say("z")
}
