package executortest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strandjobs/strand/executor"
)

// errKilled is the cause of ErrFailed in a process that was killed.
var errKilled = errors.New("executortest: the process was killed")

// Kill ends the process, as kill -9 does: what is on the disk at this moment is what
// the next life finds, and what handlers do afterwards is not recorded. It may be called
// from any goroutine, from a handler for example, and once in a life. [Executor.Crash]
// and [Executor.Restart] begin the next one; until then calls return ErrFailed when they
// want something of the disk, and ErrUnknown if they were on their way to it.
func (x *Executor) Kill() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.image != nil {
		return
	}
	x.life.dead.Store(true)
	x.image = x.disk.Kill(errKilled)
	x.life.hold()
	close(x.hurry)
	x.record.signal()
}

// Crash kills the process, unless that was done before, waits until its handlers have
// returned, and begins a new life on what was on the disk: the setup function runs
// again, and with it the queues are new ones. A handler that ignores its context, and
// has not returned after Config.Patience, fails the test.
func (x *Executor) Crash() {
	x.t.Helper()
	x.Kill()
	x.end(x.t.Fatalf)
	x.boot()
}

// Restart stops the executor in order, and begins a new life on the same disk: the
// setup function runs again. Handlers that run have Config.Executor.StopTimeout to end,
// 30 s by default, before their contexts do. After Kill, also by one of these, it is Crash.
func (x *Executor) Restart() {
	x.t.Helper()
	if x.Killed() {
		x.Crash()
		return
	}
	callAtEnd(x.Executor)
	ctx, cancel := context.WithTimeout(context.Background(), max(cmp.Or(x.cfg.Executor.StopTimeout, 30*time.Second), 0))
	defer cancel()
	if err := x.Executor.Stop(ctx); errors.Is(err, executor.ErrStuck) {
		x.t.Fatalf("executortest: Restart: %v", err)
	}
	x.end(x.t.Fatalf)
	locked(&x.mu, func() { x.disk = x.disk.Crash() }) // faults that have not come are of the old process
	x.boot()
}

// Killed reports whether Kill was called in this life.
func (x *Executor) Killed() (killed bool) {
	locked(&x.mu, func() { killed = x.image != nil })
	return killed
}

// present returns the executor of this life, on any goroutine.
func (x *Executor) present() (present *executor.Executor) {
	locked(&x.mu, func() { present = x.life.x })
	return present
}

// Full has the disk take about so many bytes of payloads more, and then no other: calls
// return ErrFull. There is room for the results of some hundred jobs beyond. Where a call of more
// than 32 KiB waits, it takes less: see package journal on what is kept for such. A disk that
// has become full, or has room again, is found out within a second: see
// [Executor.Advance].
func (x *Executor) Full(bytes int) { x.disk.Fill(max(bytes, 0), 64<<10) }

// NoRoom has the disk take nothing more: not even results, which wait for room.
func (x *Executor) NoRoom() { x.disk.Limit(1) }

// HasRoom ends Full and NoRoom. It may be called on any goroutine.
func (x *Executor) HasRoom() {
	x.mu.Lock()
	disk := x.disk
	x.mu.Unlock()
	disk.Limit(0)
}

// Slow has each commit take d, until it is called again; 0: no time.
func (x *Executor) Slow(d time.Duration) { locked(&x.mu, func() { x.slow = d }) }

// FailCommit has the next commit fail with err, and with it the executor, which stays so
// until Crash or Restart: calls return ErrUnknown, and then ErrFailed.
func (x *Executor) FailCommit(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fault = true
	x.disk.FailNext(err)
}

// OnCommit has f called after each commit, in this life and in later ones, before a
// caller learns of it and on the goroutine that commits: for faults between two commits,
// such as Kill, Full, HasRoom and FailCommit, which f may call. Nil ends it.
func (x *Executor) OnCommit(f func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.onCommit = f
	x.disk.OnCommit(f)
}

// Reconfigure has the lives that begin from now on have another configuration, as a
// process that was deployed anew: with other Workers, for example. See Config.Executor.
func (x *Executor) Reconfigure(cfg executor.Config) {
	x.cfg.Executor = cfg
	x.cfg = x.cfg.withDefaults(x.t)
}

// beforeCommit takes the time of a commit.
func (x *Executor) beforeCommit() {
	x.mu.Lock()
	d, hurry := x.slow, x.hurry
	x.mu.Unlock()
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-hurry:
	}
}

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
	x.disk.OnCommit(func() {
		if done.Add(1) == int64(commits) {
			x.Kill()
		}
	})
	err := s.Script(x)
	x.UntilIdle() // what the script has left may come to the commit
	x.disk.OnCommit(nil)
	if alive = !x.Killed(); alive && err != nil {
		t.Fatalf("executortest: EveryCrash: the script: %v", err)
	}
	x.Crash()
	x.UntilEmpty()
	s.Check(t, x)
	return alive
}
