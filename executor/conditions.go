package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/internal/gate"
	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/journal"
)

// conditions are what a call has to meet to be accepted, and what is written down
// in the same commit. Nil: there are none.
type conditions struct {
	key     string // given with [IdempotencyKey]
	sources []sourceOffset
	absent  bool // given with [IfAbsent]

	stateKey string // where the key is in the journal
	gateID   string // not in the journal
	inside   []*gate.Gate
}

// sourceOffset was given with [FromSource].
type sourceOffset struct {
	name, stateKey string
	offset         int64
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
		case o.kind == optionSource && !slices.ContainsFunc(c.sources, func(s sourceOffset) bool { return s.name == o.name }):
			c.sources = append(c.sources, sourceOffset{o.name, statekey.OffsetPrefix + o.name, o.offset})
		case o.kind == optionIdempotency && c.key == "":
			c.key, c.stateKey = o.name, statekey.IdempotencyKey(q.Name, o.name)
		default:
			return nil, fmt.Errorf("%w: a call takes one IdempotencyKey, and one FromSource of a name; %q is a second one", ErrInvalidKey, o.name)
		}
	}
	return c, nil
}

// carried is a condition on its way to another program.
type carried struct {
	Kind   optionKind
	Name   []byte `json:",omitempty"`
	Offset int64  `json:",omitempty"`
}

// carry returns the conditions among options as bytes; nil: there are none.
func carry(options []Option) (b []byte) {
	var all []carried
	for _, o := range options {
		if o.isCondition() {
			all = append(all, carried{o.kind, []byte(o.name), o.offset})
		}
	}
	if all != nil {
		b, _ = json.Marshal(all) // does not fail
	}
	return b
}

// Carried returns the options about a call that [Queue.Carry] has handed back, here or in
// another program. It returns ErrInvalidKey for other bytes, and for options that no call may have.
func Carried(rest []byte) (options []Option, err error) {
	var all []carried
	if len(rest) > 0 {
		err = json.Unmarshal(rest, &all)
	}
	for _, c := range all {
		o := Option{kind: c.Kind, name: string(c.Name), offset: c.Offset}
		if !o.isCondition() {
			err = fmt.Errorf("an option of kind %d can't be carried", c.Kind)
		}
		options = append(options, o)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidKey, err)
	}
	_, err = new(queue).collect(options)
	return options, err
}

// gates returns the names of the gates of the conditions, always in the same order, so that two
// calls never wait for each other.
func (c *conditions) gates() []string {
	names := []string{c.stateKey, c.gateID}
	for _, s := range c.sources {
		names = append(names, s.stateKey)
	}
	slices.Sort(names)
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// enter goes through the gates of the conditions and asks whether they are met.
func (o *submission) enter(ctx context.Context) error {
	x, c := o.q.x, o.conditions
	for _, name := range c.gates() {
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
	for _, s := range c.sources {
		if err := x.checkOffset(s); err != nil {
			return err
		}
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
	for _, s := range c.sources {
		sets = append(sets, journal.Set{Key: s.stateKey, Value: statekey.Offset(s.offset)})
	}
	return sets
}
