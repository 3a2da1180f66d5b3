package executor

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/actor"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Executor runs the jobs of its queues. Its methods may be called from any
// goroutine.
type Executor struct {
	cfg        Config
	log        *journal.Log
	actors     *actor.System
	dispatcher *dispatcher
	seed       maphash.Seed // of ids to shards; of this process only, so nobody can aim at one shard
	volatile   bool

	// routes are all shards by number. It only grows; a copy is swapped in
	// under mu, because the committer reads it.
	routes atomic.Pointer[[]*shard.Shard]

	quarantine quarantine
	running    *journal.Running // from Start on

	handlers context.Context // what handlers get
	cancel   context.CancelCauseFunc
	stopping atomic.Bool // nothing new is accepted
	draining atomic.Bool // nothing new is started

	// mu guards what follows. No call into another room is made under it,
	// except to register a queue, which is rare.
	mu      sync.Mutex
	queues  map[string]*queue
	state   state
	err     error // why the executor can't go on
	failed  chan struct{}
	workers []*worker
	working sync.WaitGroup
	stopped chan struct{}
	stopErr error
}

type state uint8

const (
	opened state = iota
	starting
	started
	stopping
)

// handlerKey marks the contexts of handlers.
type handlerKey struct{}

// Open opens the journal in the directory dir, or creates it, and returns an
// executor that runs nothing yet. The parent of dir must exist. With an empty
// dir everything is kept in memory: no file, no fsync, and nothing survives
// the process.
//
// Register the queues with [Handle], then call Run or Start. Payloads may be
// enqueued as soon as their queue is registered.
//
// It returns ErrConfig, [journal.LockedError] when the journal is in use,
// [journal.CorruptError], [journal.ErrTooNew], or an error of the directory.
func Open(dir string, cfg Config) (*Executor, error) {
	if dir == "" {
		return open(cfg, true, func(c journal.Config) (*journal.Log, error) { return journal.OpenMemory(nil, c) })
	}
	return open(cfg, false, func(c journal.Config) (*journal.Log, error) { return journal.Open(dir, c) })
}

func open(cfg Config, volatile bool, openLog func(journal.Config) (*journal.Log, error)) (*Executor, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	x := &Executor{
		cfg:        cfg,
		volatile:   volatile,
		dispatcher: newDispatcher(cfg.Scheduler),
		seed:       maphash.MakeSeed(),
		queues:     make(map[string]*queue),
		failed:     make(chan struct{}),
		stopped:    make(chan struct{}),
	}
	x.routes.Store(new([]*shard.Shard))
	ctx := context.WithValue(context.Background(), handlerKey{}, x)
	x.handlers, x.cancel = context.WithCancelCause(ctx)
	x.actors = actor.New(actor.Config{Logger: cfg.Logger, OnFailure: x.fail})
	x.log, err = openLog(journal.Config{Deliver: x.deliver, Failed: x.fail})
	if err != nil {
		return nil, err
	}
	return x, nil
}

// deliver is called by the committer, in commit order.
func (x *Executor) deliver(d *journal.Delivery) { (*x.routes.Load())[d.Route].Deliver(d) }

// fail stops the granting of workers, for good. What runs may end.
func (x *Executor) fail(err error) {
	x.mu.Lock()
	if x.err != nil {
		x.mu.Unlock()
		return
	}
	x.err = fmt.Errorf("%w: %w", ErrFailed, err)
	close(x.failed)
	x.mu.Unlock()
	x.draining.Store(true)
	x.dispatcher.close()
	x.cfg.Logger.Error("executor failed", slog.Any("error", err))
	if x.cfg.OnFailure != nil {
		// Not here: this may be the committer, and the hook may call Stop, which
		// waits for it.
		go x.guardHook("OnFailure", func() { x.cfg.OnFailure(err) })
	}
}

// guardHook calls user code that nobody waits for an error of.
func (x *Executor) guardHook(name string, f func()) {
	if err := guarded(func() error { f(); return nil }); err != nil {
		x.cfg.Logger.Error("hook panicked", slog.String("hook", name), slog.Any("error", err))
	}
}

// Err returns nil while the executor can do its work, and what keeps it from
// it: ErrFailed with the cause, ErrClosed after Stop, ErrFull while the disk
// is full.
func (x *Executor) Err() error {
	x.mu.Lock()
	err := x.err
	x.mu.Unlock()
	if err != nil {
		return err
	}
	return border(x.log.Err())
}

// border turns the errors of the journal into those of this package.
func border(err error) error {
	for _, pair := range [...][2]error{
		{journal.ErrUnknown, ErrUnknown}, {journal.ErrFull, ErrFull},
		{journal.ErrClosed, ErrClosed}, {journal.ErrFailed, ErrFailed},
		{journal.ErrTooLarge, ErrTooLarge},
	} {
		if errors.Is(err, pair[0]) {
			return fmt.Errorf("%w: %w", pair[1], err)
		}
	}
	return err
}

// Start runs the jobs of all registered queues until Stop is called. Queues
// may be registered later, too. It returns the error of OnStart, and ErrState
// when it was called before.
func (x *Executor) Start(ctx context.Context) error {
	x.mu.Lock()
	if x.state != opened {
		x.mu.Unlock()
		return fmt.Errorf("%w: Start may be called once, and not after Stop", ErrState)
	}
	x.state = starting
	x.mu.Unlock()
	if x.cfg.OnStart != nil {
		if err := guarded(func() error { return x.cfg.OnStart(ctx) }); err != nil {
			return err
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state != starting {
		return fmt.Errorf("%w: stopped while it was starting", ErrState)
	}
	words := x.wordsPerWorker()
	running, err := x.log.Running(x.cfg.Workers * words)
	if err != nil {
		// Jobs run all the same, for example on a full disk.
		x.cfg.Logger.Error("no crash recorder", slog.Any("error", err))
		running = journal.NewRunning(x.cfg.Workers * words)
	}
	x.state, x.running = started, running
	for i := range x.cfg.Workers {
		w := &worker{x: x, runs: make(chan *shard.Run, 1), words: words, firstWord: i * words}
		x.workers = append(x.workers, w)
		x.working.Go(w.main)
		x.dispatcher.add(w)
	}
	return nil
}

// maxWords bounds what the crash recorder knows of one worker.
const maxWords = 64

// wordsPerWorker is how many jobs a worker may have in hand at once, as far as
// it is known now. Of a larger batch the crash recorder knows the first ones.
func (x *Executor) wordsPerWorker() int {
	n := 1
	for _, q := range x.queues {
		n = max(n, min(q.batch, maxWords))
	}
	return n
}

// Run starts, waits until ctx ends or the executor fails, and stops: running
// handlers have StopTimeout to end. It returns nil after a clean end, and
// otherwise why it failed or what did not end.
func (x *Executor) Run(ctx context.Context) error {
	if err := x.Start(ctx); errors.Is(err, ErrState) {
		return err
	} else if err != nil {
		return errors.Join(err, x.Stop(ctx))
	}
	select {
	case <-ctx.Done():
	case <-x.failed:
	case <-x.stopped:
		return x.stopErr
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(x.cfg.StopTimeout, 0))
	defer cancel()
	return x.Stop(grace)
}

// Stop ends the executor. Nothing new is accepted, except from handlers that
// still run; running handlers are waited for until ctx ends, then their
// contexts are cancelled with the cause [ErrStopping], and what they return
// after that spends no retry. What they did is written down. Handlers, and a
// disk, that do not return within another 100 ms are left behind: [ErrStuck]
// names them.
//
// Stop is idempotent; concurrent calls wait for the first one, whose ctx
// counts. Called with the context of a handler, which can't wait for itself,
// it begins the stop and returns nil.
func (x *Executor) Stop(ctx context.Context) error {
	x.mu.Lock()
	first := x.state != stopping
	x.state = stopping
	x.mu.Unlock()
	if ctx.Value(handlerKey{}) == x {
		if first {
			// The census knows it. The handler's own time is not limited by us.
			go x.stop(context.WithoutCancel(ctx))
		}
		return nil
	}
	if first {
		x.stop(ctx)
	}
	<-x.stopped
	return x.stopErr
}

// stuckAfter is how long handlers have to return once their context is
// cancelled, and the disk once ctx has ended.
const stuckAfter = 100 * time.Millisecond

func (x *Executor) stop(ctx context.Context) {
	defer close(x.stopped)
	x.stopping.Store(true)
	x.draining.Store(true)
	stuck := x.drain(ctx)
	x.cancel(ErrStopping)
	for _, w := range x.workers {
		close(w.runs)
	}
	if stuck == nil {
		x.working.Wait()
	}
	closed := make(chan error, 1)
	go func() { closed <- x.close() }() // in the census
	select {
	case err := <-closed:
		x.stopErr = errors.Join(stuck, err)
		return
	case <-ctx.Done():
	}
	select {
	case err := <-closed:
		x.stopErr = errors.Join(stuck, err)
	case <-time.After(stuckAfter):
		x.stopErr = errors.Join(stuck, fmt.Errorf("%w: the journal is still waiting for the disk", ErrStuck))
	}
}

// close stops what has no user code in it. Only a disk that hangs can keep it.
func (x *Executor) close() error {
	var errs []error
	for _, s := range *x.routes.Load() {
		errs = append(errs, s.Stop(context.Background()))
	}
	if x.running != nil {
		errs = append(errs, x.running.Close())
	}
	errs = append(errs, x.actors.Stop(context.Background()), x.log.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("executor: stop: %w", err)
	}
	return nil
}

// drain waits for the workers. The error names what still runs.
func (x *Executor) drain(ctx context.Context) error {
	quiet := x.dispatcher.close()
	select {
	case <-quiet:
		return nil
	case <-ctx.Done():
	}
	x.cancel(ErrStopping)
	select {
	case <-quiet:
		return nil
	case <-time.After(stuckAfter):
	}
	var names []string
	for _, w := range x.workers {
		names = append(names, w.jobs()...)
	}
	slices.Sort(names)
	return fmt.Errorf("%w: still running: %v", ErrStuck, names)
}
