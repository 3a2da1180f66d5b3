package work

import (
	"iter"
	"math"
	"slices"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/quarantine"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// How a follow-up comes into the commit of its job: the attempt keeps what is staged
// until the handler has returned (over); the worker takes the room on the disk, or else
// the success back (takeRoom), and hands what belongs to a success to the shard
// (stageAll); the recorder gets it with the end of the payload (land), and gives it to
// the journal with all that the end means. Nothing waits on this way, and nothing is
// undone on it.

// FollowUp is a payload that was staged.
type FollowUp struct {
	Queue *Queue
	Entry journal.Entry
	Keys  []string // that it locks
}

// Unstamped stands for a time that is filled in later: no call can ask for it.
const Unstamped = math.MinInt64

// stamp fills in what was left open. What is accepted before it comes to the journal
// goes before it: see [journal.Floor].
func (f *FollowUp) stamp(now int64) {
	e := &f.Entry
	e.Accepted = now
	if e.Due == Unstamped {
		e.Due = now
	}
	if e.Floor != nil {
		e.Score = journal.ScoreOf(now)
	}
	f.Queue.Mark(e)
}

// landing is what a job has staged, on its way to the recorder.
type landing struct {
	list []any // *FollowUp
	room int   // that was taken on the disk
}

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
			bytes += len(f.(*FollowUp).Keys) * keyRoom
		}
		if w.crew.Log.TakeRoom(w.crew.Handlers.Done(), bytes) {
			w.rooms[i] = bytes
			continue
		}
		w.errs = append(w.errs, make([]error, len(w.batch)-len(w.errs))...)
		w.errs[i] = w.crew.Border(journal.ErrFull)
	}
}

// parent is what the follow-ups of an item were staged on.
func (w *worker) parent(it *shard.Item) *shard.Item {
	if w.queue.Core.Single {
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
			w.crew.Log.GiveRoomBack(room)
			continue
		}
		all, _ := s.Of(w.parent(w.batch[i]))
		for _, f := range all {
			f.(*FollowUp).stamp(w.crew.Now())
		}
		w.batch[i].Stage(landing{all, room})
		w.followed = true
	}
}

// land adds what was staged to what is recorded, and reports whether any of it locks
// something, or stands in a lane that queues share.
func land(c *shard.Change) (locks bool) {
	for _, staged := range c.Staged {
		c.FollowUps.Room += staged.(landing).room
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

// followUps lists those in a change, in the order of their positions.
func followUps(c *shard.Change) iter.Seq[*FollowUp] {
	return func(yield func(*FollowUp) bool) {
		for _, all := range c.Staged {
			for _, f := range all.(landing).list {
				if !yield(f.(*FollowUp)) {
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

// Record writes down what the shards of the queue decide. It implements [shard.Recorder].
func (q *Queue) Record(c *shard.Change) {
	if q.Events.Watched() {
		defer q.Events.Decided(c)()
	}
	q.write(c)
}

func (q *Queue) write(c *shard.Change) {
	q.handOver(c)
	locks := len(c.Staged) > 0 && land(c)
	if q.Admission == nil && !locks {
		q.Log.Record(&c.Change)
	} else {
		q.Ledger.Settle(q.Admission, c, func() { q.lockFollowUps(c) })
		for f := range followUps(c) {
			f.Queue.Reconsider(string(f.Entry.ID), f.Keys)
		}
	}
	q.Backlog.Settle(c.Over, c.Surplus)
	if q.Awaited.Any() {
		q.Awaited.Record(c, q.Log.Recorded(&c.Change))
	}
	if len(c.Buried) > 0 {
		q.Dead.Buried()
	}
}

// convicted are odds at which a suspect is guilty beyond doubt.
const convicted = 1e9

// Suspects finds the suspects among the pending entries of a queue: of each id the
// payload that most speaks against, for which the id waits. It counts those that
// ran at the death and are not kept from running again.
func (q *Queue) Suspects(pending [][]journal.Ref) (found []*quarantine.Suspect, again int, err error) {
	death, suspicions := q.Log.Crash()
	if len(suspicions) == 0 && death == nil {
		return nil, 0, nil
	}
	var ran []string
	var e journal.Entry
	for _, page := range pending {
		for _, ref := range page {
			suspicion, ok := suspicions[ref.Position()]
			atOnce := death.WasRunning(ref.Position())
			if !ok && !atOnce {
				continue
			}
			if err := ref.Read(&e); err != nil {
				return nil, 0, err
			}
			id := string(e.ID)
			if atOnce {
				ran = append(ran, id)
			}
			if !ok {
				continue
			}
			s := q.Suspect(suspicion, id, e.Position)
			if i := slices.IndexFunc(found, func(s *quarantine.Suspect) bool { return s.ID == id }); i < 0 {
				found = append(found, s)
			} else if suspicion.Exceeds(found[i].Suspicion) {
				found[i] = s
			}
		}
	}
	again = len(slices.DeleteFunc(ran, func(id string) bool {
		return slices.ContainsFunc(found, func(s *quarantine.Suspect) bool { return s.ID == id && (s.Held() || s.GivenUp()) })
	}))
	return found, again, nil
}

// Admit hands a suspect over to the quarantine, or gives it up. Its id is parked in
// its shard if it is held or given up.
func (q *Queue) Admit(s *quarantine.Suspect, in *shard.Shard) {
	s.Release = func() { in.Tell(func(c *shard.Core) { c.Let(s.ID, shard.HoldSuspect) }) }
	if s.GivenUp() {
		q.condemn(s, in)
	}
	q.Crew.Quarantine.Admit(s)
}

// condemn gives a job up that has killed the process, as if it had failed for the
// last time, or lets it run where no crash counts any more.
func (q *Queue) condemn(s *quarantine.Suspect, in *shard.Shard) {
	var claim shard.Held // that of a job that ends without a worker
	if q.Admission != nil {
		claim = q.Admission.Claim(s.ID, nil)
	}
	in.Tell(func(c *shard.Core) {
		if s.GivenUp() && c.Condemn(q.Crew.Now(), s.ID, s.Position, s.Reason(), claim) && q.Core.OnExhausted == shard.OnExhaustedHalt {
			q.Events.Tell(events.Event{Kind: events.Halted, ID: s.ID, Position: uint64(s.Position), Payloads: 1, Error: s.Reason()})
		}
	})
	// Not before: the sentence has to be in the log by then.
	in.Tell(func(c *shard.Core) { s.Clear(); c.Let(s.ID, shard.HoldSuspect) })
}

// handOver has what speaks against payloads speak against those that take their place.
func (q *Queue) handOver(c *shard.Change) {
	for _, m := range c.Merged {
		if !m.Over {
			c.Sets = append(c.Sets, q.Crew.Quarantine.Inherit(q.Name, m.Position, m.Into)...)
		}
	}
	for id, at := range c.Heirs {
		s := q.Suspect(journal.Suspicion{Deaths: max(q.Crew.Crashes, 1), Odds: convicted}, id, at)
		s.Heir = true
		q.condemn(s, q.Shards.Of(id))
		c.Sets = append(c.Sets, s.Set(at)) // for a start that finds it before that is recorded
	}
}

// Suspect is a payload that something speaks against.
func (q *Queue) Suspect(s journal.Suspicion, id string, at journal.Position) *quarantine.Suspect {
	one := &quarantine.Suspect{Suspicion: s, Queue: q.Name, ID: id, Name: admit.Owner{Queue: q.Name, ID: id}.String(), Position: at, Limit: q.Crew.Crashes}
	one.Clear = func() { q.Log.Record(&journal.Change{Sets: []journal.Set{journal.Cleared(one.Position)}}) }
	return one
}
