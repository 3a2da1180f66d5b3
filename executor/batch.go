package executor

import (
	"context"
	"errors"
	"math/bits"

	"github.com/strandjobs/strand/shard"
)

// batch is one run of a batch handler, with its halves.
type batch[T any] struct {
	queue    *Queue[T]
	ctx      context.Context
	handler  func(context.Context, []Merged[T]) error
	halvings int // that are left; each means two calls
	attempt  *attempt
	calls    int // so far
}

// halvings is how often a batch of n is halved at most: enough to single out two
// culprits. When a service that all jobs need is down, every one of them fails, and
// finding that out one by one would only load the service more.
func halvings(n int) int { return 2 * bits.Len(uint(n-1)) }

// run calls the handler and returns an error for each item, nil when all are done.
func (b *batch[T]) run(items []*shard.Item) []error {
	jobs, err := b.queue.decodeAll(items)
	if err != nil {
		return repeat(err, len(items))
	}
	if len(jobs) == 0 {
		return nil
	}
	err = b.call(items, jobs)
	if len(items) == 1 || b.halvings == 0 || !namesNone(err) || context.Cause(b.ctx) != nil {
		return perID(items, err)
	}
	b.halvings--
	b.attempt.begin(b.calls)
	b.attempt.forget(b.calls - 1)
	half := len(items) / 2
	errs := make([]error, len(items))
	copy(errs, b.run(items[:half]))
	if context.Cause(b.ctx) != nil { // the other half could do nothing with it
		copy(errs[half:], perID(items[half:], err))
		return errs
	}
	copy(errs[half:], b.run(items[half:]))
	return errs
}

// call gives the handler a context that ends when it has returned: what it leaves
// behind is not to work beside the next call.
func (b *batch[T]) call(items []*shard.Item, jobs []Merged[T]) error {
	if b.calls > 0 {
		b.attempt.begin(b.calls)
	}
	for i := range jobs {
		jobs[i].from.attempt, jobs[i].from.call = b.attempt, b.calls
	}
	b.calls++
	ctx, cancel := context.WithCancelCause(b.ctx)
	defer cancel(ErrReturned)
	if b.queue.q.layers.run != nil {
		return b.queue.aroundAll(ctx, items, jobs, true, func(ctx context.Context) error { return b.handler(ctx, jobs) })
	}
	return guarded(func() error { return b.handler(ctx, jobs) })
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
	failed := guarded(func() error { // its methods are the user's code
		_, each := errors.AsType[BatchErrors](err)
		_, cancel := errors.AsType[*CancelError](err)
		_, discard := errors.AsType[*DiscardError](err)
		_, snooze := errors.AsType[*SnoozeError](err)
		_, retry := errors.AsType[*RetryError](err)
		_, throttled := errors.AsType[*ThrottledError](err)
		names = each || cancel || discard || snooze || retry || throttled || fromFullDisk(err)
		return nil
	})
	return failed != nil || !names // an error that can't be asked names none either
}

// perID hands the error of a batch to its ids. An error for an id that is not in
// the batch must have been meant for one that is: it counts for all that have none
// of their own.
func perID(items []*shard.Item, err error) []error {
	if err == nil {
		return nil
	}
	return byID(len(items), func(i int) string { return items[i].ID }, err)
}

// byID is perID for n ids.
func byID(n int, id func(int) string, err error) []error {
	var own BatchErrors
	each := false
	_ = guarded(func() error { own, each = errors.AsType[BatchErrors](err); return nil })
	errs := make([]error, n)
	var unnamed []int
	for i := range errs {
		var named bool
		if errs[i], named = own[id(i)]; !named {
			unnamed = append(unnamed, i)
		}
	}
	if !each || len(own) > n-len(unnamed) {
		for _, i := range unnamed {
			errs[i] = err
		}
	}
	return errs
}
