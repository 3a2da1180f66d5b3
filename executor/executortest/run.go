package executortest

import (
	"cmp"
	"context"
	"errors"
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
	"github.com/strandjobs/strand/executor/internal/backdoor"
	"github.com/strandjobs/strand/journal"
)

// Setup registers queues, as the program does before [executor.Executor.Start]. It is
// called for each life of the executor: once at the beginning, and after each crash and
// restart. Its error fails the test. What it starts has context.Background(), and ends
// with [AtEnd]: t.Context() of the test around Run is not the bubble's, and the Go runtime
// ends the test binary when it is cancelled.
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

	// OpenLog opens the log of each life, as in [executor.OpenLog], such as a journal that
	// outlives the process of the test. Nil: it is on a disk in memory. Kill, Crash and the
	// faults of the disk are about that one only.
	OpenLog func(journal.Config) (*journal.Log, error)
	Ahead   *atomic.Int64 // nanoseconds that the clock of due times is ahead of the bubble's; nil: 0
}

// Run opens a bubble, and in it an executor with the queues of setup, which may be nil,
// and calls test. When that has returned, the executor is stopped; a handler that runs
// by then fails the test. Run must not be called inside a bubble: see [Open].
func Run(t *testing.T, setup Setup, test func(t *testing.T, x *Executor)) {
	t.Helper()
	Config{}.Run(t, setup, test)
}

// Run is the function of that name with a configuration.
func (c Config) Run(t *testing.T, setup Setup, test func(t *testing.T, x *Executor)) {
	t.Helper()
	guard := startGuard(t.Name())
	defer guard.stop()
	synctest.Test(t, func(t *testing.T) {
		test(t, c.open(t, setup, guard))
	})
}

// Executor is an executor under test: all that it is for its users, with time, faults
// and assertions. What is about the test itself is for the goroutine of the test, but
// for Kill and what lists what has happened.
type Executor struct {
	// Executor is that of the present life: another one after Crash and Restart.
	*executor.Executor

	t      testing.TB
	cfg    Config
	setup  Setup
	guard  *guard
	record *record
	step   string // the call that runs jobs

	// mu guards what follows, which Kill changes. No user code is called under it.
	mu    sync.Mutex
	disk  *journal.Memory
	image *journal.Memory // what a kill has left; nil: the executor lives
	life  *witness
	slow  time.Duration
	hurry chan struct{} // closed when no commit of this life takes its time any more
	fault bool          // the test has asked for a failure

	onCommit func() // see OnCommit
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
	x := &Executor{t: t, cfg: c, setup: setup, guard: guard, disk: new(journal.Memory), record: &record{changed: make(chan struct{}, 1), latest: make(map[[2]string]*Ran)}}
	if c.OpenLog == nil {
		x.cfg.OpenLog = func(c journal.Config) (*journal.Log, error) { return journal.OpenMemory(x.disk, c) }
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

// opener is what [backdoor.Open] is.
type opener = func(string, executor.Config, backdoor.Witness, func(journal.Config) (*journal.Log, error)) (*executor.Executor, error)

// boot begins a life, on what a kill has left if there was one.
func (x *Executor) boot() {
	x.t.Helper()
	x.mu.Lock()
	if x.image != nil {
		x.disk = x.image
	}
	x.mu.Unlock()
	w := &witness{record: x.record, ahead: x.cfg.Ahead}
	cfg := x.cfg.Executor
	cfg.Middleware = append([]executor.Middleware{{Run: w.around}}, cfg.Middleware...)
	fatal := cfg.OnFatal
	cfg.OnFatal = func(err error) {
		if fatal != nil && !errors.Is(err, errKilled) {
			fatal(err)
		}
	}
	cfg.Logger = slog.New(mortal{cfg.Logger.Handler(), w})
	life, err := backdoor.Open.(opener)("the disk of a test", cfg, w, x.cfg.OpenLog)
	if err != nil {
		x.t.Fatalf("executortest: %v", err)
	}
	w.x = life
	w.hold = func() { backdoor.Hold(life, true) }
	x.mu.Lock()
	x.Executor, x.life, x.image, x.fault, x.hurry = life, w, nil, false, make(chan struct{})
	x.disk.OnCommit(x.onCommit)
	x.mu.Unlock()
	x.disk.BeforeCommit(x.beforeCommit)
	backdoor.Hold(life, true)
	lives.Store(life, new([]func()))
	if x.setup != nil {
		if err := x.setup(life); err != nil {
			x.t.Fatalf("executortest: setup: %v", err)
		}
	}
	if err := life.Start(x.t.Context()); err != nil {
		x.t.Fatalf("executortest: Start: %v", err)
	}
	synctest.Wait() // what waited is with its shards
}

// mortal drops what a process says after its death.
type mortal struct {
	slog.Handler
	w *witness
}

func (m mortal) Handle(ctx context.Context, r slog.Record) error {
	if m.w.dead.Load() {
		return nil
	}
	return m.Handler.Handle(ctx, r)
}

func (m mortal) WithAttrs(attrs []slog.Attr) slog.Handler {
	return mortal{m.Handler.WithAttrs(attrs), m.w}
}

func (m mortal) WithGroup(name string) slog.Handler { return mortal{m.Handler.WithGroup(name), m.w} }

// finish stops the executor at the end of the test.
func (x *Executor) finish() {
	x.t.Helper()
	if x.Executor == nil {
		return // it did not open
	}
	x.wait()
	if x.life.calls.Load() > 0 && !x.Killed() {
		x.t.Errorf("executortest: the test has ended, and these run:\n%s", stacks(x.Executor))
	}
	x.end(x.t.Errorf)
}

// end ends the contexts of the handlers and then the life, and reports handlers that
// don't return.
func (x *Executor) end(report func(format string, args ...any)) {
	x.t.Helper()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	x.mu.Lock()
	x.slow = 0
	if x.image == nil {
		close(x.hurry)
	}
	x.mu.Unlock()
	x.disk.Limit(0)
	callAtEnd(x.Executor)
	stuck := x.Executor.Stop(over)
	for began := time.Now(); errors.Is(stuck, executor.ErrStuck) && x.life.calls.Load() > 0; {
		x.wait()
		if time.Since(began) >= x.cfg.Patience {
			report("executortest: %v on they still run, although their context has ended; no test can end them:\n%s",
				time.Since(began), stacks(x.Executor))
			return
		}
		x.record.pause(began, x.cfg.Patience)
	}
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
