package executortest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// Scenario is what [EveryCrash] goes through. Setup and Check are needed.
type Scenario struct {
	// Config of each executor.
	Config Config

	// Setup registers the queues. What the handlers write to should be made by the
	// function that returns the Scenario: it is the world, which survives the process.
	Setup Setup

	// Script enqueues, and runs jobs. It returns the first error of a call: after the
	// kill that is expected, before it fails the test. It may end with jobs left.
	Script func(x *Executor) error

	// Check is called in the next life, when all jobs have run, as UntilEmpty does.
	Check func(t *testing.T, x *Executor)
}

// maxCrashes bounds a script that makes more commits each time.
const maxCrashes = 10_000

// EveryCrash runs a script again and again, each time in a bubble of its own with a
// Scenario of its own, and kills the process at another moment: before its first commit,
// after that, after the second, until the script comes to its end alive, which is
// checked, too. After each kill a new process is begun on what is on the disk, runs all
// jobs that are left, and is checked. The name of the subtest says after how many
// commits of the script it was.
//
// scenario is called inside the bubble, with its test: what it makes may have goroutines
// and timers, as a database has, and what it leaves to Cleanup is called before the bubble
// ends.
//
// How many commits a script takes may vary by some, because calls at the same time share
// them: each number is tried once.
func EveryCrash(t *testing.T, scenario func(t *testing.T) Scenario) {
	t.Helper()
	for commits := range maxCrashes {
		alive := false
		ok := t.Run(fmt.Sprint("commits=", commits), func(t *testing.T) {
			guard := startGuard(t.Name())
			defer guard.stop()
			synctest.Test(t, func(t *testing.T) {
				s := scenario(t)
				if s.Setup == nil || s.Script == nil || s.Check == nil {
					t.Fatal("executortest: EveryCrash: a Scenario needs Setup, Script and Check")
				}
				alive = s.run(t, s.Config.open(t, s.Setup, guard), commits)
			})
		})
		if alive || !ok {
			return
		}
	}
	t.Fatalf("executortest: EveryCrash: the script takes more than %d commits", maxCrashes)
}

// run runs the script with a kill after so many commits, and reports whether it has come
// to its end before that.
func (s Scenario) run(t *testing.T, x *Executor, commits int) (alive bool) {
	if commits == 0 {
		x.Kill() // now, as far as the disk is concerned
	}
	var done atomic.Int64
	x.Disk.memory.OnCommit(func() {
		if done.Add(1) == int64(commits) {
			x.Kill()
		}
	})
	err := s.Script(x)
	x.UntilIdle() // what the script has left may come to the commit
	x.Disk.memory.OnCommit(nil)
	if alive = !x.Killed(); alive && err != nil {
		t.Fatalf("executortest: EveryCrash: the script: %v", err)
	}
	x.Crash()
	x.UntilEmpty()
	s.Check(t, x)
	return alive
}
