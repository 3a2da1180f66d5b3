package executortest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/internal/backdoor"
	"github.com/strandjobs/strand/journal"
)

// Executor is an executor under test: all that it is for its users, with time, faults, and what has happened. What is
// about the test itself is for the goroutine of the test, but for Kill, Disk, and what lists what has happened.
type Executor struct {
	// Executor is that of the present life: another one after Crash and Restart.
	*executor.Executor
	Disk Disk // what is on it is of all lives; its faults, but for OnCommit, are of one

	t      testing.TB
	cfg    Config
	setup  Setup
	guard  *guard
	record *record
	step   string // the call that runs jobs

	// mu guards what follows, and Executor. No user code is called under it.
	mu   sync.Mutex
	life *witness
}

// boot begins a life.
func (x *Executor) boot() {
	x.t.Helper()
	x.Disk.next()
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
	life, err := backdoor.Open.(func(string, executor.Config, backdoor.Witness, func(journal.Config) (*journal.Log, error)) (*executor.Executor, error))(
		"the disk of a test", cfg, w, x.cfg.OpenLog)
	if err != nil {
		x.t.Fatalf("executortest: %v", err)
	}
	w.x = life
	w.hold = func() { backdoor.Hold(life, true) }
	locked(&x.mu, func() { // a Kill of the new life finds its disk
		x.Disk.begin()
		x.Executor, x.life = life, w
	})
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

// errKilled is the cause of ErrFailed in a process that was killed.
var errKilled = errors.New("executortest: the process was killed")

// Kill ends the process, as kill -9 does: what is on the disk at this moment is what the next life finds, and what
// handlers do afterwards is not recorded. It may be called from any goroutine, from a handler for example. A second
// Kill in the same life has no effect. [Executor.Crash] and [Executor.Restart] begin the next one; until then calls
// return ErrFailed when they want something of the disk, and ErrUnknown if they were on their way to it.
func (x *Executor) Kill() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.life.dead.Swap(true) {
		return
	}
	x.Disk.kill()
	x.life.hold()
	x.record.signal()
}

// Killed reports whether Kill was called in this life.
func (x *Executor) Killed() bool { return x.present().dead.Load() }

// present returns the life that goes on now, on any goroutine.
func (x *Executor) present() (life *witness) {
	locked(&x.mu, func() { life = x.life })
	return life
}

// Crash kills the process, unless that was done before, waits until its handlers have returned, and begins a new life
// on what was on the disk: the setup function runs again, and with it the queues are new ones. A handler that ignores
// its context, and has not returned after Config.Patience, fails the test.
func (x *Executor) Crash() {
	x.t.Helper()
	x.Kill()
	x.end(x.t.Fatalf)
	x.boot()
}

// Restart stops the executor in order, and begins a new life on the same disk: the setup function runs again. Handlers
// that run have Config.Executor.StopTimeout to end, 30 s by default, before their contexts do; one that then goes
// on fails the test. If Kill was called before, or a handler calls it meanwhile, Restart does what Crash does.
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
	x.boot()
}

// Reconfigure has the lives that begin from now on have another configuration, as a
// process that was deployed anew: with other Workers, for example. See Config.Executor.
func (x *Executor) Reconfigure(cfg executor.Config) {
	x.cfg.Executor = cfg
	x.cfg = x.cfg.withDefaults(x.t)
}

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
	x.Disk.calm()
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
