// Package halve runs a handler that gets many jobs in one call, and finds out which of them can't
// be done: a batch that has failed is tried again in halves, and those in halves.
//
// # What is promised
//
//   - A part is not halved when it has one job, when the error says which job it is about, when the
//     context has ended, or when no halving is left; then its error is that of all of its jobs.
//   - A batch of n jobs costs at most 4·⌈log2(n)⌉ further calls, which is enough to single out two
//     culprits. When a service that all jobs need is down, every one of them fails, and finding
//     that out one by one would only load the service more.
//   - What is left to be done is known at any moment: user code that ends the goroutine ends one
//     call, and the next goroutine goes on with the others.
//
// One goroutine at a time uses a Run. Census (goroutines, timers): none.
package halve

import (
	"cmp"
	"context"
	"math/bits"

	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/shard"
)

// Run is one run of a batch. Begin has to come first.
type Run struct {
	Context context.Context
	Attempt *attempt.Attempt
	Items   []*shard.Item

	Try       func(part []*shard.Item) // calls the handler, and then Settle or Fail
	NamesNone func(error) bool         // an error may be about any job of its part
	Named     func(part []*shard.Item, err error) []error

	Waits map[string]error // jobs of the part that wait for a payload
	Calls int              // of the handler so far
	First int              // Calls when the part that is tried began

	errs     []error // of Items; nil: all that were tried are done
	left     []part  // what is not settled, the next one last
	halvings int     // that are left; each means two calls
}

// part is some of the items, which are tried together.
type part struct {
	from, to int
	whole    error // of what it is a half of; nil: it is all
}

// Begin has all items tried together.
func (r *Run) Begin() {
	r.left, r.halvings = []part{{to: len(r.Items)}}, 2*bits.Len(uint(len(r.Items)-1))
}

// Go tries what is left, and returns an error for each item; nil: all are done.
func (r *Run) Go() []error {
	for len(r.left) > 0 {
		p := r.left[len(r.left)-1]
		if p.whole != nil && context.Cause(r.Context) != nil { // it could do nothing with it
			r.Fail(p.whole)
			continue
		}
		r.First, r.Waits = r.Calls, nil
		r.Try(r.Items[p.from:p.to])
	}
	return r.errs
}

// Settle ends the part that was tried, or halves it. It stays left as long as user code is called.
func (r *Run) Settle(err error) {
	p := r.left[len(r.left)-1]
	if p.to-p.from == 1 || r.halvings == 0 || !r.NamesNone(err) || context.Cause(r.Context) != nil {
		r.Fail(err)
		return
	}
	r.halvings--
	if r.Calls > r.First { // what that call has staged does not count
		r.Attempt.Again(r.Calls)
	}
	half := p.from + (p.to-p.from)/2
	r.left = append(r.left[:len(r.left)-1], part{half, p.to, err}, part{p.from, half, err})
}

// Fail ends the part that is next with what an error says of its items; nil: they are done.
func (r *Run) Fail(err error) {
	p := r.left[len(r.left)-1]
	var errs []error
	if err != nil {
		errs = r.Named(r.Items[p.from:p.to], err)
	}
	r.left = r.left[:len(r.left)-1]
	if errs == nil && len(r.Waits) == 0 {
		return
	}
	if r.errs == nil {
		r.errs = make([]error, len(r.Items))
	}
	copy(r.errs[p.from:p.to], errs)
	for i := p.from; i < p.to; i++ {
		r.errs[i] = cmp.Or(r.Waits[r.Items[i].ID], r.errs[i])
	}
}
