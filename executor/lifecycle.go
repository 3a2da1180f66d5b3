package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"syscall"
	"time"

	"github.com/strandjobs/strand/actor"
	"github.com/strandjobs/strand/executor/internal/act"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/backdoor"
	"github.com/strandjobs/strand/executor/internal/backlog"
	"github.com/strandjobs/strand/executor/internal/dispatch"
	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/keylock"
	"github.com/strandjobs/strand/executor/internal/life"
	"github.com/strandjobs/strand/executor/internal/limit"
	"github.com/strandjobs/strand/executor/internal/look"
	"github.com/strandjobs/strand/executor/internal/remote"
	"github.com/strandjobs/strand/executor/internal/roster"
	"github.com/strandjobs/strand/executor/internal/submit"
	"github.com/strandjobs/strand/executor/internal/work"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Open opens the journal in the directory dir, or creates it, and returns an
// executor that runs nothing yet. The parent of dir must exist. With an empty dir
// everything is kept in memory: no file, no fsync, and nothing survives the
// process.
//
// Register the queues with [Handle], [HandleLatest], [HandleMerged] or [HandleBatch], then
// call Run or Start. Payloads may be enqueued as soon as their queue is registered.
//
// It returns ErrConfig, [journal.LockedError] at once when the journal is in use,
// [journal.CorruptError], [journal.ErrTooNew], ErrFull where the disk has no room for what has to
// be written first, or an error of the directory. If the record of a lock or a pause is damaged,
// the error names its state key, which strand salvage leaves out.
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
	ctx, err := guard.Context(ctx)
	if err != nil {
		return nil, err
	}
	if dir == "" {
		return Open(dir, cfg)
	}
	return openListening(dir, cfg, func(c journal.Config) (*journal.Log, error) { return journal.OpenContext(ctx, dir, c) })
}

// OpenLog is [Open] for a journal that is not in a directory, as that of journal/postgres: the
// executor calls open with a journal.Config, and uses the log that it returns. name is what people
// read in the place of the directory. The executor closes the log when it stops, or can't be opened.
//
// It has no crash recorder and no reports of crashes: after a crash no job is suspected.
// It has no control socket: Config.ControlSocket is ErrConfig. So are an empty name, and an
// open that is nil, panics, or returns neither a log nor an error. All other errors are those
// of open, and of Config.
func OpenLog(name string, open func(journal.Config) (*journal.Log, error), cfg Config) (*Executor, error) {
	switch {
	case name == "":
		return nil, fmt.Errorf("%w: a log needs a name, for people", ErrConfig)
	case open == nil:
		return nil, fmt.Errorf("%w: no function that opens log %q", ErrConfig, name)
	}
	return openElsewhere(name, cfg, nil, func(c journal.Config) (log *journal.Log, err error) {
		broken := guard.Call(func() error {
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

// Start runs the jobs of all registered queues until Stop is called. Queues may be registered later, too.
// Under Config.Advanced.Strict it returns ErrConfig while the journal has jobs of a queue that is not
// registered, and may be called again. It returns the error of OnStart, ErrFailed when the
// journal has failed, ErrContext, and ErrState when it was called before or Stop
// was.
//
// Handlers see the values of ctx. Its end means nothing once Start has returned:
// see [Executor.Run]. Each call of a handler has a context of its own, which ends
// with [ErrReturned] when the handler has returned.
func (x *Executor) Start(ctx context.Context) error { return x.life.Start(ctx) }

// Run starts, waits until ctx ends, Stop is called, a handler returns [Fatal] or the
// executor fails, and stops: running handlers, and OnFatal, have StopTimeout to end. It
// returns nil after a clean end, and otherwise why it failed or what did not end. If it
// can't start because Start was called before, it stops nothing.
//
// For a program that ends in order on the first signal, and at once on the second
// one:
//
//	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
//	context.AfterFunc(ctx, restore)
//	err := x.Run(ctx)
func (x *Executor) Run(ctx context.Context) error { return x.life.Run(ctx) }

// Stop ends the executor. From then on it accepts payloads only from handlers that still run; on PostgreSQL it
// accepts them from all callers, until the handlers have ended. Running handlers, with the halves of their
// batch, are waited for until ctx ends, then their contexts are canceled with the cause [ErrStopping], and
// what they return after that spends no retry. What they did is written down: a full disk may get room for it
// until ctx ends, or if that has no deadline for Config.StopTimeout; what is not on disk by then runs again.
// Stop does not wait for a failure that a disk short of room has not taken: that job runs again at once after
// the next start, and has spent no retry. Handlers that do not return within another 50 ms are left behind:
// [ErrStuck] names them. What they do then changes nothing any more, and the journal stays locked until the
// last of them has returned, so that the same job never runs in another process beside them. If they never do,
// only the end of the process frees it.
//
// Stop is idempotent. Calls may come together: each waits for the end, and the ctx
// that ends first counts for all. Called with the context of a handler, which can't
// wait for itself, it begins the stop and returns nil; a handler that calls it with
// another context waits for itself until that ends.
//
// It returns nil after a clean end, ErrStuck, ErrFailed when the journal failed before or
// did so now, an error that wraps the one of a handler that returned [Fatal], and
// ErrContext, and then it stops nothing. A disk that does not answer holds it for a second
// after ctx has ended; then it returns ErrStuck, and the stop goes on.
func (x *Executor) Stop(ctx context.Context) error { return x.life.Stop(ctx) }

func openWith(dir string, cfg Config, witness backdoor.Witness, openLog func(journal.Config) (*journal.Log, error)) (*Executor, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	x := &Executor{
		cfg:    cfg,
		clock:  time.Now,
		crew:   work.Crew{Engine: &engine.Engine{Dispatcher: dispatch.New(policyOf(cfg.Scheduler)), Volatile: dir == "", Logger: cfg.Logger}},
		seed:   maphash.MakeSeed(),
		once:   submit.Book{Now: time.Now},
		queues: roster.New(),
	}
	x.backlog = backlog.New(shard.Weight{Payloads: cfg.MaxBacklog.Payloads, Bytes: cfg.MaxBacklog.Bytes}, func(s backlog.Stall) {
		cfg.Logger.Warn("backlog stands still", slog.Any("error", stalled(s)))
	})
	x.crew.Backlog = x.backlog // the journal may fail as it opens
	if size := cfg.Advanced.EventBuffer; size >= 0 {
		x.events.Open(size, witness)
	}
	x.life.Config = life.Config{
		Crew: &x.crew, Roster: x.queues, Executor: x, Owns: x.owns, Dir: cmp.Or(dir, "in memory"), Strict: cfg.Advanced.Strict, Reports: cfg.Crash.Reports,
		Grace: cfg.StopTimeout, Workers: cfg.Workers, Spares: cfg.Stuck.SpareWorkers, OnStart: cfg.OnStart, OnFatal: cfg.OnFatal,
	}
	x.life.Open()
	x.queues.Events, x.queues.Stopping, x.queues.Begun = &x.events, &x.life.Stopping, x.life.Begun
	x.queues.Actors = actor.New(actor.Config{Logger: cfg.Logger, OnFailure: x.life.Fail})
	x.log, err = openLog(journal.Config{Deliver: x.queues.Deliver, Failed: x.life.Fail, Committed: x.events.Committed,
		MemoryBudget: cfg.Advanced.MemoryBudget, Logger: cfg.Logger, Life: x.crew.Starting})
	if err != nil {
		return nil, border(err)
	}
	if on, ok := witness.(interface{ Now() time.Time }); ok {
		x.clock, x.queues.Wall = on.Now, on.Now
	}
	opened := x.log.Stats()
	if x.life.Opening, x.common = opened.Since, opened.Now; x.common != nil {
		x.clock, x.queues.Wall, x.once.Now = x.common, x.common, x.common
	}
	x.ledger, x.limits, x.graph.Lists = &admit.Ledger{Log: x.log}, limit.New(), x.queues.Conditions
	x.pauses.Log, x.pauses.Tell = x.log, x.events.Paused
	x.leases.Table.RaiseToken(opened.Epoch << 32) // above those of the processes before
	x.leases.Table.Hook = func(f func()) { go guard.Hook(cfg.Logger, "OnEnd of a lease", f) }
	x.keys, err = keylock.Open(x.ledger, x.log, x.once.Now, x.crew.Volatile)
	if err = cmp.Or(err, x.pauses.Restore()); err != nil {
		x.ledger.End() // or the alarm of a lock keeps all of this
		return nil, errors.Join(err, x.log.Close())
	}
	x.calls = x.newCalls()
	x.open()
	return x, nil
}

// openListening is openWith in a directory, with a socket in it if one is wanted.
func openListening(dir string, cfg Config, openLog func(journal.Config) (*journal.Log, error)) (*Executor, error) {
	x, err := openWith(dir, cfg, nil, openLog)
	if err != nil || !cfg.ControlSocket {
		return x, err
	}
	x.life.Unlisten, err = remote.Listen(remote.Config{
		Executor: x, Inspector: x.inspector, Look: x.inspector.Inspector, Read: x.reader, Dir: dir, Logger: x.cfg.Logger, Starting: x.life.Starting,
	})
	if _, system := errors.AsType[syscall.Errno](err); system {
		err = fmt.Errorf("executor: no control socket: %w", err)
	} else if err != nil {
		err = fmt.Errorf("%w: ControlSocket is set, and %w", ErrConfig, err)
	}
	if err != nil {
		x.ledger.End()
		return nil, errors.Join(err, x.log.Close())
	}
	return x, nil
}

// openElsewhere is openWith without a directory.
func openElsewhere(dir string, cfg Config, witness backdoor.Witness, openLog func(journal.Config) (*journal.Log, error)) (*Executor, error) {
	if cfg.ControlSocket {
		return nil, fmt.Errorf("%w: ControlSocket is set, and an executor in memory, or over a log of OpenLog, has no directory for it", ErrConfig)
	}
	return openWith(dir, cfg, witness, openLog)
}

// newCalls returns what calls that enqueue need of the executor.
func (x *Executor) newCalls() *submit.Engine {
	x.once.Engine, x.once.TTL = x.crew.Engine, x.cfg.Advanced.IdempotencyTTL
	calls := &submit.Engine{
		Engine: x.crew.Engine, Once: &x.once, Waits: x.cfg.WaitForRoom, MaxPayload: x.cfg.Advanced.MaxPayloadBytes,
		Exempt: func(ctx context.Context) bool { return cmp.Or(x.front, x).owns(ctx) },
		Full:   noRoom, TooLarge: tooLarge, Stale: stale, Waiting: waiting,
	}
	if x.cfg.Splitter.Nodes > 0 { // or each payload would ask
		calls.Refuse = x.cfg.Splitter.refuse
	}
	return calls
}

// open shows what there is to those who look, act and work.
func (x *Executor) open() {
	e := x.crew.Engine
	e.Log, e.Keys, e.Leases, e.Ledger, e.Limits = x.log, x.keys, &x.leases, x.ledger, x.limits
	e.Pauses, e.Quarantine, e.Graph, e.MayChange, e.Border = &x.pauses, &x.quarantine, &x.graph, x.mayChange, border
	e.Now = func() int64 { return x.clock().UnixNano() }
	e.Registered = func() []*engine.Queue {
		return each.Of(x.queues.All(), func(q *roster.Queue) *engine.Queue { return q.To })
	}
	e.Lookup = func(name string) (*engine.Queue, error) {
		q, err := x.queues.Lookup(name)
		if err != nil {
			return nil, err
		}
		return q.To, nil
	}
	c := &x.crew
	c.Crashes = x.cfg.Crash.Limit
	c.Open(x.cfg.Stuck.After)
	x.inspector = inspector{look.New(e), act.New(e)}
	x.life.Stats = x.inspector.Stats
	x.view = x.inspector
}

func (x *Executor) openPartition(name string, log func(journal.Config) (*journal.Log, error), cfg Config) (*Executor, error) {
	part, err := OpenLog(name, log, cfg)
	if err != nil {
		return nil, err
	}
	part.front, part.queues.Part = x, true
	part.life.Front, part.life.Leave, part.life.Left = &x.life, func() { x.cluster.Leave(part) }, func() {
		if !x.cluster.Here(part.cfg.Splitter.Self) { // its shards have stopped, and none is open again
			x.limits.Forget(func(o admit.Owner) bool { return part.cfg.Splitter.refuse(o.ID) == nil })
		}
	}
	part.crew.Dispatcher.Share(x.cluster.room)
	if err := x.cluster.Join(part); err != nil {
		return nil, errors.Join(err, part.Stop(context.Background())) // it runs nothing
	}
	for _, q := range x.queues.All() {
		if own := part.queues.Named(q.Name); own != nil {
			own.Share.Tune(q.Share.Share())
		}
	}
	return part, nil
}
