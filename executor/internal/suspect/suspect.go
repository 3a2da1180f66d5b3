// Package suspect brings what may have killed the last process from the journal into the quarantine: a
// suspect is admitted, condemned, or waits for room on the disk. Who waits for a turn, and who is next,
// says package quarantine, which knows no queue.
//
// # What is promised
//
//   - Of each id there is one suspect, what most speaks against. What takes its place is one from then on.
//   - What is condemned ends as if it had failed for the last time, in a commit that has its room on the
//     disk. Until there is room its id is held.
//   - What speaks against a payload is in the journal until its end is.
//
// Find and Hold are for the goroutine that opens the queue, Follow for a shard that records a change.
// Census: a goroutine for each line about a burial, and for each suspect that waits for room.
package suspect

import (
	"slices"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/quarantine"
	"github.com/strandjobs/strand/executor/internal/tell"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Queue is a queue of which some jobs may be suspects.
type Queue struct {
	*engine.Engine
	*engine.Queue
	Events *tell.Source

	Again int // jobs that ran at the death, and run again at once
}

// Find finds the suspects among the pending entries of a queue: of each id the
// payload that most speaks against, for which the id waits. It sets Again.
func (q *Queue) Find(pending [][]journal.Ref) (found []*quarantine.Suspect, err error) {
	death, suspicions := q.Log.Crash()
	if len(suspicions) == 0 && death == nil {
		return nil, nil
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
				return nil, err
			}
			id := string(e.ID)
			if atOnce {
				ran = append(ran, id)
			}
			switch i := slices.IndexFunc(found, func(s *quarantine.Suspect) bool { return s.ID == id }); {
			case !ok:
			case i < 0:
				found = append(found, q.New(suspicion, id, e.Position))
			case suspicion.Exceeds(found[i].Suspicion):
				found[i] = q.New(suspicion, id, e.Position)
			}
		}
	}
	q.Again = len(slices.DeleteFunc(ran, func(id string) bool {
		return slices.ContainsFunc(found, func(s *quarantine.Suspect) bool { return s.ID == id && (s.Held() || s.GivenUp()) })
	}))
	return found, nil
}

// Hold parks the ids of suspects in the cores of shards that have not started, and finds out what has
// taken their places meanwhile.
func (q *Queue) Hold(suspects []*quarantine.Suspect, cores []*shard.Core) {
	for _, s := range suspects {
		core := cores[q.Shards.Index([]byte(s.ID))]
		if s.Position = core.Successor(s.Position, s.Set); s.Held() || s.GivenUp() {
			core.Hold(s.ID, shard.HoldSuspect)
		}
	}
}

// Admit hands a suspect over to the quarantine, or gives it up. Its id is parked in
// its shard if it is held or given up.
func (q *Queue) Admit(s *quarantine.Suspect) {
	if s.GivenUp() {
		q.condemn(s, 0)
	}
	q.Quarantine.Admit(s)
}

// Follow has what speaks against payloads in a change speak against those that take their place. It
// is called before the change is recorded.
func (q *Queue) Follow(c *shard.Change) {
	for id, at := range c.Heirs { // before what has taken their place in turn
		s := q.New(journal.Suspicion{Deaths: max(q.Crashes, 1), Odds: quarantine.Inherited}, id, at)
		c.Sets = append(c.Sets, s.Set(at)) // for a start that finds it before it is condemned
		if s.GivenUp() {
			q.Quarantine.Admit(s)
		}
		q.condemn(s, 0)
	}
	for _, m := range c.Merged {
		if !m.Over {
			c.Sets = append(c.Sets, q.Quarantine.Inherit(q.Name, m.Position, m.Into)...)
		}
	}
}

// condemn gives a job up that has killed the process, as if it had failed for the
// last time, or lets it run where no crash counts any more. Room is what was taken for it of the
// disk: without enough it is held until there is some, or to the next start.
func (q *Queue) condemn(s *quarantine.Suspect, room int) {
	in := q.Shards.Of(s.ID)
	var claim shard.Held // that of a job that ends without a worker
	if q.Admission != nil {
		claim = q.Admission.Claim(s.ID, nil)
	}
	in.Tell(func(c *shard.Core) {
		if s.Over.Load() { // a person has ended it meanwhile
			q.Log.GiveRoomBack(room)
			return
		}
		var letters journal.Room
		if s.GivenUp() {
			letters = c.Letters(s.ID, &shard.Removal{Reason: s.Reason()})
		}
		if letters.Bytes > room {
			if !q.Log.TryRoom(letters) {
				q.Log.GiveRoomBack(room)
				go q.condemnLater(s, s.Position, letters)
				return
			}
			room += letters.Bytes
		}
		c.Spend(room)
		if s.GivenUp() && c.Condemn(q.Now(), s.ID, s.Position, s.Reason(), claim) {
			at := uint64(s.Position)
			say := func() { q.Lines.Buried(s.ID, at, s.Reason()) }
			if status := c.Status(s.ID); status.Halted {
				q.Events.Tell(events.Event{Kind: events.Halted, ID: s.ID, Position: at, Payloads: 1, Error: s.Reason()})
				say = func() { q.Lines.Halted(s.ID, status.Retry+admin.FirstAttempt, s.Reason()) }
			}
			if !s.Heir() { // it has not run
				go say() // a logger is user code
			}
		}
		s.Over.Store(true)
		c.Let(s.ID, shard.HoldSuspect)           // at once: what comes next may be an heir, and is held
		in.Tell(func(*shard.Core) { s.Clear() }) // not before: the sentence has to be in the log by then
	})
}

// condemnLater waits for room. The suspect is at a position as it begins: meanwhile it is its
// shard that moves it, to what takes its place.
func (q *Queue) condemnLater(s *quarantine.Suspect, at journal.Position, letters journal.Room) {
	for said := false; !q.Log.TakeRoom(q.Handlers.Done(), letters); said = true {
		if !said {
			q.Lines.Held(s.ID, uint64(at), s.Reason())
		}
	}
	if q.Handlers.Err() == nil {
		q.condemn(s, letters.Bytes)
	}
}

// New returns a payload that something speaks against.
func (q *Queue) New(s journal.Suspicion, id string, at journal.Position) *quarantine.Suspect {
	one := &quarantine.Suspect{Suspicion: s, Owner: admit.Owner{Queue: q.Name, ID: id}, Position: at, Limit: q.Crashes}
	one.Clear = func() { q.Log.Record(&journal.Change{Sets: []journal.Set{journal.Cleared(one.Position)}}) }
	one.Release = func() { q.Shards.Of(id).Tell(func(c *shard.Core) { c.Let(id, shard.HoldSuspect) }) }
	return one
}
