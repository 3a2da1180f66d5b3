package executor

import (
	"context"
	"errors"

	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/halve"
	"github.com/strandjobs/strand/executor/internal/verdict"
	"github.com/strandjobs/strand/executor/internal/work"
	"github.com/strandjobs/strand/shard"
)

// batch is one run of a batch handler, with its halves.
type batch[T any] struct {
	halve.Run
	jobs    *jobs[T]
	handler func(context.Context, []Merged[T]) error
}

// run calls the handler and returns an error for each item, nil when all are done.
func (b *batch[T]) run(ctx context.Context, items []*shard.Item) []error {
	b.Run = halve.Run{Context: ctx, Attempt: attemptOf(ctx), Items: items, Try: b.try, NamesNone: namesNone}
	b.Named = func(items []*shard.Item, err error) []error {
		return byID(len(items), func(i int) string { return items[i].ID }, err)
	}
	b.Begin()
	work.Resumable(b.Attempt, func() []error { // user code has ended the goroutine in one call
		b.Settle(ErrHandlerExited)
		return b.Go()
	})
	return b.Go()
}

// try calls the handler for the part that is next, and settles it.
func (b *batch[T]) try(items []*shard.Item) {
	jobs, waits, err := b.jobs.decodeAll(items)
	b.Waits = waits
	switch {
	case err != nil:
		b.Fail(err)
	case len(jobs) == 0:
		b.Settle(nil)
	default:
		b.Settle(b.call(items, jobs))
	}
}

// call gives the handler a context that ends when it has returned: what it leaves
// behind is not to work beside the next call.
func (b *batch[T]) call(items []*shard.Item, jobs []Merged[T]) error {
	ctx, cancel := context.WithCancelCause(b.Context)
	defer cancel(ErrReturned)
	if b.jobs.q.layers.run != nil {
		return b.jobs.aroundAll(ctx, jobs, true, func(ctx context.Context) error { return b.handle(ctx, items, jobs) })
	}
	return guard.Call(func() error { return b.handle(ctx, items, jobs) })
}

// handle calls the handler. What it has staged on these jobs before does not count, nor what it has made of them.
func (b *batch[T]) handle(ctx context.Context, items []*shard.Item, jobs []Merged[T]) (err error) {
	switch {
	case b.Calls > b.First: // a middleware calls next again
		b.Attempt.Again(b.Calls)
		if jobs, b.Waits, err = b.jobs.decodeAll(items); err != nil || len(jobs) == 0 {
			return err
		}
	case b.Calls > 0:
		b.Attempt.Begin(b.Calls)
	}
	for i := range jobs {
		jobs[i].from.attempt, jobs[i].from.call = b.Attempt, b.Calls
	}
	b.Calls++
	return b.handler(ctx, jobs)
}

// namesNone reports whether an error of a batch may be about any of its jobs.
func namesNone(err error) bool {
	if err == nil {
		return false
	}
	if _, panicked := err.(*PanicError); panicked {
		return true
	}
	names := false
	failed := guard.Call(func() error { // its methods are the user's code
		_, each := errors.AsType[BatchErrors](err)
		wish := wishOf(err)
		names = each || wish.Fatal != nil || wish.Kind != verdict.Fail
		return nil
	})
	return failed != nil || !names // an error that can't be asked names none either
}
