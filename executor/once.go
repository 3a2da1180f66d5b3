package executor

import (
	"context"
	"fmt"

	"github.com/strandjobs/strand/journal"
)

// conditions are what a call has to meet to be accepted, and what is written
// down in the same commit.
type conditions struct {
	key  string // given with [Key]
	mark string // given with [Once]
	at   int64  // the mark

	stateKey, stateMark string // where they are in the journal
}

// collect takes the conditions out of the options of one call.
func (q *queue) collect(options []Option) (c conditions, err error) {
	for _, o := range options {
		if !o.conditional() {
			continue
		}
		if err := checkName(o.name); err != nil {
			return c, err
		}
		switch {
		case o.kind == optionOnce && c.mark == "":
			c.mark, c.at, c.stateMark = o.name, o.mark, markPrefix+o.name
		case o.kind == optionKey && c.key == "":
			c.key, c.stateKey = o.name, keyPrefix+fmt.Sprintf("%d/%s/%s", len(q.name), q.name, o.name)
		default:
			return c, fmt.Errorf("%w: a call takes one Key and one Once, %q is a second one", ErrInvalidKey, o.name)
		}
	}
	return c, nil
}

// appendIf is append under the conditions among the options. It waits for the
// commit under Async, too: its answer is no use before.
func (q *queue) appendIf(ctx context.Context, entries []journal.Entry, options []Option) ([]Receipt, error) {
	c, err := q.collect(options)
	if err != nil {
		return nil, err
	}
	o := q.newOffer(entries)
	defer o.end()
	for {
		receipts, err := q.tryIf(ctx, &o, entries, &c)
		if err == errNoRoom {
			// Not inside the gates, because a handler that waits there may be what
			// the backlog waits for.
			if err = o.wait(ctx); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, border(err)
		}
		if c.key != "" {
			q.x.sweepKeys()
		}
		return receipts, nil
	}
}

// tryIf looks at the conditions, appends, and waits for the outcome. It returns
// errNoRoom when the call should wait for room.
func (q *queue) tryIf(ctx context.Context, o *offer, entries []journal.Entry, c *conditions) ([]Receipt, error) {
	x := q.x
	if err := x.admits(ctx); err != nil {
		return nil, err
	}
	leave := x.gates.leave
	// Always in this order: two calls never wait for each other.
	for _, name := range [...]string{c.stateKey, c.stateMark} {
		if name == "" {
			continue
		}
		g, err := x.enter(ctx, name)
		if err != nil {
			return nil, err
		}
		defer func() { leave(g) }()
	}
	if c.key != "" {
		if receipts, err := x.duplicates(c, len(entries)); receipts != nil || err != nil {
			return receipts, err
		}
	}
	if err := x.checkMark(c); err != nil {
		return nil, err
	}
	keys, err := q.keysOnEnqueue(entries)
	if err != nil {
		return nil, err
	}
	if err := o.reserve(ctx); err != nil {
		return nil, err
	}
	if err := o.append(ctx, entries, keys, c.sets(len(entries)), false); err != nil {
		return nil, err
	}
	leave = func(g *gate) { x.gates.leaveOpen(g, o.ticket) } // should the wait end the goroutine
	err = o.await(ctx)
	if o.stage != underWay {
		leave = x.gates.leave
	}
	if err != nil {
		return nil, err
	}
	receipts := make([]Receipt, len(entries))
	for i := range receipts {
		receipts[i] = q.receipt(o.ticket, i, Sync)
	}
	return receipts, nil
}

// sets returns the state keys that go with n entries.
func (c *conditions) sets(n int) func(journal.Position) []journal.Set {
	return func(first journal.Position) (sets []journal.Set) {
		if c.key != "" {
			sets = append(sets, journal.Set{Key: c.stateKey, Value: newKeyed(first, n).encode()})
		}
		if c.mark != "" {
			sets = append(sets, journal.Set{Key: c.stateMark, Value: encodeMark(c.at)})
		}
		return sets
	}
}
