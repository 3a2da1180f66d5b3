package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/strandjobs/strand/journal"
)

// Start runs the jobs of all registered queues until Stop is called. Queues
// may be registered later, too, except under Config.Strict: then Start returns
// ErrConfig, and may be called again. It returns the error of OnStart, ErrFailed
// when the journal has failed, ErrContext, and ErrState when it was called before
// or Stop was.
func (x *Executor) Start(ctx context.Context) error {
	ctx, err := usable(ctx)
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
	if x.cfg.Strict {
		if err := x.unclaimed(); err != nil {
			x.backToOpened()
			return err
		}
	}
	if x.cfg.OnStart != nil {
		if err := guarded(func() error { return x.cfg.OnStart(ctx) }); err != nil {
			return fmt.Errorf("executor: OnStart: %w", err)
		}
	}
	unrecorded, err := x.begin()
	if unrecorded != nil {
		x.cfg.Logger.Error("no crash recorder", slog.Any("error", unrecorded))
	}
	return err
}

// begin makes the workers, with a crash recorder. Without it, and with the reason,
// jobs run all the same, for example on a full disk.
func (x *Executor) begin() (unrecorded, err error) {
	x.arranging.Lock()
	defer x.arranging.Unlock()
	if err := x.mayStart(); err != nil {
		return nil, err
	}
	words := x.wordsPerWorker()
	n := (x.cfg.Workers + x.cfg.SpareWorkers) * words
	running, unrecorded := x.log.Running(n)
	if unrecorded != nil {
		running = journal.NewRunning(n)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.running = running // closed by stop, which waits for us
	if x.state != starting || x.err != nil {
		return unrecorded, fmt.Errorf("%w: stopped while it was starting", cmp.Or(x.err, ErrState))
	}
	x.state, x.words = started, words
	for place := range x.cfg.Workers {
		x.hire(place)
	}
	for i := range x.cfg.SpareWorkers {
		x.spares = append(x.spares, x.cfg.Workers+i)
	}
	return unrecorded, nil
}

// backToOpened lets Start be called again, after nothing was done.
func (x *Executor) backToOpened() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state == starting {
		x.state = opened
	}
}

func (x *Executor) mayStart() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state != starting {
		return fmt.Errorf("%w: stopped while it was starting", ErrState)
	}
	return x.err
}

// maxWords bounds what the crash recorder knows of one worker.
const maxWords = 64

// wordsPerWorker is how many jobs a worker may have in hand at once, as far as
// it is known now. Of a larger batch the crash recorder knows the first ones.
func (x *Executor) wordsPerWorker() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := 1
	for _, q := range x.queues {
		n = max(n, min(q.batch, maxWords))
	}
	return n
}

// Run starts, waits until ctx ends, Stop is called or the executor fails, and
// stops: running handlers, and OnFailure, have StopTimeout to end. It returns
// nil after a clean end, and otherwise why it failed or what did not end. When
// it could not start because that was done before, it stops nothing.
//
// For a program that ends in order on the first signal, and at once on the
// second one:
//
//	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
//	context.AfterFunc(ctx, restore)
//	err := x.Run(ctx)
func (x *Executor) Run(ctx context.Context) error {
	ctx, err := usable(ctx)
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
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(x.cfg.StopTimeout, 0))
	defer cancel()
	err = x.Stop(grace)
	if x.failure() != nil {
		select {
		case <-x.told:
		case <-grace.Done():
		}
	}
	return err
}
