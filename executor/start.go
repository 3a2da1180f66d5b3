package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/strandjobs/strand/executor/internal/guard"
)

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
		return fmt.Errorf("%w: Start may be called once, and not after Stop", ErrState)
	}
	x.state = starting
	x.mu.Unlock()
	x.inherited.from.Store(new(context.WithoutCancel(ctx)))
	if x.cfg.Advanced.Strict {
		if err := x.unclaimed(); err != nil {
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
	if err := x.mayStart(); err != nil {
		return err
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

// startWorkers has the jobs run. Without crash reports or a crash recorder they run all the
// same, but for those that are held; the caller says so when it holds no lock.
func (x *Executor) startWorkers() (unreported, unrecorded, err error) {
	x.arranging.Lock()
	defer x.arranging.Unlock()
	if err := x.mayStart(); err != nil {
		return nil, nil, err
	}
	words := 1 // jobs that a worker may have in hand at once, as far as it is known now
	for _, q := range x.registered() {
		words = max(words, min(q.batch, maxWords))
	}
	if x.cfg.Crash.Reports {
		unreported = x.log.ReportCrashes()
	}
	running, unrecorded := x.log.RecordCrashes(x.cfg.Workers+x.cfg.Stuck.SpareWorkers, words)
	if unrecorded == nil { // or who is held stays so: another death would convict none of them
		x.quarantine.Start(running.Rebeat)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.running = running // closed by stop, which waits for us
	if x.state != starting || x.err != nil {
		return nil, nil, fmt.Errorf("%w: stopped while it was starting", cmp.Or(x.err, ErrState))
	}
	x.state, x.words, x.began = started, words, time.Now()
	for place := range x.cfg.Workers {
		x.hire(place)
	}
	for i := range x.cfg.Stuck.SpareWorkers {
		x.spares = append(x.spares, x.cfg.Workers+i)
	}
	return unreported, unrecorded, nil
}

func (x *Executor) mayStart() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state != starting {
		return fmt.Errorf("%w: stopped while it was starting", ErrState)
	}
	return x.err
}

// maxWords bounds what the crash recorder knows of one worker: of a larger batch the first ones.
const maxWords = 64

// Run starts, waits until ctx ends, Stop is called, a handler returns [Fatal] or the
// executor fails, and stops: running handlers, and OnFatal, have StopTimeout to end. It
// returns nil
// after a clean end, and otherwise why it failed or what did not end. When it could
// not start because that was done before, it stops nothing.
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
	if err := x.Start(ctx); errors.Is(err, ErrState) {
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
