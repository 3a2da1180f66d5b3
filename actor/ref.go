package actor

import (
	"context"
	"fmt"
	"reflect"
)

// Ref is the address of one actor that takes messages of type M. Its methods may be
// called from any goroutine.
type Ref[M any] struct {
	cell    *cell
	receive func(M)
	nilable bool // M can be nil and compared, so Send can tell
}

// letter wraps every message. protoactor-go gives a meaning to some (a batch, a
// poison pill, an envelope, whatever has GetAutoResponse), and a nil interface
// makes its mailbox spin for ever; a letter is none of these, whatever M is. A
// struct of one pointer-shaped field goes into an interface without allocating.
type letter[M any] struct{ message M }

// Spawn starts an actor that calls receive with every message. The name is for people (logs, errors) and unique in s;
// it is free again after Stop. Spawn returns an error, of which only the text tells why, when the name is empty or in
// use, or s was stopped; a nil receive is a bug, and panics. receive must not block for long: other actors wait for a
// core meanwhile.
func Spawn[M any](s *System, name string, receive func(M)) (*Ref[M], error) {
	if receive == nil {
		panic("actor: bug: Spawn without a receive function")
	}
	c := &cell{
		system: s,
		name:   name,
		handle: func(message any) { receive(message.(letter[M]).message) },
		done:   make(chan struct{}),
	}
	c.inbox.drained, c.loop = c.drained, c.run
	if err := s.spawn(c); err != nil {
		return nil, err
	}
	return &Ref[M]{cell: c, receive: receive, nilable: nilable(reflect.TypeFor[M]())}, nil
}

// nilable reports whether M has a nil that == can find. Funcs, maps and slices
// cannot be compared without reflection, which is too slow for every Send; a nil
// one of these is delivered.
func nilable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Chan, reflect.UnsafePointer:
		return true
	}
	return false
}

// Send puts message behind all that were sent before and reports whether it was
// accepted; false once the actor was told to stop or has failed. A nil message is a
// bug of the sender and panics here, where its stack tells whose, rather than in the actor.
func (r *Ref[M]) Send(message M) bool {
	r.notNil(message)
	if r.cell.inbox.enter() == 0 {
		return false
	}
	r.post(message)
	return true
}

// SendHere is Send, except that an idle actor handles the message on the goroutine
// of the caller, before SendHere returns: no other goroutine has to wake up. The
// caller must hold no lock that receive takes, and an actor that sends to another
// in this way adds to the stack. A panic in receive ends in the actor, as with
// Send; but runtime.Goexit in it ends the caller's goroutine, too.
func (r *Ref[M]) SendHere(message M) bool {
	r.notNil(message)
	c := r.cell
	switch c.inbox.enter() {
	case 0:
		return false
	case 1: // nothing waits that would be overtaken
		if c.turn.CompareAndSwap(0, 1) {
			c.here(func() { r.receive(message) })
			return true
		}
	}
	r.post(message)
	return true
}

// post puts a message that was let in into the mailbox.
func (r *Ref[M]) post(message M) { shared().Root.Send(r.cell.pid, letter[M]{message}) }

func (r *Ref[M]) notNil(message M) {
	var none M
	if r.nilable && any(message) == any(none) {
		panic("actor: bug: nil message sent to " + r.cell.name)
	}
}

// Stop refuses new messages, also when ctx has ended already, and waits until every accepted one was handled. It
// returns the cause of ctx when that ends first, and the failure of this actor with the number of messages that it
// lost if it failed. A nil ctx is a bug, and panics if Stop would have to wait.
func (r *Ref[M]) Stop(ctx context.Context) error {
	c := r.cell
	c.inbox.shut()
	if err := await(ctx, c.done); err != nil {
		return fmt.Errorf("actor: %q still draining %d messages: %w", c.name, c.inbox.inside(), err)
	}
	if c.failure != nil {
		return lossError(c.failure, c.lost)
	}
	return nil
}
