package work

import (
	"iter"
	"math"

	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// How a follow-up comes into the commit of its job: the attempt keeps what is staged
// until the handler has returned (finish); the worker takes the room on the disk, or else
// the success back (takeRoom), and hands what belongs to a success to the shard
// (stageAll); the recorder gets it with the end of the payload (land), and gives it to
// the journal with all that the end means. Nothing waits on this way, and nothing is
// undone on it.

// FollowUp is a payload that was staged.
type FollowUp struct {
	Queue *Queue
	Entry journal.Entry
	Keys  []string // that it locks

	Elsewhere journal.Set // stands for it in the commit if its id is of another partition; no Key: it is not
}

// Unstamped stands for a time that is filled in later: no call can ask for it.
const Unstamped = math.MinInt64

// landing is what a job has staged, on its way to the recorder.
type landing struct {
	list []any // *FollowUp
	room int   // that was taken on the disk
}

// keyRoom is more than a key that a follow-up locks takes on the disk.
const keyRoom = 2 << 10

// staging brings the follow-ups of what is in hand into its commit.
type staging struct {
	*inHand
	staged   *attempt.Stage // by the last call of a handler; nil: nothing
	rooms    []int          // that its follow-ups have taken, by item of the batch
	followed bool           // the run has follow-ups
}

// takeRoom takes the room that follow-ups need on the disk. The success of a job that
// gets none is none.
func (g *staging) takeRoom(s *attempt.Stage) {
	g.staged, g.rooms = s, make([]int, len(g.batch))
	for i, it := range g.batch {
		all, bytes := s.Of(g.parent(it))
		if len(all) == 0 || g.failed(i) {
			continue
		}
		for _, f := range all {
			bytes += len(f.(*FollowUp).Keys) * keyRoom
		}
		if g.crew.Log.TakeRoom(g.crew.Handlers.Done(), journal.Room{Bytes: bytes}) {
			g.rooms[i] = bytes
			continue
		}
		g.undo(i, g.crew.Border(journal.ErrFull))
	}
}

// parent is what the follow-ups of an item were staged on.
func (g *staging) parent(it *shard.Item) *shard.Item {
	if g.queue.Core.Single {
		return nil
	}
	return it
}

// stageAll hands the follow-ups of those in the batch that are done to the shard, and
// drops the others.
func (g *staging) stageAll() {
	s := g.staged
	g.staged = nil
	for i, room := range g.rooms {
		if room == 0 {
			continue
		}
		if g.failed(i) { // after it had its room
			g.crew.Log.GiveRoomBack(room)
			continue
		}
		all, _ := s.Of(g.parent(g.batch[i]))
		for _, f := range all { // what was left open; what is accepted before it comes to the journal goes before it, see [journal.Floor]
			e, now := &f.(*FollowUp).Entry, g.crew.Now()
			if e.Accepted = now; e.Due == Unstamped {
				e.Due = now
			}
			if e.Floor != nil {
				e.Score = journal.ScoreOf(now)
			}
			f.(*FollowUp).Queue.Mark(e)
		}
		g.batch[i].Stage(landing{all, room})
		g.followed = true
	}
}

// land adds what was staged to what is recorded, and reports whether any of it locks
// something, or stands in a lane that queues share.
func land(c *shard.Change) (locks bool) {
	for _, staged := range c.Staged {
		c.Room += staged.(landing).room
		for _, f := range staged.(landing).list {
			if set := f.(*FollowUp).Elsewhere; set.Key != "" {
				c.Sets = append(c.Sets, set)
			}
		}
	}
	for f := range followUps(c) {
		if b := f.Queue.Backlog; b.Limited() {
			b.Exceed(shard.Announced(&f.Entry))
		}
		c.FollowUps.Entries = append(c.FollowUps.Entries, f.Entry)
		locks = locks || len(f.Keys) > 0 || f.Queue.Lanes != nil
	}
	return locks
}

// followUps lists those in a change that get a position here, in the order of these.
func followUps(c *shard.Change) iter.Seq[*FollowUp] {
	return func(yield func(*FollowUp) bool) {
		for _, all := range c.Staged {
			for _, f := range all.(landing).list {
				if f := f.(*FollowUp); f.Elsewhere.Key == "" && !yield(f) {
					return
				}
			}
		}
	}
}

// lockFollowUps locks the keys of follow-ups, which get their positions as they are
// recorded: after the unlocks of their job, as those of a key may end all its locks. The
// ledger is held.
func (q *Queue) lockFollowUps(c *shard.Change) {
	if len(c.Staged) == 0 {
		return
	}
	p := q.Keys.Coming()
	for f := range followUps(c) {
		p.Lock(f.Queue.Locks, string(f.Entry.ID), f.Keys)
	}
	c.FollowUps.With = func(first journal.Position) []journal.Set {
		at := first
		for f := range followUps(c) {
			f.Queue.Lanes.Stand(string(f.Entry.ID), at)
			at++
		}
		return p.Sets(first)
	}
}
