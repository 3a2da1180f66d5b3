package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// fault is one way for a system call to go wrong.
type fault struct {
	call string
	name string // of the error, or KILL
}

var errnos = map[string]syscall.Errno{
	"EIO": syscall.EIO, "ENOSPC": syscall.ENOSPC, "EDQUOT": syscall.EDQUOT, "ENOMEM": syscall.ENOMEM,
}

func (f fault) String() string { return f.call + " " + f.name }

func (f fault) effect() effect { return effect{errno: int(errnos[f.name]), kill: f.kills()} }

func (f fault) kills() bool { return f.name == "KILL" }

func (f fault) wantsRoom() bool { return f.name == "ENOSPC" || f.name == "EDQUOT" }

// faults are those of a sweep. The long tier has each call fail in four ways.
func faults(long bool) (all []fault) {
	names := []string{"EIO"}
	if long {
		names = []string{"EIO", "ENOSPC", "EDQUOT", "ENOMEM", "KILL"}
	}
	for _, call := range supervisedCalls {
		for _, name := range names {
			all = append(all, fault{call, name})
		}
	}
	if long {
		return all
	}
	return append(all, fault{"pwrite64", "ENOSPC"}, fault{"ftruncate", "ENOSPC"},
		fault{"pwrite64", "KILL"}, fault{"fdatasync", "KILL"}, fault{"renameat", "KILL"})
}

// syscallProof repeats N3: every call of a short life on the files of its
// journal fails once. Nothing is accepted that is not on disk, nothing hangs,
// nothing crashes, and the next start finds all that was accepted.
func syscallProof(c *campaign) error {
	for c.more() {
		for _, f := range faults(longTier()) {
			if err := c.trial(func(c *campaign, r *rand.Rand, dir string) error { return sweep(c, r, dir, f) }); err != nil {
				return err
			}
		}
		c.did(1)
	}
	return nil
}

// sweep has each call of one kind fail, until a life has none left that could. Every second
// one begins with what a process has left that was killed.
func sweep(c *campaign, r *rand.Rand, dir string, f fault) error {
	l := randomLife(r, "", 1)
	l.Ops, l.Producers, l.Processors, l.Compact, l.CrashLimit = 8, 1, 1, false, -1
	l.WAL = []int{-1, smallWAL / 4, smallWAL / 4, smallWAL}[r.IntN(4)]
	for i := range l.Queues {
		// No caller waits for an async call, so there is none to tell of a full disk.
		l.Queues[i].Async = l.Queues[i].Async && !f.wantsRoom()
	}
	var past past
	if r.IntN(2) == 0 {
		if err := past.live(l, filepath.Join(dir, "past.strand")); err != nil {
			return err
		}
		l.Number++
	}
	for k := 1; ; k++ {
		home := filepath.Join(dir, fmt.Sprint(k))
		at, calls, err := failOnce(l, f, k, home, past)
		if err != nil {
			return fmt.Errorf("%v at call %d of %d: %w", f, k, calls, err)
		}
		if err := os.RemoveAll(home); err != nil {
			return err
		}
		if at == 0 {
			c.count(fmt.Sprintf("%v, each of", f), calls)
			return nil
		}
		c.count("lives with a failure", 1)
		if past.dir != "" {
			c.count("lives with a failure, after a kill", 1)
		}
	}
}

// past is a life that was killed, and what it said.
type past struct {
	dir   string
	lines []string
}

func (p *past) live(l life, dir string) error {
	l.Dir, l.Dies, p.dir = dir, true, dir
	process, err := startLife(l, func(line string) error {
		p.lines = append(p.lines, line)
		return nil
	})
	if err != nil {
		return err
	}
	broken, _ := process.End(hangLimit)
	return broken
}

// before has an oracle hear the life, and puts what it has left where the next one is to be.
func (p *past) before(o *oracle, dir string) error {
	if p.dir == "" {
		return nil
	}
	o.begin(0)
	for _, line := range p.lines {
		if err := o.hear(line); err != nil {
			return err
		}
	}
	o.end()
	return os.CopyFS(dir, os.DirFS(p.dir))
}

// failOnce lives a life in which the k-th call of a kind fails. It returns k, or
// 0 when there were not so many, and how many there were.
func failOnce(l life, f fault, k int, home string, past past) (at, calls int, err error) {
	if err := os.Mkdir(home, 0o700); err != nil {
		return 0, 0, err
	}
	l.Dir = filepath.Join(home, "jobs.strand")
	s := newSupervisor(l.Dir, func(c call, n int) effect {
		if c.name == f.call && n == k {
			return f.effect()
		}
		return effect{}
	})
	o := newOracle()
	if err := past.before(o, l.Dir); err != nil {
		return 0, 0, err
	}
	o.begin(1)
	failed := 0
	p, err := startSupervised(l, s, func(line string) error {
		if line == "o" {
			failed = -1
		}
		if strings.HasPrefix(line, "e ") && !strings.HasPrefix(strings.SplitN(line, " ", 3)[2], "full") {
			failed = 1
		} else if strings.HasPrefix(line, "a ") && failed == 1 {
			return fmt.Errorf("accepted after a failure: %s", line)
		}
		return o.hear(line)
	})
	if err != nil {
		return 0, 0, err
	}
	err = p.Wait(hangLimit)
	made, fault := s.result()
	if fault != nil {
		return 0, 0, fmt.Errorf("supervision: %w", fault)
	}
	victim, at := forced(made)
	calls = total(made, f.call)
	if at > 0 && f.kills() && err != nil && !p.Crashed() && strings.Contains(err.Error(), "signal: killed") {
		err = nil
	}
	killed := at > 0 && f.kills()
	switch {
	case err != nil:
		return at, calls, err
	case f.syncsAfter(made, victim) > 0:
		return at, calls, fmt.Errorf("%d syncs after one that failed", f.syncsAfter(made, victim))
	case at == 0 && !o.clean:
		return at, calls, fmt.Errorf("nothing failed, and the life ended with: %q", o.class)
	case !killed && !o.dead:
		return at, calls, fmt.Errorf("the life did not say how it ended")
	case f.call == "pwrite64" && f.wantsRoom() && failed != 0 && !o.clean:
		return at, calls, fmt.Errorf("a full disk ended the life with: %q", o.class)
	case isSync(f.call) && !killed && at > 0 && failed != 0 && o.clean && !f.noLog(victim):
		return at, calls, fmt.Errorf("a sync failed and no caller was told")
	}
	o.end()
	in, err := contents(l.Dir)
	if err == nil {
		err = o.missing(in)
	}
	return at, calls, err
}

// hangLimit is how long a life may take that has one failure in it: it makes a
// handful of calls, and waits up to two seconds for a full disk.
const hangLimit = 8 * time.Second

// syncsAfter counts the syncs of a file after one of it that failed, or of either file that
// has what was accepted after one of the other.
func (f fault) syncsAfter(calls []call, victim call) (after int) {
	if !isSync(victim.name) || !victim.failed {
		return 0
	}
	kept := func(c call) bool { return slices.Contains(keptFiles, filepath.Base(c.path)) }
	seen := false
	for _, c := range calls {
		if seen && isSync(c.name) && (c.path == victim.path || kept(c) && kept(victim) && !f.noLog(victim)) {
			after++
		}
		seen = seen || c.forced
	}
	return after
}

// noLog reports whether there was no room for a log, or its name, as it was made: it has nothing
// yet, and the life goes on without.
func (f fault) noLog(victim call) bool {
	return victim.name == "fsync" && f.wantsRoom() && !strings.HasPrefix(filepath.Base(victim.path), journalFile)
}
