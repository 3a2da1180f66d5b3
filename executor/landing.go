package executor

import (
	"iter"

	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// How a follow-up comes into the commit of its job: the attempt keeps what is staged
// until the handler has returned (over); the worker takes the room on the disk, or else
// the success back (takeRoom), and hands what belongs to a success to the shard
// (stageAll); the recorder gets it with the end of the payload (land), and gives it to
// the journal with all that the end means. Nothing waits on this way, and nothing is
// undone on it.

// keyRoom is more than a key that a follow-up locks takes on the disk.
const keyRoom = 2 << 10

// takeRoom takes the room that follow-ups need on the disk. The success of a job that
// gets none is none.
func (w *worker) takeRoom(s *attempt.Stage) {
	w.staged, w.rooms = s, make([]int, len(w.batch))
	for i, it := range w.batch {
		all, bytes := s.Of(w.parent(it))
		if len(all) == 0 || w.failed(i) {
			continue
		}
		for _, f := range all {
			bytes += len(f.(*followUp).keys) * keyRoom
		}
		if w.x.log.TakeRoom(w.x.handlers.Done(), bytes) {
			w.rooms[i] = bytes
			continue
		}
		w.errs = append(w.errs, make([]error, len(w.batch)-len(w.errs))...)
		w.errs[i] = diskFull(journal.ErrFull)
	}
}

// parent is what the follow-ups of an item were staged on.
func (w *worker) parent(it *shard.Item) *shard.Item {
	if w.queue.core.Single {
		return nil
	}
	return it
}

func (w *worker) failed(i int) bool { return i < len(w.errs) && w.errs[i] != nil }

// stageAll hands the follow-ups of those in the batch that are done to the shard, and
// drops the others.
func (w *worker) stageAll() {
	s := w.staged
	w.staged = nil
	for i, room := range w.rooms {
		if room == 0 {
			continue
		}
		if w.failed(i) { // after it had its room
			w.x.log.GiveRoomBack(room)
			continue
		}
		all, _ := s.Of(w.parent(w.batch[i]))
		for _, f := range all {
			f.(*followUp).stamp()
		}
		w.batch[i].Stage(landing{all, room})
		w.followed = true
	}
}

// land adds what was staged to what is recorded, and reports whether any of it locks
// something, or stands in a lane that queues share.
func (x *Executor) land(c *shard.Change) (locks bool) {
	for _, staged := range c.Staged {
		c.FollowUps.Room += staged.(landing).room
	}
	for f := range followUps(c) {
		if b := f.queue.Backlog; b.Limited() {
			b.Exceed(shard.Announced(&f.entry))
		}
		c.FollowUps.Entries = append(c.FollowUps.Entries, f.entry)
		locks = locks || len(f.keys) > 0 || f.queue.Lanes != nil
	}
	return locks
}

// followUps lists those in a change, in the order of their positions.
func followUps(c *shard.Change) iter.Seq[*followUp] {
	return func(yield func(*followUp) bool) {
		for _, all := range c.Staged {
			for _, f := range all.(landing).list {
				if !yield(f.(*followUp)) {
					return
				}
			}
		}
	}
}

// lockFollowUps locks the keys of follow-ups, which get their positions as they are
// recorded: after the unlocks of their job, as those of a key may end all its locks. The
// ledger is held.
func (x *Executor) lockFollowUps(c *shard.Change) {
	if len(c.Staged) == 0 {
		return
	}
	p := x.keys.Coming()
	for f := range followUps(c) {
		p.Lock(f.queue.Locks, string(f.entry.ID), f.keys)
	}
	c.FollowUps.With = func(first journal.Position) []journal.Set {
		at := first
		for f := range followUps(c) {
			f.queue.Lanes.Stand(string(f.entry.ID), at)
			at++
		}
		return p.Sets(first)
	}
}

// recorder writes down what the shards of a queue decide.
type recorder struct{ queue *queue }

// Record implements [shard.Recorder].
func (r recorder) Record(c *shard.Change) {
	if q := r.queue; q.events.Watched() {
		tell := q.events.Decided(c)
		r.write(c)
		tell()
		return
	}
	r.write(c)
}

func (r recorder) write(c *shard.Change) {
	q := r.queue
	q.handOver(c)
	locks := len(c.Staged) > 0 && q.x.land(c)
	if q.Admission == nil && !locks {
		q.x.log.Record(&c.Change)
	} else {
		q.x.ledger.Settle(q.Admission, c, func() { q.x.lockFollowUps(c) })
		for f := range followUps(c) {
			f.queue.Reconsider(string(f.entry.ID), f.keys)
		}
	}
	q.Backlog.Settle(c.Over, c.Surplus)
	if q.Awaited.Any() {
		q.Awaited.Record(c, q.x.log.Recorded(&c.Change))
	}
	if len(c.Buried) > 0 {
		q.Dead.Buried()
	}
}
