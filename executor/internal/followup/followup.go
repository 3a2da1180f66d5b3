// Package followup brings what a handler stages on its job into the commit of that job's success: a
// follow-up is there, or nowhere. A job without follow-ups does not come here.
//
//	attempt  keeps what is staged until the handler has returned
//	worker   takes the room on the disk ([Take]), or else the success back. What belongs to a success it
//	         hands on to the shard ([Landing.HandOn]); what does not gives its room back
//	recorder gets it with the end of the payload, adds it to what is recorded ([Land]), and has its keys
//	         locked at its position ([Lock])
//
// Nothing waits on this way but for room, and nothing is undone on it. Only Complete calls user
// code: it computes keys, on the goroutine of the handler. Census (goroutines, timers): none.
package followup

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"math"

	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/keylock"
	"github.com/strandjobs/strand/executor/internal/submit"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// FollowUp is a payload that was staged.
type FollowUp struct {
	Queue *submit.Door
	Entry journal.Entry
	Keys  []string // that it locks

	Elsewhere journal.Set // stands for it in the commit if its id is of another partition; no Key: it is not
}

// Unstamped stands for a time that is filled in later: no call can ask for it.
const Unstamped = math.MinInt64

// May returns why a queue of an executor can't have follow-ups of the job that an attempt is about.
func May(q *submit.Door, of *attempt.Attempt, executor any) (err error) {
	switch {
	case of == nil:
		err = fmt.Errorf("%w: no follow-up for queue %q: the job was not made by an executor", submit.ErrState, q.To.Name)
	case of.Executor() != executor:
		err = fmt.Errorf("%w: no follow-up for queue %q: it is of another executor than the job, and they have no commit in common", submit.ErrState, q.To.Name)
	case q.Locks != nil && q.Locks.Service != nil && q.Locks.OnEnqueue != nil:
		err = fmt.Errorf("%w: no follow-up for queue %q: its Locks.OnEnqueue is kept by a Service, which has no part in a commit; use Enqueue", submit.ErrState, q.To.Name)
	}
	return err
}

// Complete gives a payload that has been filled in what it inherits from its job, and the keys that it locks.
func (f *FollowUp) Complete(options []submit.Option, inherited, own map[string]string) error {
	if condition := submit.Condition(options); condition != "" {
		return fmt.Errorf("%w: no follow-up with %s: what is in the commit of its job is there once, and takes no condition", submit.ErrState, condition)
	}
	if len(inherited) > 0 && (own == nil || len(own) > 0) { // own is nil unless the call has some, or asks for none
		all := maps.Clone(inherited)
		maps.Copy(all, own)
		if err := submit.SetMetadata(&f.Entry, all); err != nil {
			return fmt.Errorf("%w, together with what it inherits from its job; Metadata without pairs inherits none", err)
		}
	}
	f.Entry.Payload = bytes.Clone(f.Entry.Payload) // the codec may use it again
	keys, err := f.Queue.KeysOf([]journal.Entry{f.Entry})
	if keys != nil {
		f.Keys = keys[0]
	}
	return err
}

// Stage stages the payload on a job of an attempt, in the call that the handler is in.
func (f *FollowUp) Stage(on *attempt.Attempt, job *shard.Item, call int) error {
	size := shard.Announced(&f.Entry).Bytes
	switch err := on.Stage(job, call, f, size); err {
	case attempt.ErrTooMany:
		return fmt.Errorf("%w: a job may have %d follow-ups", submit.ErrTooLarge, attempt.MaxCount)
	case attempt.ErrTooLarge:
		return fmt.Errorf("%w: %d bytes for id %q: the follow-ups of a job may have %d together", submit.ErrTooLarge, size, f.Entry.ID, attempt.MaxBytes)
	default:
		return err
	}
}

// Landing is what a job has staged, on its way to the recorder.
type Landing struct {
	Room int   // that was taken on the disk; 0: it has staged nothing
	list []any // *FollowUp
}

// keyRoom is more than a key that a follow-up locks takes on the disk.
const keyRoom = 2 << 10

// Take takes the room on the disk for what a job has staged; false: there is none.
func Take(e *engine.Engine, s *attempt.Stage, job *shard.Item) (l Landing, ok bool) {
	list, bytes := s.Of(job)
	if len(list) == 0 {
		return l, true
	}
	for _, f := range list {
		bytes += len(f.(*FollowUp).Keys) * keyRoom
	}
	if e.Log.TakeRoom(e.Handlers.Done(), journal.Room{Bytes: bytes}) {
		return Landing{bytes, list}, true
	}
	return l, false
}

// HandOn fills in what was left open, and gives it to the shard with the item that is its job. What is
// accepted before it comes to the journal goes before it, see [journal.Floor].
func (l Landing) HandOn(it *shard.Item, clock func() int64) {
	for _, f := range l.list {
		e, now := &f.(*FollowUp).Entry, clock()
		if e.Accepted = now; e.Due == Unstamped {
			e.Due = now
		}
		if e.Floor != nil {
			e.Score = journal.ScoreOf(now)
		}
		f.(*FollowUp).Queue.Mark(e)
	}
	it.Stage(l)
}

// Land adds what was staged to what is recorded, and reports whether any of it locks
// something, or stands in a lane that queues share.
func Land(c *shard.Change) (locks bool) {
	for _, staged := range c.Staged {
		c.Room += staged.(Landing).Room
		for _, f := range staged.(Landing).list {
			f := f.(*FollowUp)
			if f.Elsewhere.Key != "" {
				c.Sets = append(c.Sets, f.Elsewhere)
				continue
			}
			if b := f.Queue.Backlog; b.Limited() {
				b.Exceed(shard.Announced(&f.Entry))
			}
			c.FollowUps = append(c.FollowUps, f.Entry)
			locks = locks || len(f.Keys) > 0 || f.Queue.Lanes != nil
		}
	}
	return locks
}

// here lists those in a change that get a position here, in the order of these.
func here(c *shard.Change) iter.Seq[*FollowUp] {
	return func(yield func(*FollowUp) bool) {
		for _, staged := range c.Staged {
			for _, f := range staged.(Landing).list {
				if f := f.(*FollowUp); f.Elsewhere.Key == "" && !yield(f) {
					return
				}
			}
		}
	}
}

// Lock locks the keys of follow-ups, which get their positions as they are recorded: after the
// unlocks of their job, as those of a key may end all its locks. The ledger is held.
func Lock(c *shard.Change, keys *keylock.Keys) {
	if len(c.Staged) == 0 {
		return
	}
	p := keys.Coming()
	for f := range here(c) {
		p.Lock(f.Queue.Locks, string(f.Entry.ID), f.Keys)
	}
	c.With = func(first journal.Position) []journal.Set {
		at := first
		for f := range here(c) {
			f.Queue.Lanes.Stand(string(f.Entry.ID), at)
			at++
		}
		return p.Sets(first)
	}
}

// Locked has jobs that wait ask again when what was locked closes a circle. The ledger is free.
func Locked(c *shard.Change) {
	for f := range here(c) {
		f.Queue.Reconsider(string(f.Entry.ID), f.Keys)
	}
}
