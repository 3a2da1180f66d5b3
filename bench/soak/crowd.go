package main

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/bench/child"
	"github.com/strandjobs/strand/executor"
)

// crowdWorkers are all busy when the process dies.
const crowdWorkers = 64

// crowdOnce is a death on a full disk, of a process with many handlers running,
// and a start while the disk is as full. No room is made: the next life
// registers its queues, runs, and comes back by itself.
func crowdOnce(c *campaign, r *rand.Rand, dir string) error {
	o, full := newOracle(), 0
	err := onSmallDisk(c, r, dir, crowdMode, o, func(words []string) error {
		switch words[0] {
		case "n": // the next life
			o.end()
			o.begin(o.life + 1)
			return nil
		case "b": // it begins on a full disk
			full++
			return nil
		}
		return errNotHeard
	})
	if err != nil {
		return err
	}
	c.count("starts on a full disk", full)
	c.count("kills on a full disk", o.life-1)
	if o.life < 2 {
		return errors.New("no process died")
	}
	return errors.Join(o.ranAgain(), o.missing(found{}))
}

// keepDisk is the child that has the small disk, which goes with the last process
// that sees it, while others live and die on it.
func keepDisk(l life) int {
	if _, err := smallDisk(filepath.Dir(l.Dir), 2<<20+int(l.Seed%(3<<20))); err != nil {
		say("z no small disk: %v", err)
		return 0
	}
	program, err := os.Executable()
	if err != nil {
		say("z %v", err)
		return 1
	}
	l.Workers = crowdWorkers
	deaths := 1 + int(l.Seed%3)
	for number := 1; number <= deaths+1; number++ {
		next := l
		next.Mode, next.Number, next.Seed = crowdedMode, number, l.Seed+uint64(number)
		if number > deaths {
			next.Mode = crowdEndMode
		}
		if number > 1 {
			say("n")
		}
		cmd := exec.Command(program)
		cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, childVariable) }), next.environment())
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		err := cmd.Run()
		if killed := cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == -1; killed != (number <= deaths) {
			say("x life %d on the full disk: %v", number, err)
			return 0
		}
	}
	return 0
}

// crowdDisk is a life on the small disk: it fills it, and dies in the midst of
// its handlers; or it is the last one, and comes back.
func crowdDisk(l life) int {
	f := startFiller(l, executor.QueueConfig[[]byte]{Share: executor.Share{Shards: 16, Concurrency: 8}})
	if f == nil {
		return 0
	}
	f.ids, f.next = 500, uint64(l.Number)*1e8
	if l.Mode == crowdedMode {
		f.crowd()
		return 0
	}
	close(f.gate)
	f.comeBack()
	f.drain()
	f.stop()
	return 0
}

// crowd fills the disk while all workers are busy, and dies.
func (f *filler) crowd() {
	refused := 0
	for start := time.Now(); refused < 3 || f.hand.Load() < crowdWorkers; {
		if f.call() != nil {
			refused++
		}
		if time.Since(start) > 20*time.Second {
			say("x %d calls were refused and %d workers are busy", refused, f.hand.Load())
			return
		}
	}
	f.sayWAL()
	if f.r.IntN(2) == 0 { // some results are on their way
		close(f.gate)
	}
	time.Sleep(time.Duration(f.r.IntN(int(5 * time.Millisecond))))
	child.Die()
}

// comeBack waits until a call is accepted again.
func (f *filler) comeBack() {
	for start := time.Now(); f.call() != nil; time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > 5*recovery {
			say("x not accepted %v after a start on a full disk", time.Since(start))
			return
		}
	}
}
