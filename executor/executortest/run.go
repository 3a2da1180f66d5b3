package executortest

import (
	"cmp"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// Setup registers queues, as the program does before [executor.Executor.Start]. It is called for each life of the
// executor: once at the beginning, and after each crash and restart. Its error fails the test. For goroutines that it
// starts, use context.Background(), and stop them in [AtEnd]: t.Context() of the test around Run is not the bubble's,
// and the Go runtime ends the test binary when it is canceled.
type Setup func(x *executor.Executor) error

// lives are the executors under test, by themselves, with what is to be called when they
// end: a setup function has no more than that at hand.
var lives sync.Map // *executor.Executor → *[]func()

// AtEnd has f called when the life of an executor ends, before it is stopped, and after
// it was killed: for what a setup function starts beside the queues, such as a
// cron.Cron, to be stopped. What was given last comes first. It is for setup functions
// and for the goroutine of the test; on another executor it has no effect.
func AtEnd(x *executor.Executor, f func()) {
	if all, ok := lives.Load(x); ok {
		list := all.(*[]func())
		*list = append(*list, f)
	}
}

// callAtEnd calls what AtEnd was given, once.
func callAtEnd(x *executor.Executor) {
	if all, ok := lives.LoadAndDelete(x); ok {
		for _, f := range slices.Backward(*all.(*[]func())) {
			f()
		}
	}
}

// Config of a test. The zero Config is usable.
type Config struct {
	// Executor is the configuration of the executor. Logger is by default the test's
	// own output, which is shown when it fails. An EventBuffer below zero is taken for
	// the default. Middleware of the program's own is inside of what records the runs.
	Executor executor.Config

	// Patience is how long, on the clock of the bubble, a call waits for a handler to
	// return, or for a job that waits for something, while nothing else happens.
	// Default an hour; below zero is refused.
	Patience time.Duration

	// MaxRuns is how many calls of handlers UntilIdle, UntilEmpty, Advance, Live and
	// Work may make, each of them. Default 100,000; below zero is refused.
	MaxRuns int

	// OpenLog opens the log of each life, as in [executor.OpenLog], such as a journal that outlives the process of the
	// test. Nil: it is on a disk in memory. With OpenLog, Kill, Crash and the faults of Disk do nothing to that log:
	// use them without it.
	OpenLog func(journal.Config) (*journal.Log, error)
	Ahead   *atomic.Int64 // nanoseconds that the clock of due times is ahead of the bubble's; nil: 0
}

// Run opens a bubble, and in it an executor with the queues of setup, which may be nil,
// and calls test. When that has returned, the executor is stopped; a handler that runs
// by then fails the test. Run must not be called inside a bubble: see [Open].
func Run(t *testing.T, cfg Config, setup Setup, test func(t *testing.T, x *Executor)) {
	t.Helper()
	guard := startGuard(t.Name())
	defer guard.stop()
	synctest.Test(t, func(t *testing.T) {
		test(t, cfg.open(t, setup, guard))
	})
}

// Open opens an executor with the queues of setup, which may be nil, in a bubble that
// the test has opened with [synctest.Test], and stops it at the end of the test. No
// job runs before the test says so.
func Open(t testing.TB, cfg Config, setup Setup) *Executor {
	t.Helper()
	return cfg.open(t, setup, nil)
}

func (c Config) open(t testing.TB, setup Setup, guard *guard) *Executor {
	t.Helper()
	if c.Patience < 0 || c.MaxRuns < 0 {
		t.Fatalf("executortest: Patience is %v and MaxRuns is %d: they can't be below zero", c.Patience, c.MaxRuns)
	}
	c = c.withDefaults(t)
	x := &Executor{t: t, cfg: c, setup: setup, guard: guard, Disk: Disk{memory: new(journal.Memory)}, record: &record{changed: make(chan struct{}, 1), latest: make(map[[2]string]*Ran)}}
	if c.OpenLog == nil {
		x.cfg.OpenLog = func(c journal.Config) (*journal.Log, error) { return journal.OpenMemory(x.Disk.memory, c) }
	}
	t.Cleanup(x.finish)
	x.boot()
	return x
}

// withDefaults fills in what is left open.
func (c Config) withDefaults(t testing.TB) Config {
	c.Patience, c.MaxRuns, c.Ahead = cmp.Or(c.Patience, time.Hour), cmp.Or(c.MaxRuns, 100_000), cmp.Or(c.Ahead, new(atomic.Int64))
	c.Executor.Logger = cmp.Or(c.Executor.Logger, slog.New(slog.NewTextHandler(t.Output(), nil)))
	c.Executor.Advanced.EventBuffer = max(c.Executor.Advanced.EventBuffer, 0)
	return c
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

// contains reports whether all is asked for, or one of some.
func contains(some []string, one string) bool { return len(some) == 0 || slices.Contains(some, one) }

// guard watches over a bubble from outside: a goroutine that waits for something that
// is no part of it keeps [synctest.Wait] from returning, and nothing inside can tell.
type guard struct {
	over chan struct{}

	// mu guards what follows. count is called under it, which takes the lock of a record.
	mu    sync.Mutex
	count func() int // of what has happened; nil: nobody waits
}

func startGuard(test string) *guard {
	g := &guard{over: make(chan struct{})}
	go g.watch(test, 30*time.Second, func(message string) {
		debug.SetTraceback("all") // the stacks say what it is
		panic(message)
	})
	return g
}

func (g *guard) watch(test string, limit time.Duration, stalled func(string)) {
	const looks = 30
	tick := time.NewTicker(limit / looks)
	defer tick.Stop()
	for last, same := -1, 0; ; {
		select {
		case <-g.over:
			return
		case <-tick.C:
		}
		n := -1 // nobody waits
		g.mu.Lock()
		if g.count != nil {
			n = g.count()
		}
		g.mu.Unlock()
		if n < 0 || n != last {
			last, same = n, 0
			continue
		}
		if same++; same == looks {
			stalled(fmt.Sprintf("executortest: %s: for %v of real time a goroutine of the bubble has been at work, or waits for something outside of it, "+
				"such as the network, a mutex or a system call; the stacks below say which", test, limit))
			return
		}
	}
}

// set says what to look at; nil: nobody waits any more.
func (g *guard) set(count func() int) {
	if g == nil {
		return
	}
	locked(&g.mu, func() { g.count = count })
}

func (g *guard) stop() { close(g.over) }
