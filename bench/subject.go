package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strandjobs/strand/executor"
)

// subject is an executor with one queue.
type subject struct {
	x   *executor.Executor
	q   *executor.Queue[[]byte]
	dir string
}

// open opens an executor in dir; an empty one is memory only. When it fails,
// the context that it returns ends.
func (l *lab) open(ctx context.Context, dir string, handler func(context.Context, executor.Job[[]byte]) error) (context.Context, *subject, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	x, err := executor.Open(dir, executor.Config{Workers: l.workers, Advanced: executor.Advanced{MemoryBudget: l.budget, TimerSlack: l.slack}, OnFatal: cancel})
	if err != nil {
		return nil, nil, err
	}
	q, err := executor.Handle(x, queueName, handler, executor.QueueConfig[[]byte]{Share: executor.Share{Shards: l.shards}, RetryIn: l.retryIn})
	if err != nil {
		return nil, nil, errors.Join(err, x.Stop(context.Background()))
	}
	return ctx, &subject{x, q, dir}, nil
}

// stop ends the executor. Whatever was wrong before is the first error.
func (s *subject) stop(err error) error {
	return errors.Join(err, s.x.Stop(context.Background()))
}

// empty opens the journal once more and reports what is still in it.
func (s *subject) empty(ctx context.Context) error {
	if s.dir == "" {
		return nil
	}
	x, err := executor.Open(s.dir, executor.Config{})
	if err != nil {
		return err
	}
	stats, err := x.Stats(ctx)
	for _, q := range stats.Queues {
		if q.Unclaimed > 0 {
			err = errors.Join(err, fmt.Errorf("%d entries of %q are left in the journal", q.Unclaimed, q.Name))
		}
	}
	return errors.Join(err, x.Stop(context.Background()))
}

// passage is how a load goes through an executor.
type passage struct {
	// enqueue hands all payloads over.
	enqueue func(context.Context, *executor.Queue[[]byte]) error
	// filled is called when everything is enqueued, and has the handlers start
	// only then. Nil: they run from the beginning.
	filled func()
}

// run sends l through a new executor in dir and checks the result. It returns
// how long filling took, zero when handlers run meanwhile, and how long it
// took from there until Stop had returned.
func (l *lab) run(ctx context.Context, dir string, work *load, p passage) (fill, run time.Duration, err error) {
	ctx, s, err := l.open(ctx, dir, work.handle)
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	if p.filled != nil {
		if err := p.enqueue(ctx, s.q); err != nil {
			return 0, 0, s.stop(err)
		}
		fill = time.Since(start)
		p.filled()
		start = time.Now()
	}
	if err := s.x.Start(ctx); err != nil {
		return 0, 0, s.stop(err)
	}
	if p.filled == nil {
		err = p.enqueue(ctx, s.q)
	}
	if err == nil {
		err = work.wait(ctx)
	}
	err = s.stop(err)
	run = time.Since(start)
	if l.stopped != nil {
		l.stopped()
	}
	if err == nil {
		err = errors.Join(work.check(), s.empty(ctx))
	}
	return fill, run, err
}
