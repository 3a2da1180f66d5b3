package executor

import (
	"context"
	"errors"
	"fmt"

	"github.com/strandjobs/strand/executor/internal/await"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/keylock"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// submission is a call to Enqueue on its way into the journal, in this order:
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
// The first two call user code, and nothing is held meanwhile. What a call has
// taken on its way goes back when it turns out that it is not accepted.
type submission struct {
	q          *queue
	entries    []journal.Entry
	conditions *conditions  // nil: there are none
	keys       [][]string   // what the entries lock; nil: nothing
	weight     shard.Weight // zero: there is no limit

	waiter *await.Waiter // for the end of the first entry; nil: none

	earlier journal.Position // of the call that came with the key before; 0: none did
	taken   bool             // it has its room
	locked  *keylock.Coming  // nil: nothing is locked
	first   journal.Position // of the entries in lanes that queues share; 0: not yet
	ticket  journal.Ticket
	stage   stage
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

// submit enqueues entries that have been filled in, inside all middlewares. A caller
// may wait for the end of the first of them.
func (q *queue) submit(ctx context.Context, entries []journal.Entry, options []Option, w *await.Waiter) (o submission, err error) {
	o = submission{q: q, entries: entries, waiter: w}
	if err := o.prepare(ctx, options); err != nil {
		return o, err
	}
	defer o.end()
	for err = o.try(ctx); err == errNoRoom; {
		if err = o.wait(ctx); err == nil {
			err = o.try(ctx)
		}
	}
	if err != nil {
		return o, border(err)
	}
	if c := o.conditions; c != nil && c.Key != "" {
		q.x.once.Sweep()
	}
	return o, nil
}

func (o *submission) prepare(ctx context.Context, options []Option) (err error) {
	q := o.q
	if o.conditions, err = q.collect(options); err != nil {
		return err
	}
	if err := o.demandAbsence(); err != nil {
		return err
	}
	if err := q.x.admits(ctx); err != nil {
		return err
	}
	for i := range o.entries {
		q.markScore(&o.entries[i])
	}
	if o.keys, err = q.keysOnEnqueue(o.entries); err != nil {
		return err
	}
	if !q.folder.Admit(o.entries, func() <-chan struct{} { return guard.Done(ctx) }) {
		return guard.Cause(ctx)
	}
	if q.backlog.Limited() {
		for i := range o.entries {
			o.weight = o.weight.Plus(shard.Announced(&o.entries[i]))
		}
	}
	return nil
}

// try does all that comes after prepare, except for a wait for room: then it
// returns errNoRoom.
func (o *submission) try(ctx context.Context) error {
	if o.conditions != nil {
		defer o.leave()
		if err := o.enter(ctx); err != nil || o.earlier != 0 {
			return err
		}
	}
	// Before anything is locked: what is in the backlog may wait for that key.
	if err := o.reserve(ctx); err != nil {
		return err
	}
	if err := o.append(ctx); err != nil || o.posted() {
		return err
	}
	return o.await(ctx)
}

// reserve takes room in the backlog. The limits don't hold for handlers: what they
// have in hand could never end otherwise.
func (o *submission) reserve(ctx context.Context) error {
	b := o.q.backlog
	for !o.taken && o.weight != (shard.Weight{}) {
		if o.taken = b.Take(o.weight); o.taken {
			break
		}
		if o.q.x.owns(ctx) {
			b.Exceed(o.weight)
			o.taken = true
			break
		}
		if err := o.hopeless(ctx); err != nil {
			return err
		}
		if o.q.x.cfg.Overflow == OverflowWait {
			return errNoRoom
		}
		if full, err := b.Refuse(o.weight); full != nil {
			return noRoom(full)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// hopeless returns why a call need not wait for room.
func (o *submission) hopeless(ctx context.Context) error {
	if limit := o.q.backlog.TooLarge(o.weight); limit != nil {
		return tooLarge(limit)
	}
	select {
	case <-guard.Done(ctx):
		return guard.Cause(ctx)
	default:
		return nil
	}
}

// wait waits for the room that reserve has not found.
func (o *submission) wait(ctx context.Context) error {
	over := guard.Done(ctx)
	w := o.q.backlog.Wait(o.weight)
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
	return fmt.Errorf("%w, while waiting for room: %w", guard.Cause(ctx), noRoom(full))
}

// posted reports whether the call returns before the outcome is known. The answer
// to a condition is no use before it.
func (o *submission) posted() bool { return o.q.durability == DurabilityAsync && o.conditions == nil }

// append locks the keys and gives the entries to the journal.
func (o *submission) append(ctx context.Context) error {
	locked, err := o.q.lockOnEnqueue(ctx, o.entries, o.keys)
	if err != nil {
		return err
	}
	o.locked = locked
	if o.posted() {
		if o.ticket, err = o.q.x.log.Post(ctx, o.entries, o.sets()); err == nil {
			o.stage = accepted // it is not refused any more
		}
		return err
	}
	if o.ticket, err = o.q.x.log.Append(ctx, o.entries, o.sets()); err == nil {
		o.stage = underWay
	}
	return err
}

// sets returns what belongs into the commit of the entries.
func (o *submission) sets() func(first journal.Position) []journal.Set {
	c, locked, w, n := o.conditions, o.locked, o.waiter, len(o.entries)
	if c == nil && locked == nil && w == nil && o.q.lanes == nil {
		return nil
	}
	return func(first journal.Position) []journal.Set { // before it can run
		o.standInLanes(first)
		if w != nil {
			o.q.awaited.Add(w, first)
		}
		if c == nil {
			return locked.Sets(first)
		}
		return append(c.Sets(first, n), locked.Sets(first)...)
	}
}

// await waits for the outcome, but not for a shard that has failed.
func (o *submission) await(ctx context.Context) error {
	select {
	case <-o.ticket.Done():
	case <-guard.Done(ctx):
	case <-o.q.x.failed:
		select {
		case <-o.ticket.Done():
		default:
			return fmt.Errorf("%w: %w", journal.ErrUnknown, o.q.x.Err())
		}
	}
	err := o.ticket.Wait(ctx)
	switch {
	case err == nil:
		o.stage = accepted
	case !errors.Is(err, journal.ErrUnknown):
		o.stage = outside
	}
	return err
}

// end gives back what belongs to a submission that is not accepted: at once, or when
// that is known.
func (o *submission) end() {
	switch {
	case o.stage == outside:
		o.withdraw()
	case o.stage == underWay && (o.taken || o.locked != nil || o.first != 0):
		late := *o
		go late.learn() // the caller has gone; see the census
	}
}

// learn is end for a call that could not wait.
func (o *submission) learn() {
	select {
	case <-o.ticket.Done():
	case <-o.q.x.stopped:
		return
	}
	if errors.Is(o.ticket.Wait(context.Background()), journal.ErrFull) {
		o.withdraw()
	}
}

func (o *submission) withdraw() {
	if o.taken {
		o.q.backlog.GiveBack(o.weight)
	}
	o.locked.Withdraw()
	o.leaveLanes()
}

// standInLanes gives the entries their places, before a shard hears of any.
func (o *submission) standInLanes(first journal.Position) {
	if o.q.lanes == nil {
		return
	}
	o.first = first
	for i := range o.entries {
		o.q.lanes.Add(string(o.entries[i].ID), first+journal.Position(i), o.q.Number)
	}
}

// leaveLanes takes the places of a call back that was refused.
func (o *submission) leaveLanes() {
	if o.first == 0 {
		return
	}
	for i := range o.entries {
		o.q.lanes.Remove(o.first + journal.Position(i))
	}
}
