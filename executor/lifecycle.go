package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/tally"
)

var errBegun = fmt.Errorf("%w: Start may be called once, and not after Stop", ErrState)

// Start runs the jobs of all registered queues until Stop is called. Queues may be
// registered later, too, except under Config.Advanced.Strict: then Start returns ErrConfig,
// and may be called again. It returns the error of OnStart, ErrFailed when the
// journal has failed, ErrContext, and ErrState when it was called before or Stop
// was.
//
// Handlers see the values of ctx. Its end means nothing once Start has returned:
// see [Executor.Run]. Each call of a handler has a context of its own, which ends
// with [ErrReturned] when the handler has returned.
func (x *Executor) Start(ctx context.Context) error {
	ctx, err := guard.Context(ctx)
	if err != nil {
		return err
	}
	x.mu.Lock()
	if x.state != opened {
		x.mu.Unlock()
		return errBegun
	}
	x.state = starting
	x.mu.Unlock()
	x.inherited.From(ctx)
	if x.cfg.Advanced.Strict {
		if err := engine.Unclaimed(x.log); err != nil {
			x.mu.Lock()
			defer x.mu.Unlock()
			if x.state == starting { // it may be called again
				x.state = opened
			}
			return err
		}
	}
	if x.cfg.OnStart != nil {
		if err := guard.Call(func() error { return x.cfg.OnStart(ctx) }); err != nil {
			return fmt.Errorf("executor: OnStart: %w", err)
		}
	}
	if err := x.goOn(starting); err != nil {
		return err
	}
	if x.cluster != nil {
		return x.startCluster(ctx)
	}
	x.logStart()
	unreported, unrecorded, err := x.startWorkers()
	if err != nil {
		return err
	}
	if unreported != nil {
		x.cfg.Logger.Error("no crash reports: until the next start Go's last words do not tell which job killed the process", slog.Any("error", unreported))
	}
	if unrecorded != nil {
		x.cfg.Logger.Error("no crash recorder: jobs that kill the process are not found out until the next start, and suspects that are held stay so", slog.Any("error", unrecorded))
	}
	return nil
}

// startCluster has this process take its part.
func (x *Executor) startCluster(ctx context.Context) error {
	x.queues.arranging.Lock() // a stop comes after it
	defer x.queues.arranging.Unlock()
	if err := x.goOn(started); err != nil {
		return err
	}
	return x.cluster.start(ctx)
}

// startWorkers has the jobs run. Without crash reports or a crash recorder they run all the
// same, but for those that are held; the caller says so when it holds no lock.
func (x *Executor) startWorkers() (unreported, unrecorded, err error) {
	x.queues.arranging.Lock()
	defer x.queues.arranging.Unlock()
	if err := x.goOn(starting); err != nil {
		return nil, nil, err
	}
	words := 2 // jobs that a worker may have in hand at once, as far as it is known now; two tell of a batch
	for _, q := range x.queues.all() {
		words = max(words, min(q.Core.BatchSize, 64)) // of a larger batch the recorder knows the first ones
	}
	running, unrecorded := x.log.RecordCrashes(x.cfg.Workers+x.cfg.Stuck.SpareWorkers, words)
	if unrecorded == nil { // or who is held stays so: another death would convict none of them
		x.quarantine.Start(running.Rebeat)
	}
	if x.cfg.Crash.Reports && unrecorded == nil { // or the last report stays: what it says is not on disk yet
		unreported = x.log.ReportCrashes()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.crew.Recorder = running // closed by stop, which waits for us
	if x.state != starting || x.err != nil {
		return nil, nil, fmt.Errorf("%w: stopped while it was starting", cmp.Or(x.err, ErrState))
	}
	x.state, x.began = started, time.Now()
	x.crew.Hire(words, x.cfg.Workers, x.cfg.Stuck.SpareWorkers)
	return unreported, unrecorded, nil
}

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
func (x *Executor) Run(ctx context.Context) error {
	ctx, err := guard.Context(ctx)
	if err != nil {
		return err
	}
	if err := x.Start(ctx); err == errBegun { // and not what OnStart makes of one
		return err
	} else if err != nil {
		return errors.Join(err, x.Stop(ctx))
	}
	select {
	case <-ctx.Done():
	case <-x.failed:
	case <-x.stopped:
	case <-x.told:
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(x.cfg.StopTimeout, 0))
	defer cancel()
	err = x.Stop(grace)
	if x.failure() != nil || x.ended() != nil {
		select {
		case <-x.told:
		case <-grace.Done():
		}
	}
	return err
}

// Stop ends the executor. From then on it accepts payloads only from handlers that still run; on PostgreSQL it
// accepts them from all callers, until the handlers have ended. Running handlers, with the halves of their
// batch, are waited for until ctx ends, then their contexts are cancelled with the cause [ErrStopping], and
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
func (x *Executor) Stop(ctx context.Context) error {
	ctx, err := guard.Context(ctx)
	if err != nil {
		return err
	}
	inside := x.owns(ctx)
	if _, ends := ctx.Deadline(); ends && !inside {
		x.hurries.Store(true)
	}
	x.beginStop()
	if inside {
		return nil
	}
	select {
	case <-x.stopped:
		return x.stopErr
	case <-ctx.Done():
	}
	x.hasten(ErrStopping)
	select {
	case <-x.stopped:
		return x.stopErr
	case <-time.After(stuckAfter + closeAfter):
		return fmt.Errorf("%w, or the disk does not answer; what was accepted is written when it does", ErrStuck)
	}
}

func (x *Executor) beginStop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state != stopping {
		x.state = stopping
		x.crew.Draining.Store(true) // before Err says so
		x.stopping.Store(true)
		go (&shutdown{x: x, began: time.Now()}).run() // no context ends it: see the census
	}
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
	x.crew.Drain()
	x.backlog.Close(failure)
	// The caller is the committer, an actor's, or a worker: Stop waits for all of
	// them, and the hook may well call Stop.
	go func() {
		guard.Log(func() { x.cfg.Logger.Error("executor failed", slog.Any("error", err)) })
		x.tellOnce(failure)
	}()
}

// tellOnce calls OnFatal, unless that was done.
func (x *Executor) tellOnce(err error) {
	x.telling.Do(func() {
		defer close(x.told)
		if x.cfg.OnFatal != nil {
			guard.Hook(x.cfg.Logger, "OnFatal", func() { x.cfg.OnFatal(err) })
		}
	})
}

// endWith stops the executor because a handler has returned Fatal. Only the first one
// counts. When it returns, no worker begins anything.
func (x *Executor) endWith(f error) {
	if x.front != nil {
		x.crew.Drain()
		x.front.endWith(f)
		return
	}
	x.mu.Lock()
	if x.err != nil || x.fatal != nil {
		x.mu.Unlock()
		return
	}
	x.fatal = f
	under := x.state == stopping
	x.mu.Unlock()
	if !under {
		x.crew.Drain()
		x.beginStop()
	}
	go x.tellFatal(f, under)
}

// tellFatal calls OnFatal when the stop is over; one that was under way has its own time
// for that.
func (x *Executor) tellFatal(f error, under bool) {
	guard.Log(func() { x.cfg.Logger.Error("a handler ends the executor", slog.Any("error", f)) })
	ctx := x.hurry // a disk that hangs does not hold it either
	if !under {
		grace, cancel := context.WithTimeout(ctx, max(x.cfg.StopTimeout, 0))
		defer cancel()
		ctx = grace
	}
	_ = x.Stop(ctx) // says it to those who ask
	x.tellOnce(f)
}

// logStart is the one line about a start, with what the last process left behind when it died.
func (x *Executor) logStart() {
	s, _ := x.inspector.Stats(context.Background()) // an error: a shard has failed, and Start says so
	life := tally.Life{Dir: x.dir, Workers: x.cfg.Workers, Queues: len(x.queues.all()), Took: time.Since(x.opening)}
	if life.Death, _ = x.log.Crash(); life.Death != nil {
		life.Suspects = x.quarantine.Named()
	}
	for _, q := range x.queues.all() {
		life.Again += q.Suspects.Again
	}
	guard.Log(func() { life.Started(x.crew.Handlers, x.cfg.Logger, s.Total()) })
}
