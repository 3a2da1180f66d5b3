package executor

import (
	"context"
	"fmt"
	"time"

	"github.com/strandjobs/strand/executor/internal/gate"
	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/journal"
)

// conditions are what a call has to meet to be accepted, and what is written down
// in the same commit. Nil: there are none.
type conditions struct {
	key    string // given with [IdempotencyKey]
	source string // given with [FromSource]
	offset int64  // the offset
	absent bool   // given with [IfAbsent]

	stateKey, stateSource string // where they are in the journal
	gateID                string // not in the journal
	inside                []*gate.Gate
}

// collect takes the conditions out of the options of one call.
func (q *queue) collect(options []Option) (c *conditions, err error) {
	for _, o := range options {
		if !o.isCondition() {
			continue
		}
		if c == nil {
			c = new(conditions)
		}
		if o.kind == optionAbsent {
			c.absent = true
			continue
		}
		if err := checkName(o.name); err != nil {
			return nil, err
		}
		switch {
		case o.kind == optionSource && c.source == "":
			c.source, c.offset, c.stateSource = o.name, o.offset, statekey.OffsetPrefix+o.name
		case o.kind == optionIdempotency && c.key == "":
			c.key, c.stateKey = o.name, statekey.IdempotencyKey(q.Name, o.name)
		default:
			return nil, fmt.Errorf("%w: a call takes one IdempotencyKey and one FromSource, %q is a second one", ErrInvalidKey, o.name)
		}
	}
	return c, nil
}

// enter goes through the gates of the conditions and asks whether they are met.
func (o *submission) enter(ctx context.Context) error {
	x, c := o.q.x, o.conditions
	// Always in this order, so that two calls never wait for each other.
	for _, name := range [...]string{c.stateKey, c.stateSource, c.gateID} {
		if name == "" {
			continue
		}
		g, err := x.enter(ctx, name)
		if err != nil {
			return err
		}
		c.inside = append(c.inside, g)
	}
	if c.key != "" {
		var err error
		if o.earlier, err = x.acceptedBefore(c, len(o.entries)); err != nil || o.earlier != 0 {
			return err
		}
	}
	if err := x.checkOffset(c); err != nil {
		return err
	}
	return o.checkAbsence(ctx)
}

// enter goes through one gate. It returns the cause of ctx, and ErrFailed when the
// outcome of the last call will never be known.
func (x *Executor) enter(ctx context.Context, name string) (*gate.Gate, error) {
	over := done(ctx) // not inside
	g, err := x.gates.Enter(name, over, x.failed)
	switch err {
	case gate.ErrQuit:
		return nil, ended(ctx)
	case gate.ErrLost:
		return nil, x.failure()
	}
	return g, nil
}

// leave lets the next calls in, which wait for an outcome that is still open: user
// code may have ended the goroutine.
func (o *submission) leave() {
	gates := &o.q.x.gates
	for _, g := range o.conditions.inside {
		if o.stage == underWay {
			gates.LeaveOpen(g, o.ticket.Done())
		} else {
			gates.Leave(g)
		}
	}
	o.conditions.inside = nil
}

// sets returns the state keys that go with n entries.
func (c *conditions) sets(first journal.Position, n int) (sets []journal.Set) {
	if c == nil {
		return nil
	}
	if c.key != "" {
		sets = append(sets, journal.Set{Key: c.stateKey, Value: statekey.Idempotency{At: time.Now().UnixNano(), First: first, N: n}.Encode()})
	}
	if c.source != "" {
		sets = append(sets, journal.Set{Key: c.stateSource, Value: statekey.Offset(c.offset)})
	}
	return sets
}
