package executor

import (
	"cmp"
	"context"
	"errors"
	"math/bits"
	"slices"

	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/work"
	"github.com/strandjobs/strand/shard"
)

// batch is one run of a batch handler, with its halves. It knows at any moment what
// is left to be done: user code that ends the goroutine ends one call, and the next
// goroutine goes on with the others.
type batch[T any] struct {
	queue    *Queue[T]
	ctx      context.Context
	handler  func(context.Context, []Merged[T]) error
	halvings int // that are left; each means two calls
	attempt  *attempt.Attempt
	calls    int // so far

	items []*shard.Item
	errs  []error          // of items; nil: all that were tried are done
	left  []part           // what is not settled, the next one last
	first int              // call of the one that is tried
	waits map[string]error // its jobs that wait for a payload
}

// part is some of the items of a batch, which are tried together.
type part struct {
	from, to int
	whole    error // of what it is a half of; nil: it is all
}

// halvings is how often a batch of n is halved at most: enough to single out two
// culprits. When a service that all jobs need is down, every one of them fails, and
// finding that out one by one would only load the service more.
func halvings(n int) int { return 2 * bits.Len(uint(n-1)) }

// run calls the handler and returns an error for each item, nil when all are done.
func (b *batch[T]) run(items []*shard.Item) []error {
	b.items, b.left = items, []part{{to: len(items)}}
	work.Resumable(b.attempt, func() []error { // user code has ended the goroutine in one call
		b.settle(ErrHandlerExited)
		return b.goOn()
	})
	return b.goOn()
}

func (b *batch[T]) goOn() []error {
	for len(b.left) > 0 {
		p := b.left[len(b.left)-1]
		if p.whole != nil && context.Cause(b.ctx) != nil { // it could do nothing with it
			b.end(p, perID(b.items[p.from:p.to], p.whole))
			continue
		}
		b.try(b.items[p.from:p.to])
	}
	return b.errs
}

// try calls the handler for the part that is next, and settles it.
func (b *batch[T]) try(items []*shard.Item) {
	b.first = b.calls
	jobs, waits, err := b.queue.decodeAll(items)
	b.waits = waits
	switch {
	case err != nil:
		b.end(b.left[len(b.left)-1], slices.Repeat([]error{err}, len(items)))
	case len(jobs) == 0:
		b.settle(nil)
	default:
		b.settle(b.call(jobs))
	}
}

// settle ends the part that was tried, or halves it. It stays in left as long as user
// code is called.
func (b *batch[T]) settle(err error) {
	p := b.left[len(b.left)-1]
	if p.to-p.from == 1 || b.halvings == 0 || !namesNone(err) || context.Cause(b.ctx) != nil {
		b.end(p, perID(b.items[p.from:p.to], err))
		return
	}
	b.halvings--
	if b.calls > b.first { // what that call has staged does not count
		b.attempt.Again(b.calls)
	}
	half := p.from + (p.to-p.from)/2
	b.left = append(b.left[:len(b.left)-1], part{half, p.to, err}, part{p.from, half, err})
}

// end ends the part that is next, with an error for each of its items; nil: all are done.
func (b *batch[T]) end(p part, errs []error) {
	b.left = b.left[:len(b.left)-1]
	if errs == nil && len(b.waits) == 0 {
		return
	}
	if b.errs == nil {
		b.errs = make([]error, len(b.items))
	}
	copy(b.errs[p.from:p.to], errs)
	for i := p.from; i < p.to; i++ {
		b.errs[i] = cmp.Or(b.waits[b.items[i].ID], b.errs[i])
	}
}

// call gives the handler a context that ends when it has returned: what it leaves
// behind is not to work beside the next call.
func (b *batch[T]) call(jobs []Merged[T]) error {
	ctx, cancel := context.WithCancelCause(b.ctx)
	defer cancel(ErrReturned)
	if b.queue.q.layers.run != nil {
		return b.queue.aroundAll(ctx, jobs, true, func(ctx context.Context) error { return b.handle(ctx, jobs) })
	}
	return guard.Call(func() error { return b.handle(ctx, jobs) })
}

// handle calls the handler. What it has staged on these jobs before does not count.
func (b *batch[T]) handle(ctx context.Context, jobs []Merged[T]) error {
	switch {
	case b.calls > b.first: // a middleware calls next again
		b.attempt.Again(b.calls)
	case b.calls > 0:
		b.attempt.Begin(b.calls)
	}
	for i := range jobs {
		jobs[i].from.attempt, jobs[i].from.call = b.attempt, b.calls
	}
	b.calls++
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
		names = each || wish.Fatal != nil || wish.Kind != work.Fail
		return nil
	})
	return failed != nil || !names // an error that can't be asked names none either
}

// perID hands the error of a batch to its ids. An error for an id that is not in the batch
// must have been meant for one that is: it counts for all that have none of their own.
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
	_ = guard.Call(func() error { own, each = errors.AsType[BatchErrors](err); return nil })
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
