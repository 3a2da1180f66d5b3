package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/actor"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/backdoor"
	"github.com/strandjobs/strand/executor/internal/backlog"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/executor/internal/dispatch"
	"github.com/strandjobs/strand/executor/internal/gate"
	"github.com/strandjobs/strand/executor/internal/keylock"
	"github.com/strandjobs/strand/executor/internal/lane"
	"github.com/strandjobs/strand/executor/internal/limit"
	"github.com/strandjobs/strand/executor/internal/pause"
	"github.com/strandjobs/strand/executor/internal/quarantine"
	"github.com/strandjobs/strand/executor/internal/tell"
	"github.com/strandjobs/strand/executor/internal/unique"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Executor runs the jobs of its queues. Its methods may be called from any
// goroutine.
type Executor struct {
	cfg        Config
	log        *journal.Log
	common     func() time.Time // the clock of all who go on with the log; nil: it is this process's
	actors     *actor.System
	dispatcher *dispatch.Dispatcher
	seed       maphash.Seed // of ids to shards; of this process only, so no producer can aim at one shard
	volatile   bool
	clock      func() time.Time // for what is accepted
	wall       func() time.Time // for when jobs are due; nil: this machine's
	dir        string           // for people

	// routes are all shards by number. It only grows; a copy is swapped in under
	// mu, because the committer reads it.
	routes atomic.Pointer[[]*shard.Shard]
	owners atomic.Pointer[[]*queue] // of the routes, in their order
	events tell.Feed

	backlog    *backlog.Backlog
	quarantine quarantine.Quarantine
	ledger     *admit.Ledger // of what jobs hold
	keys       *keylock.Keys
	leases     unique.Leases
	limits     *limit.Limits
	pauses     pause.Board
	gates      gate.Gates // of sources and idempotency keys
	sweeper    sweeper
	graph      admit.Graph            // of jobs that wait for each other
	running    *journal.CrashRecorder // from Start on
	inspection inspection
	control    *control.Server // nil: there is none
	opening    time.Time       // when Open began, and no other had the journal
	began      time.Time       // when jobs began to run; guarded by mu, and then by the stop

	inherited inherited
	handlers  context.Context // what the contexts of handlers come from
	cancel    context.CancelCauseFunc
	stopping  atomic.Bool // nothing new is accepted
	draining  atomic.Bool // nothing new is started

	// arranging is held while a queue is registered and while workers are made:
	// both wait for the disk. It is taken before mu.
	arranging sync.Mutex

	// mu guards what follows. No call into another room and no user code is under
	// it.
	mu     sync.Mutex
	queues map[string]*queue
	slots  map[string]bool        // names of slots
	lanes  map[string]*lane.Lanes // that queues share, by name
	state  state
	err    error       // why the executor can't go on
	fatal  *FatalError // why a handler has ended it; nil: none has

	workers []*worker
	spares  []int // places in the crash recorder for workers that replace others
	words   int   // of the crash recorder, for each worker

	watchdog *attempt.Watchdog
	failed   chan struct{} // closed when err is set
	told     chan struct{} // closed when OnFatal has returned
	telling  sync.Once     // of OnFatal
	working  sync.WaitGroup
	folding  sync.WaitGroup // goroutines of the folders

	closing chan struct{} // closed when a stop has set draining
	hurry   chan struct{} // closed when the ctx of a Stop has ended
	hurried sync.Once
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

// Open opens the journal in the directory dir, or creates it, and returns an
// executor that runs nothing yet. The parent of dir must exist. With an empty dir
// everything is kept in memory: no file, no fsync, and nothing survives the
// process.
//
// Register the queues with [Handle], [HandleMerged] or [HandleBatch], then call Run
// or Start. Payloads may be enqueued as soon as their queue is registered.
//
// It returns ErrConfig, [journal.LockedError] at once when the journal is in use,
// [journal.CorruptError], [journal.ErrTooNew], ErrControlSocket, ErrFull where the disk
// has no room for what has to be written first, or an error of the directory. Where locks or pauses make no sense, it names their state key, which
// strand salvage leaves out.
// [OpenContext] waits until the journal is free.
func Open(dir string, cfg Config) (*Executor, error) {
	if dir == "" {
		return openElsewhere("", cfg, nil, func(c journal.Config) (*journal.Log, error) { return journal.OpenMemory(nil, c) })
	}
	return openListening(dir, cfg, func(c journal.Config) (*journal.Log, error) { return journal.Open(dir, c) })
}

// OpenContext is [Open] that waits while another process has the journal open,
// until ctx ends: for deploys in which the new process starts before the old one
// has stopped. It begins to open within five milliseconds of the other's
// [Executor.Stop], or death; as long as handlers that a Stop has left behind still
// run, it waits for them. Of several who wait, any may be the next. It logs which
// process it waits for.
//
// When ctx ends first, the error matches both the cause of ctx and the
// [journal.LockedError] that says which process has the journal, and since when.
// ctx is for the wait alone: what the executor does later has the context of
// [Executor.Start]. It returns ErrContext, and the errors of Open.
func OpenContext(ctx context.Context, dir string, cfg Config) (*Executor, error) {
	ctx, err := usable(ctx)
	if err != nil {
		return nil, err
	}
	if dir == "" {
		return Open(dir, cfg)
	}
	return openListening(dir, cfg, func(c journal.Config) (*journal.Log, error) { return journal.OpenContext(ctx, dir, c) })
}

// OpenLog is [Open] over a log that open opens, with the configuration that it is given:
// for packages that keep a journal elsewhere than in a directory, as journal/postgres
// does. name stands for the directory where people read, and must not be empty. The
// executor closes the log when it stops, or can't be opened.
//
// It has no crash recorder and no reports of crashes: after a crash no job is suspected.
// It has no control socket: Config.ControlSocket is ErrConfig, and so are an empty name
// and an open that is nil, panics, or returns neither a log nor an error. All other
// errors are those of open, and of Config.
func OpenLog(name string, open func(journal.Config) (*journal.Log, error), cfg Config) (*Executor, error) {
	switch {
	case name == "":
		return nil, fmt.Errorf("%w: a log needs a name, for people", ErrConfig)
	case open == nil:
		return nil, fmt.Errorf("%w: no function that opens log %q", ErrConfig, name)
	}
	return openElsewhere(name, cfg, nil, func(c journal.Config) (log *journal.Log, err error) {
		broken := guarded(func() error {
			log, err = open(c)
			return nil
		})
		switch {
		case broken != nil:
			return nil, fmt.Errorf("%w: the function that opens log %q: %w", ErrConfig, name, broken)
		case log == nil && err == nil:
			return nil, fmt.Errorf("%w: the function that opens log %q returned none, and no error", ErrConfig, name)
		}
		return log, err
	})
}

func openWith(dir string, cfg Config, witness backdoor.Witness, openLog func(journal.Config) (*journal.Log, error)) (*Executor, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	x := &Executor{
		cfg:        cfg,
		volatile:   dir == "",
		clock:      time.Now,
		dir:        cmp.Or(dir, "in memory"),
		dispatcher: dispatch.New(policyOf(cfg.Scheduler)),
		seed:       maphash.MakeSeed(),
		queues:     make(map[string]*queue),
		slots:      make(map[string]bool),
		lanes:      make(map[string]*lane.Lanes),
		failed:     make(chan struct{}),
		told:       make(chan struct{}),
		closing:    make(chan struct{}),
		hurry:      make(chan struct{}),
		stopped:    make(chan struct{}),
		inspection: newInspection(),
	}
	x.watchdog = x.newWatchdog()
	x.backlog = backlog.New(shard.Weight{Payloads: cfg.MaxBacklog.Payloads, Bytes: cfg.MaxBacklog.Bytes}, x.tellStalled)
	x.routes.Store(new([]*shard.Shard))
	x.owners.Store(new([]*queue))
	if size := cfg.Advanced.EventBuffer; size >= 0 {
		x.events.Open(size, witness)
	}
	x.inherited.Context = context.Background()
	ctx := context.WithValue(&x.inherited, attempt.ExecutorKey{}, x)
	x.handlers, x.cancel = context.WithCancelCause(ctx)
	x.actors = actor.New(actor.Config{Logger: cfg.Logger, OnFailure: x.fail})
	x.log, err = openLog(journal.Config{Deliver: x.deliver, Failed: x.fail, Committed: x.events.Committed,
		MemoryBudget: cfg.Advanced.MemoryBudget, Logger: cfg.Logger})
	if err != nil {
		return nil, border(err)
	}
	if on, ok := witness.(interface{ Now() time.Time }); ok {
		x.clock, x.wall = on.Now, on.Now
	}
	opened := x.log.Stats()
	x.opening = opened.Since
	if x.common = opened.Now; x.common != nil {
		x.clock, x.wall = x.common, x.common
	}
	x.ledger = admit.NewLedger(x.log)
	x.graph.Lists = x.conditions
	x.pauses.Log, x.pauses.Tell = x.log, x.events.Paused
	x.limits = limit.New()
	x.leases.Table.RaiseToken(opened.Epoch << 32) // above those of the processes before
	x.keys, err = keylock.Open(x.ledger, x.log, x.volatile)
	if err = cmp.Or(err, x.pauses.Restore()); err != nil {
		return nil, errors.Join(err, x.log.Close())
	}
	return x, nil
}

// deliver is called by the committer, in commit order.
func (x *Executor) deliver(d *journal.Delivery) {
	if q := (*x.owners.Load())[d.Route]; q.events.Watched() {
		q.events.Accepted(d)
	}
	(*x.routes.Load())[d.Route].Deliver(d)
}

// fail stops the granting of workers, for good. What runs may end.
func (x *Executor) fail(err error) {
	x.mu.Lock()
	if x.err != nil {
		x.mu.Unlock()
		return
	}
	failure := fmt.Errorf("%w: %w", ErrFailed, err)
	x.err = failure
	close(x.failed)
	x.mu.Unlock()
	x.draining.Store(true)
	x.dispatcher.Close()
	x.backlog.Close(failure)
	// The caller is the committer, an actor's, or a worker: Stop waits for all of
	// them, and the hook may well call Stop.
	go func() {
		x.cfg.Logger.Error("executor failed", slog.Any("error", err))
		x.tellOnce(err)
	}()
}

// tellOnce calls OnFatal, unless that was done.
func (x *Executor) tellOnce(err error) {
	x.telling.Do(func() {
		defer close(x.told)
		if x.cfg.OnFatal != nil {
			x.guardHook("OnFatal", func() { x.cfg.OnFatal(err) })
		}
	})
}

// guardHook calls user code, and logs what goes wrong in it: there is no caller to
// return it to.
func (x *Executor) guardHook(name string, f func()) {
	if err := guarded(func() error { f(); return nil }); err != nil {
		x.cfg.Logger.Error("hook panicked", slog.String("hook", name), slog.Any("error", err))
	}
}

// Err returns nil while the executor can do its work, and what keeps it from it:
// ErrFailed with the cause, ErrClosed once Stop was called, ErrFull while the disk
// is full, ErrSlowDisk while it does not answer, ErrStuck while the handlers of all
// workers are stuck, ErrStalled when the backlog has been full for a minute and
// nothing has ended.
func (x *Executor) Err() error {
	if err := x.failure(); err != nil {
		return err
	}
	if x.stopping.Load() {
		return ErrClosed
	}
	if err := x.log.Err(); err != nil {
		return border(err)
	}
	if age := x.log.Stats().CommitAge; age > slowDisk {
		return fmt.Errorf("%w: a commit has been under way for %v", ErrSlowDisk, age.Round(time.Millisecond))
	}
	workers, _ := x.dispatcher.Load()
	if n := x.watchdog.Stuck(); n > 0 && n >= workers {
		return fmt.Errorf("%w: each of %d workers waits for one", ErrStuck, workers)
	}
	if s := x.backlog.Stalled(); s != nil {
		return stalled(*s)
	}
	return nil
}

// slowDisk is how long a commit may take before Err complains.
const slowDisk = 5 * time.Second

func (x *Executor) failure() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

// border turns the errors of the rooms below into those of this package.
func border(err error) error {
	for _, pair := range [...][2]error{
		{journal.ErrUnknown, ErrUnknown}, {journal.ErrFailed, ErrFailed}, // which may be of a full disk
		{journal.ErrFull, ErrFull}, {journal.ErrClosed, ErrClosed},
		{journal.ErrTooLarge, ErrTooLarge}, {journal.ErrContext, ErrContext}, {shard.ErrStopped, ErrClosed},
	} {
		if !errors.Is(err, pair[0]) {
			continue
		}
		if errors.Is(err, journal.ErrContext) && pair[1] == ErrUnknown {
			return fmt.Errorf("%w: %w: %w", ErrUnknown, ErrContext, err)
		}
		if pair[1] == ErrFull {
			return diskFull(err)
		}
		return fmt.Errorf("%w: %w", pair[1], err)
	}
	return err
}

// conditions returns those of a queue, nil if there are none.
func (x *Executor) conditions(queue string) *admit.List {
	x.mu.Lock()
	defer x.mu.Unlock()
	if q := x.queues[queue]; q != nil {
		return q.admission
	}
	return nil
}

// attempt lets f change what is in the books by hand: once Stop has written the last
// change, it changes nothing and returns ErrClosed.
func (x *Executor) attempt(c *journal.Change, f func()) error {
	if err := x.log.Err(); err != nil && !errors.Is(err, journal.ErrFull) {
		return border(err)
	}
	if !x.ledger.Try(c, f) {
		return ErrClosed
	}
	return nil
}

// Copy writes a copy of the journal into the new directory dir, while the executor
// runs: everything that was accepted before the call is in it, under
// [DurabilityAsync], too, unless the disk is full and has no room for it. The copy
// is a journal of its own, to be opened elsewhere or looked at: it does not know what
// the executor does after the call, and in the place of its journal it would give the
// positions since then again, to other payloads, and run again what had ended. It
// returns ErrContext, ErrClosed, ErrFailed, the cause of ctx when that ends first, or
// what the system says about the directory, and then there is no copy. In memory it
// returns ErrState.
func (x *Executor) Copy(ctx context.Context, dir string) error {
	if x.volatile {
		return fmt.Errorf("%w: an executor in memory has no journal to copy", ErrState)
	}
	ctx, err := usable(ctx)
	if err != nil {
		return err
	}
	if err := x.failure(); err != nil {
		return err
	}
	return border(x.log.Copy(ctx, dir))
}

// Compact makes the journal's file as small as what is in it, while the executor
// runs: what is in use is written once more, and Enqueue waits meanwhile, until ctx
// ends at the latest. It waits for a running Copy. It is hardly ever needed: Open
// does it to a file of more than 64 MiB of which less than half is in use, and an
// executor that was idle for ten seconds when less than a quarter, and no more than
// 16 MiB, is in use. It returns ErrFull when there is no room, ErrContext, or the
// cause of ctx, and then nothing has changed; ErrUnknown when ctx ended while it
// was at work; ErrClosed, or ErrFailed. In memory it has no effect.
func (x *Executor) Compact(ctx context.Context) error {
	ctx, err := usable(ctx)
	if err != nil {
		return err
	}
	return border(x.log.Compact(ctx))
}
