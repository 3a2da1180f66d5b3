package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const killEffect = "signal=KILL"

// fault is one way for a system call to go wrong.
type fault struct {
	call   string // the name that strace knows
	effect string // error=EIO, signal=KILL
}

func (f fault) String() string { return f.call + ":" + f.effect }

// faults are those of a sweep. The long tier has each call fail in four ways.
func faults(long bool) (all []fault) {
	calls := []string{"fdatasync", "pwrite64", "ftruncate", "fsync", "openat", "mmap", "renameat", "unlinkat"}
	effects := []string{"error=EIO"}
	if long {
		effects = []string{"error=EIO", "error=ENOSPC", "error=EDQUOT", "error=ENOMEM", killEffect}
	}
	for _, call := range calls {
		for _, effect := range effects {
			all = append(all, fault{call, effect})
		}
	}
	if long {
		return all
	}
	return append(all, fault{"pwrite64", "error=ENOSPC"}, fault{"ftruncate", "error=ENOSPC"},
		fault{"pwrite64", killEffect}, fault{"fdatasync", killEffect}, fault{"renameat", killEffect})
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

// sweep has each call of one kind fail. Strace counts the calls of each thread
// by itself. On one processor the opening is on one thread and nearly every
// commit on another, so counting up reaches all calls but some commits at the
// beginning, which look like the later ones. The trace says which call it was.
func sweep(c *campaign, r *rand.Rand, dir string, f fault) error {
	l := randomLife(r, "", 1)
	l.Ops, l.Producers, l.Processors, l.Compact = 8, 1, 1, false
	for i := range l.Queues {
		// Nobody waits for an async call, so a full disk has nobody to tell.
		l.Queues[i].Async = l.Queues[i].Async && !wantsRoom(f)
	}
	hit := map[int]bool{}
	total, misses := 0, 0
	for k := 1; misses < 3; k++ {
		home := filepath.Join(dir, fmt.Sprint(k))
		at, calls, err := failOnce(l, f, k, home)
		if err != nil {
			return fmt.Errorf("%v at call %d, %d of its thread: %w", f, at, k, err)
		}
		if err := os.RemoveAll(home); err != nil {
			return err
		}
		if at == 0 {
			misses++
			total = max(total, calls)
			continue
		}
		hit[at] = true
		c.count("lives with a failure", 1)
	}
	c.count("calls that failed: "+f.String(), len(hit))
	c.highest("calls of an undisturbed life: "+f.String(), total)
	return nil
}

// failOnce lives a life in which the k-th call of a thread fails. It returns
// which of all calls that was, 0 for none, and how many there were.
func failOnce(l life, f fault, k int, home string) (at, total int, err error) {
	if err := os.Mkdir(home, 0o700); err != nil {
		return 0, 0, err
	}
	l.Dir = filepath.Join(home, "jobs.strand")
	trace := filepath.Join(home, "trace")
	before := []string{
		"strace", "-f", "-y", "-xx", "-s", "32", "-e", "signal=none", "-o", trace,
		"-e", "trace=openat,renameat,unlinkat,pwrite64,ftruncate,fsync,fdatasync,mmap",
		"-e", fmt.Sprintf("inject=%s:%s:when=%d", f.call, f.effect, k), "-P", l.Dir,
	}
	for _, name := range []string{"LOCK", "RUNNING", journalFile, journalFile + ".new"} {
		before = append(before, "-P", filepath.Join(l.Dir, name))
	}
	if f.effect != killEffect { // strace 6.1 does not deliver the signal with it
		before = append(before, "--seccomp-bpf")
	}
	o := newOracle()
	o.begin(1)
	failed := 0
	p, err := startLife(l, func(line string) error {
		if line == "o" {
			failed = -1
		}
		if strings.HasPrefix(line, "e ") && !strings.HasPrefix(strings.SplitN(line, " ", 3)[2], "full") {
			failed = 1
		} else if strings.HasPrefix(line, "a ") && failed == 1 {
			return fmt.Errorf("accepted after a failure: %s", line)
		}
		return o.hear(line)
	}, before...)
	if err != nil {
		return 0, 0, err
	}
	err = p.wait(hangLimit)
	calls, traceErr := readTrace(trace, l.Dir)
	if traceErr != nil {
		return 0, 0, traceErr
	}
	at, total, after := syncsAfter(calls, f)
	killed := false
	if err != nil && f.effect == killEffect && !p.crashed() && strings.Contains(err.Error(), "signal: killed") {
		at, killed, err = total, true, nil // by the last of these calls
	}
	switch {
	case err != nil:
		return at, total, err
	case after > 0:
		return at, total, fmt.Errorf("%d syncs after one that failed", after)
	case !killed && at == 0 && !o.clean:
		return at, total, fmt.Errorf("nothing failed, and the life ended with: %q", o.class)
	case !killed && !o.dead:
		return at, total, fmt.Errorf("the life did not say how it ended")
	case f.call == "pwrite64" && wantsRoom(f) && failed != 0 && !o.clean:
		return at, total, fmt.Errorf("a full disk ended the life with: %q", o.class)
	case isSync(f.call) && !killed && at > 0 && failed != 0 && o.clean:
		return at, total, fmt.Errorf("a sync failed and nobody was told")
	}
	o.end()
	in, err := contents(l.Dir)
	if err == nil {
		err = o.missing(in)
	}
	return at, total, err
}

// hangLimit is how long a life may take that has one failure in it: it makes a
// handful of calls, and waits up to two seconds for a full disk.
const hangLimit = 8 * time.Second

func wantsRoom(f fault) bool {
	return strings.HasSuffix(f.effect, "ENOSPC") || strings.HasSuffix(f.effect, "EDQUOT")
}

// syncsAfter finds the call that was made to fail, and counts the syncs of the
// same file after it, if it was one.
func syncsAfter(calls []call, f fault) (at, total, after int) {
	failed := ""
	for _, c := range calls {
		if isSync(c.name) && c.path == failed {
			after++
		}
		if c.name != f.call && !(f.call == "openat" && c.name == "open") && !(f.call == "renameat" && c.name == "rename") {
			continue
		}
		total++
		if c.forced && at == 0 {
			at = total
			if isSync(c.name) {
				failed = c.path
			}
		}
	}
	return at, total, after
}
