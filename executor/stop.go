package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

const (
	// stuckAfter is how long handlers have to return once their context is
	// cancelled.
	stuckAfter = 50 * time.Millisecond
	// closeAfter is how long Stop then waits for the disk.
	closeAfter = time.Second
)

// Stop ends the executor. Nothing new is accepted, except from handlers that still
// run, and, over a log that another process goes on with, until they have ended. Running
// handlers are waited for until ctx ends, then their contexts are cancelled with the cause
// [ErrStopping], and what they return after that spends no retry. What they did is written
// down. Handlers that do not return within another 50 ms are left behind: [ErrStuck] names
// them. What they do then changes nothing any more, and the journal stays locked until the last of them has returned, so
// that the same job never runs in another process beside them. If they never do,
// only the end of the process frees it.
//
// Stop is idempotent. Calls may come together: each waits for the end, and the ctx
// that ends first counts for all. Called with the context of a handler, which can't
// wait for itself, it begins the stop and returns nil; a handler that calls it with
// another context waits for itself until that ends.
//
// It returns nil after a clean end, ErrStuck, ErrFailed when the journal failed
// before or did so now, an error that wraps the one of a handler that returned [Fatal],
// and ErrContext, and then it stops nothing. A disk that does
// not answer holds it for a second after ctx has ended; then it returns ErrStuck,
// and the stop goes on.
func (x *Executor) Stop(ctx context.Context) error {
	ctx, err := usable(ctx)
	if err != nil {
		return err
	}
	x.beginStop()
	if ctx.Value(handlerKey{}) == x {
		return nil
	}
	select {
	case <-x.stopped:
		return x.stopErr
	case <-ctx.Done():
	}
	x.hurried.Do(func() { close(x.hurry) })
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
		x.stopping.Store(true)
		go x.stop() // no context ends it: see the census
	}
}

func (x *Executor) stop() {
	stopping := time.Now()
	x.backlog.Close(ErrClosed)
	x.awaitArrangements()
	x.draining.Store(true)
	close(x.closing)
	names, stuck := x.drain()
	if x.control != nil {
		x.control.Close() // not before: a stop that takes long is looked at
	}
	x.settleFor(aMoment)
	all, known := x.sum()
	x.watchdog.stop()
	x.quarantine.Close()
	x.ledger.End()
	x.limits.Close()
	x.cancel(ErrStopping)
	for _, q := range x.queues { // no more are made
		q.undertaker.close()
		q.folder.close()
	}
	x.awaitFolders()
	// Nothing keeps a shard from handling what is in its mailbox: this ends.
	background := context.Background()
	var errs []error
	for _, s := range *x.routes.Load() {
		errs = append(errs, s.Stop(background))
	}
	// Not before: a shard may assign a run until it has stopped.
	for _, w := range x.crew() {
		close(w.runs)
	}
	if stuck == nil {
		x.working.Wait()
	}
	if x.running != nil {
		errs = append(errs, x.running.Close())
	}
	errs = append(errs, x.actors.Stop(background))
	x.events.Close()
	unlock, err := x.log.CloseLocked()
	if stuck == nil {
		err = errors.Join(err, unlock())
	}
	x.stopErr = errors.Join(stuck, x.ended(), x.ending(errors.Join(append(errs, err)...)))
	if stuck != nil {
		defer x.unlockAtLast(unlock)
	}
	defer close(x.stopped) // also when the logger ends the goroutine
	x.logStop(all, known, stopping, leftBehind(names, stuck))
}

// aMoment is how long a stop waits so that its line has what handlers have just enqueued.
const aMoment = 100 * time.Millisecond

// settleFor waits until what was recorded has come to the shards, but no longer than d.
func (x *Executor) settleFor(d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	_ = x.log.Settled(ctx)
}

// unlockAtLast gives the journal back when the handlers that were left behind have
// returned.
func (x *Executor) unlockAtLast(unlock func() error) {
	x.working.Wait()
	if err := unlock(); err != nil {
		x.cfg.Logger.Error("journal stays locked", slog.Any("error", err))
	}
}

// awaitArrangements waits for a queue that is being registered and for a Start that
// makes workers; the next ones are refused. So shards and workers are complete.
func (x *Executor) awaitArrangements() {
	x.arranging.Lock()
	defer x.arranging.Unlock()
}

// ending makes the error of a stop: that of the executor, if it has failed, or what
// went wrong in the stop.
func (x *Executor) ending(err error) error {
	if failure := x.failure(); failure != nil {
		return failure
	}
	if err != nil {
		return fmt.Errorf("executor: stop: %w", border(err))
	}
	return nil
}

// drain waits for the workers. The error names what still runs.
func (x *Executor) drain() (names []string, stuck error) {
	quiet := x.dispatcher.close()
	select {
	case <-quiet:
		return nil, nil
	case <-x.hurry:
	}
	x.cancel(ErrStopping)
	select {
	case <-quiet:
		return nil, nil
	case <-time.After(stuckAfter):
	}
	for _, w := range x.crew() {
		names = append(names, w.jobs()...)
	}
	slices.Sort(names)
	return names, fmt.Errorf("%w: still running: %v", ErrStuck, names)
}
