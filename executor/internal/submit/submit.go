// Package submit takes calls that enqueue into the journal, each with all that belongs into its commit.
//
// # The way of a call
//
//	fill      the entries, with what the codec and the functions of the queue return
//	prepare   the conditions, the keys that the entries lock, their weight
//	enter     the gates of the conditions, which may answer the call at once
//	reserve   room in the backlog; a call that waits for it does so outside the gates,
//	          because what the backlog waits for may be a handler that waits there
//	append    the keys are locked, then the journal gets the entries, with all that
//	          belongs into the same commit
//	await     the outcome: on disk, and taken in by its shard
//	receipt   what became of each payload
//
// The codec and the functions of the queue are asked by the executor, which makes the receipt, too.
// The first two call user code, and nothing is held meanwhile.
//
// # What is promised
//
//   - A call that is not accepted leaves nothing behind: what it has taken on its way goes back,
//     at once or when its outcome is known.
//   - A call with conditions is alone with the names that it has, from before it looks at the journal
//     until it knows what became of what it wrote. Two calls never wait for each other. What it says of
//     itself is in the commit of what it accepts.
//   - Of the keys at most one in sixteen has expired and is still there, as long as keyed calls come.
//   - A call without conditions passes no gate, and a queue pays only for what it has.
//
// Any goroutine may call the methods of a Door; a Submission belongs to one. Census: a goroutine
// for each call that ended before its outcome was known, until it is, if it has taken something.
package submit

import (
	"context"
	"errors"
	"fmt"

	"github.com/strandjobs/strand/executor/internal/await"
	"github.com/strandjobs/strand/executor/internal/backlog"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/fold"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/keylock"
	"github.com/strandjobs/strand/executor/internal/lane"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Engine is the executor, with what calls need besides.
type Engine struct {
	*engine.Engine
	Once  *Book
	Waits bool // calls wait for room in the backlog

	MaxPayload int                            // bytes of the largest payload
	Refuse     func(id string) error          // an id of another process; nil: there is none
	Exempt     func(ctx context.Context) bool // the caller is a handler: it need not wait for room

	// What makes the errors that callers know.
	Full, TooLarge func(*backlog.Full) error
	Stale          func(source string, offset, last int64) error
	Waiting        func(queue, id string, next journal.Position, due int64) error
}

// Door is where calls come into a queue.
type Door struct {
	*Engine
	To *engine.Queue

	Backlog    *backlog.Account
	Locks      *keylock.Condition // nil: it locks nothing
	Lanes      *lane.Condition    // nil: its ids are its own
	Folder     *fold.Folder       // nil: each payload stays what it is
	Awaited    await.Book         // payloads for whose end a caller waits
	Scores     journal.Floor      // of payloads that come without one
	Posts      bool               // calls return before the journal has them on disk
	Supersedes bool               // the payload with the highest score counts
}

// Submission is a call on its way.
type Submission struct {
	Entries []journal.Entry
	Earlier journal.Position // of the call that came with the key before; 0: none did
	Ticket  journal.Ticket

	to         *Door
	conditions *Conditions  // nil: there are none
	keys       [][]string   // what the entries lock; nil: nothing
	weight     shard.Weight // zero: there is no limit

	waiter *await.Waiter // for the end of the first entry; nil: none

	taken  bool             // it has its room
	locked *keylock.Coming  // nil: nothing is locked
	first  journal.Position // of the entries in lanes that queues share; 0: not yet
	stage  stage
}

// stage is how far a submission has come.
type stage uint8

const (
	outside  stage = iota // the journal does not have it
	underWay              // its outcome is not known
	accepted
)

// errNoRoom is returned when a call should wait for room.
var errNoRoom = errors.New("no room")

// Submit enqueues entries that have been filled in. A caller may wait for the end of the first of them.
func (d *Door) Submit(ctx context.Context, entries []journal.Entry, c *Conditions, w *await.Waiter) (o Submission, err error) {
	o = Submission{to: d, Entries: entries, conditions: c, waiter: w}
	if err := o.prepare(ctx); err != nil {
		return o, err
	}
	defer o.end()
	for err = o.try(ctx); err == errNoRoom; {
		if err = o.wait(ctx); err == nil {
			err = o.try(ctx)
		}
	}
	if err == nil && c != nil && c.Key != "" {
		d.Once.sweep()
	}
	return o, err
}

func (o *Submission) prepare(ctx context.Context) (err error) {
	d := o.to
	for i := range o.Entries {
		d.Mark(&o.Entries[i])
	}
	if o.keys, err = d.KeysOf(o.Entries); err != nil {
		return err
	}
	if !d.Folder.Admit(o.Entries, func() <-chan struct{} { return guard.Done(ctx) }) {
		return guard.Cause(ctx)
	}
	if d.Backlog.Limited() {
		for i := range o.Entries {
			o.weight = o.weight.Plus(shard.Announced(&o.Entries[i]))
		}
	}
	return nil
}

// Mark has the journal tell a score that the caller gave from one that is the time of
// acceptance, although they may be the same: see [shard.Scored].
func (d *Door) Mark(e *journal.Entry) {
	if d.Supersedes && e.Floor == nil && !shard.Scored(e) {
		e.Accepted += 2000 // two microseconds: it is kept to the microsecond
	}
}

// try does all that comes after prepare, except for a wait for room: then it returns errNoRoom.
func (o *Submission) try(ctx context.Context) error {
	if o.conditions != nil {
		defer o.leave() // user code may end the goroutine
		if err := o.enter(ctx); err != nil || o.Earlier != 0 {
			return err
		}
	}
	if w := o.waiter; w != nil && w.Begin != nil {
		if err := w.Begin(); err != nil {
			return err
		}
	}
	// Before anything is locked: what is in the backlog may wait for that key.
	if err := o.reserve(ctx); err != nil {
		return err
	}
	if err := o.append(ctx); err != nil || o.Posted() {
		return err
	}
	return o.await(ctx)
}

// reserve takes room in the backlog. The limits don't hold for handlers: what they
// have in hand could never end otherwise.
func (o *Submission) reserve(ctx context.Context) error {
	b := o.to.Backlog
	for !o.taken && o.weight != (shard.Weight{}) {
		if o.taken = b.Take(o.weight); o.taken {
			break
		}
		if o.to.Exempt(ctx) {
			b.Exceed(o.weight)
			o.taken = true
			break
		}
		if limit := b.TooLarge(o.weight); limit != nil {
			return o.to.TooLarge(limit)
		}
		if guard.Over(guard.Done(ctx)) {
			return guard.Cause(ctx)
		}
		if o.to.Waits && (o.conditions == nil || !o.conditions.AtOnce) {
			return errNoRoom
		}
		if full, err := b.Refuse(o.weight); full != nil {
			return o.to.Full(full)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// wait waits for the room that reserve has not found.
func (o *Submission) wait(ctx context.Context) error {
	over := guard.Done(ctx)
	w := o.to.Backlog.Wait(o.weight)
	select {
	case <-w.Ready:
		o.taken = w.Err == nil
		return w.Err
	case <-over:
	}
	full := w.Quit()
	if full == nil {
		return guard.Cause(ctx)
	}
	return fmt.Errorf("%w, while waiting for room: %w", guard.Cause(ctx), o.to.Full(full))
}

// Posted reports whether the call returns before the outcome is known. The answer
// to a condition is no use before it.
func (o *Submission) Posted() bool { return o.to.Posts && o.conditions == nil }

// append locks the keys and gives the entries to the journal.
func (o *Submission) append(ctx context.Context) error {
	locked, err := o.to.Lock(ctx, o.Entries, o.keys)
	if err != nil {
		return err
	}
	o.locked = locked
	if o.Posted() {
		if o.Ticket, err = o.to.Log.Post(ctx, o.Entries, o.sets()); err == nil {
			o.stage = accepted // it is not refused any more
		}
		return err
	}
	if o.Ticket, err = o.to.Log.Append(ctx, o.Entries, o.sets()); err == nil {
		o.stage = underWay
	}
	return err
}

// sets returns what belongs into the commit of the entries.
func (o *Submission) sets() func(first journal.Position) []journal.Set {
	c, locked, w, n := o.conditions, o.locked, o.waiter, len(o.Entries)
	if c == nil && locked == nil && w == nil && o.to.Lanes == nil {
		return nil
	}
	return func(first journal.Position) []journal.Set { // before it can run
		if o.to.Lanes != nil {
			o.first = first
			for i := range o.Entries {
				o.to.Lanes.Stand(string(o.Entries[i].ID), first+journal.Position(i))
			}
		}
		if w != nil {
			o.to.Awaited.Add(w, first)
		}
		if c == nil {
			return locked.Sets(first)
		}
		return append(c.sets(o.to.Once.Now(), first, n), locked.Sets(first)...)
	}
}

// await waits for the outcome, but not for a shard that has failed.
func (o *Submission) await(ctx context.Context) error {
	over := o.Ticket.Done()
	if !guard.Over(over) { // in memory it is, at once
		select {
		case <-over:
		case <-guard.Done(ctx):
		case <-o.to.Failed:
			if !guard.Over(over) {
				return fmt.Errorf("%w: %w", journal.ErrUnknown, o.to.Failure())
			}
		}
	}
	err := o.Ticket.Wait(ctx)
	switch {
	case err == nil:
		o.stage = accepted
	case !errors.Is(err, journal.ErrUnknown):
		o.stage = outside
	}
	return err
}

// end gives back what belongs to a submission that is not accepted: at once, or when that is known.
func (o *Submission) end() {
	switch {
	case o.stage == outside:
		o.withdraw()
	case o.stage == underWay && (o.conditions != nil || o.taken || o.locked != nil || o.first != 0):
		late := *o
		go late.learn() // the caller has gone; see the census
	}
}

// learn is end for a call that could not wait.
func (o *Submission) learn() {
	select {
	case <-o.Ticket.Done():
	case <-o.to.Stopped:
		return
	}
	o.stage = accepted // or it may be
	o.leave()
	if errors.Is(o.Ticket.Wait(context.Background()), journal.ErrFull) {
		o.withdraw()
	}
}

func (o *Submission) withdraw() {
	if o.taken {
		o.to.Backlog.GiveBack(o.weight)
	}
	o.locked.Withdraw()
	if o.first != 0 {
		for i := range o.Entries {
			o.to.Lanes.Remove(o.first + journal.Position(i))
		}
	}
}
