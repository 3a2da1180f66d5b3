// Package life knows how far an executor has come (opened, started, stopping) and why it can't go on.
//
//	Open ──► Start ──► workers ──► Stop, or End ──► drained ──► shards stopped ──► journal closed
//	                      └──── Fail ──► drained, until somebody calls Stop ──┘
//
// # What is promised
//
//   - Workers are started once and stopped once, whoever asks, in whatever order and however
//     often. A start that meets a stop, or a failure, has no job run.
//   - A stop goes through its steps though a logger, a hook or a handler blocks. It leaves handlers
//     behind whose time is over, and the journal is unlocked when the last of them is back.
//   - OnFatal is called once at most.
//
// # Concurrency
//
// Any goroutine may call the methods. Fail and End wait for nothing: the caller may be the
// committer, or a worker. Census: that of a stop and of a failure, in the executor's.
package life

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/roster"
	"github.com/strandjobs/strand/executor/internal/submit"
	"github.com/strandjobs/strand/executor/internal/tally"
	"github.com/strandjobs/strand/executor/internal/work"
)

// Errors of package executor, which says what they mean.
var (
	ErrClosed   = errors.New("executor: closed")
	ErrFailed   = errors.New("executor: failed")
	ErrStopping = errors.New("executor: stopping")
	ErrStuck    = errors.New("executor: handlers do not return")
)

var errBegun = fmt.Errorf("%w: Start may be called once, and not after Stop", submit.ErrState)

// Config is what a life is about. It is filled in before anybody may call Start or Stop.
type Config struct {
	Crew   *work.Crew
	Roster *roster.Roster

	Executor any                        // which the contexts of handlers have
	Owns     func(context.Context) bool // a context is that of a handler of it
	Stats    func(context.Context) (inspect.Stats, error)
	Dir      string        // for people
	Opening  time.Time     // when Open began, and no other had the journal
	Unlisten func()        // ends the control socket; nil: there is none
	Strict   bool          // Start refuses while the journal has jobs of queues that are not registered
	Reports  bool          // of crashes
	Grace    time.Duration // Config.StopTimeout

	Workers, Spares int
	OnStart         func(context.Context) error
	OnFatal         func(error)

	// Of a cluster, which runs the jobs in its place; nil: it runs them itself.
	StartAll, StopAll func(context.Context) error
	// Of a partition of one; nil: it is none. Leave takes it out of the cluster as its stop begins, and
	// Left follows when its shards have stopped.
	Front       *Life
	Leave, Left func()
}

// Life is that of one executor. Open makes one of its Config.
type Life struct {
	Config
	Stopping atomic.Bool    // nothing new is accepted
	Folding  sync.WaitGroup // goroutines of folders

	inherited guard.Inherited // of the context of Start
	cancel    context.CancelCauseFunc

	startNothing context.CancelCauseFunc // ends what is to be started, when a stop has set draining

	// mu guards what follows. No user code is under it. It comes before the locks of the crew.
	mu    sync.Mutex
	state state
	err   error     // why the executor can't go on
	fatal error     // why a handler has ended it; nil: none has
	began time.Time // when jobs began to run; guarded by the stop once there is one

	failed  chan struct{} // closed when err is set
	told    chan struct{} // closed when OnFatal has returned
	telling sync.Once     // of OnFatal

	hurry   context.Context // ends when the ctx of a Stop has ended
	hasten  context.CancelCauseFunc
	hurries atomic.Bool // a Stop has a deadline
	stopped chan struct{}
	stopErr error // set before stopped is closed
}

type state uint8

const (
	opened state = iota
	starting
	started
	stopping
)

// Open begins a life, and shows it to the engine.
func (l *Life) Open() {
	l.failed, l.told, l.stopped = make(chan struct{}), make(chan struct{}), make(chan struct{})
	l.hurry, l.hasten = context.WithCancelCause(context.Background())
	l.inherited.Context = context.Background()
	ctx := context.WithValue(context.WithValue(&l.inherited, attempt.ExecutorKey{}, l.Executor), attempt.Key{}, nil) // Start may have been called by a handler
	c := l.Crew
	c.Handlers, l.cancel = context.WithCancelCause(ctx)
	c.Starting, l.startNothing = context.WithCancelCause(c.Handlers)
	c.Failed, c.Stopped, c.Failure, c.Closed = l.failed, l.stopped, l.Failure, ErrClosed
	c.Fail, c.End = l.Fail, l.End
}

// Begun reports whether a Start, or a Stop, has begun.
func (l *Life) Begun() bool { return !l.before(starting) }

// Starting reports whether jobs do not run yet.
func (l *Life) Starting() bool { return l.before(started) }

// before reports whether the executor is not as far as s.
func (l *Life) before(s state) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state < s
}

// goOn goes on with a start, unless it was stopped or has failed meanwhile.
func (l *Life) goOn(to state) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != starting {
		return fmt.Errorf("%w: stopped while it was starting", submit.ErrState)
	}
	if l.err == nil {
		l.state = to
	}
	return l.err
}

// Runs returns why jobs don't run.
func (l *Life) Runs() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.state {
	case opened, starting: // OnStart would wait for itself
		return fmt.Errorf("%w: Do waits for a job, and jobs run when Start is over", submit.ErrState)
	case stopping:
		return ErrClosed
	}
	return l.err
}

// Failure returns why the executor can't go on.
func (l *Life) Failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// ended returns the error of a stop that a handler has asked for; nil: none has.
func (l *Life) ended() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fatal == nil {
		return nil
	}
	return fmt.Errorf("executor: a handler has ended it: %w", l.fatal)
}

// Start has the jobs of all registered queues run.
func (l *Life) Start(ctx context.Context) error {
	ctx, err := guard.Context(ctx)
	if err != nil {
		return err
	}
	if err := l.begin(ctx); err != nil {
		return err
	}
	if l.OnStart != nil {
		if err := guard.Call(func() error { return l.OnStart(ctx) }); err != nil {
			return fmt.Errorf("executor: OnStart: %w", err)
		}
	}
	if err := l.goOn(starting); err != nil {
		return err
	}
	if l.StartAll != nil {
		return l.startCluster(ctx)
	}
	l.logStart()
	unreported, unrecorded, err := l.startWorkers()
	if err != nil {
		return err
	}
	if unreported != nil {
		l.Crew.Logger.Error("no crash reports: until the next start Go's last words do not tell which job killed the process", slog.Any("error", unreported))
	}
	if unrecorded != nil {
		l.Crew.Logger.Error("no crash recorder: jobs that kill the process are not found out until the next start, and suspects that are held stay so", slog.Any("error", unrecorded))
	}
	return nil
}

// begin is the first step of a start.
func (l *Life) begin(ctx context.Context) error {
	l.mu.Lock()
	if l.state != opened {
		l.mu.Unlock()
		return errBegun
	}
	l.state = starting
	l.mu.Unlock()
	l.inherited.From(ctx)
	if !l.Strict {
		return nil
	}
	err := engine.Unclaimed(l.Crew.Log)
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.state == starting { // it may be called again
			l.state = opened
		}
	}
	return err
}

// startCluster has this process take its part.
func (l *Life) startCluster(ctx context.Context) error {
	l.Roster.Arranging.Lock() // a stop comes after it
	defer l.Roster.Arranging.Unlock()
	if err := l.goOn(started); err != nil {
		return err
	}
	return l.StartAll(ctx)
}

// startWorkers has the jobs run. Without crash reports or a crash recorder they run all the
// same, but for those that are held; the caller says so when it holds no lock.
func (l *Life) startWorkers() (unreported, unrecorded, err error) {
	l.Roster.Arranging.Lock()
	defer l.Roster.Arranging.Unlock()
	if err := l.goOn(starting); err != nil {
		return nil, nil, err
	}
	words := 2 // jobs that a worker may have in hand at once, as far as it is known now; two tell of a batch
	for _, q := range l.Roster.All() {
		words = max(words, min(q.Core.BatchSize, 64)) // of a larger batch the recorder knows the first ones
	}
	c := l.Crew
	running, unrecorded := c.Log.RecordCrashes(l.Workers+l.Spares, words)
	if unrecorded == nil { // or who is held stays so: another death would convict none of them
		c.Quarantine.Start(running.Rebeat)
	}
	if l.Reports && unrecorded == nil { // or the last report stays: what it says is not on disk yet
		unreported = c.Log.ReportCrashes()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.Recorder = running // closed by the stop, which waits for us
	if l.state != starting || l.err != nil {
		return nil, nil, fmt.Errorf("%w: stopped while it was starting", cmp.Or(l.err, submit.ErrState))
	}
	l.state, l.began = started, time.Now()
	c.Hire(words, l.Workers, l.Spares)
	return unreported, unrecorded, nil
}

// logStart is the one line about a start, with what the last process left behind when it died.
func (l *Life) logStart() {
	s, _ := l.Stats(context.Background()) // an error: a shard has failed, and Start says so
	all := l.Roster.All()
	said := tally.Life{Dir: l.Dir, Workers: l.Workers, Queues: len(all), Took: time.Since(l.Opening)}
	if said.Death, _ = l.Crew.Log.Crash(); said.Death != nil {
		said.Suspects = l.Crew.Quarantine.Named()
	}
	for _, q := range all {
		said.Again += q.Suspects.Again
	}
	guard.Log(func() { said.Started(l.Crew.Handlers, l.Crew.Logger, s.Total()) })
}

// Run starts, waits for what ends it, and stops.
func (l *Life) Run(ctx context.Context) error {
	ctx, err := guard.Context(ctx)
	if err != nil {
		return err
	}
	if err := l.Start(ctx); err == errBegun { // itself: OnStart may return one that wraps it
		return err
	} else if err != nil {
		return errors.Join(err, l.Stop(ctx))
	}
	select {
	case <-ctx.Done():
	case <-l.failed:
	case <-l.stopped:
	case <-l.told:
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(l.Grace, 0))
	defer cancel()
	err = l.Stop(grace)
	if l.Failure() != nil || l.ended() != nil {
		select {
		case <-l.told:
		case <-grace.Done():
		}
	}
	return err
}

// Fail stops the granting of workers, for good. What runs may end.
func (l *Life) Fail(err error) {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return
	}
	failure := fmt.Errorf("%w: %w", ErrFailed, err)
	l.err = failure
	close(l.failed)
	l.mu.Unlock()
	l.Crew.Drain()
	l.Crew.Backlog.Close(failure)
	// The caller is the committer, an actor's, or a worker: Stop waits for all of
	// them, and the hook may well call Stop.
	go func() {
		guard.Log(func() { l.Crew.Logger.Error("executor failed", slog.Any("error", err)) })
		l.tellOnce(failure)
	}()
}

// End stops the executor because a handler has returned Fatal. Only the first one
// counts. When it returns, no worker begins anything.
func (l *Life) End(f error) {
	if l.Front != nil {
		l.Crew.Drain()
		l.Front.End(f)
		return
	}
	l.mu.Lock()
	if l.err != nil || l.fatal != nil {
		l.mu.Unlock()
		return
	}
	l.fatal = f
	under := l.state == stopping
	l.mu.Unlock()
	if !under {
		l.Crew.Drain()
		l.beginStop()
	}
	go l.tellFatal(f, under)
}

// tellFatal calls OnFatal when the stop is over; one that was under way has its own time
// for that.
func (l *Life) tellFatal(f error, under bool) {
	guard.Log(func() { l.Crew.Logger.Error("a handler ends the executor", slog.Any("error", f)) })
	ctx := l.hurry // a disk that hangs does not hold it either
	if !under {
		grace, cancel := context.WithTimeout(ctx, max(l.Grace, 0))
		defer cancel()
		ctx = grace
	}
	_ = l.Stop(ctx) // says it to those who ask
	l.tellOnce(f)
}

// tellOnce calls OnFatal, unless that was done.
func (l *Life) tellOnce(err error) {
	l.telling.Do(func() {
		defer close(l.told)
		if l.OnFatal != nil {
			guard.Hook(l.Crew.Logger, "OnFatal", func() { l.OnFatal(err) })
		}
	})
}
