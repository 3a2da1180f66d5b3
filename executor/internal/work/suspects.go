package work

import (
	"slices"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/quarantine"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

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
	if s.GivenUp() {
		q.condemn(s, in, 0)
	}
	q.Crew.Quarantine.Admit(s)
}

// condemn gives a job up that has killed the process, as if it had failed for the
// last time, or lets it run where no crash counts any more. Room is what was taken for it of the
// disk: without enough it is held until there is some, or to the next start.
func (q *Queue) condemn(s *quarantine.Suspect, in *shard.Shard, room int) {
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
			if !q.Log.TakeRoom(nil, letters) {
				q.Log.GiveRoomBack(room)
				go q.condemnLater(s, s.Position, in, letters)
				return
			}
			room += letters.Bytes
		}
		c.Spend(room)
		if s.GivenUp() && c.Condemn(q.Crew.Now(), s.ID, s.Position, s.Reason(), claim) {
			at := uint64(s.Position)
			say := func() { q.Lines.Buried(s.ID, at, s.Reason()) }
			if attempt := c.Status(s.ID).Retry + admin.FirstAttempt; q.Core.OnExhausted == shard.OnExhaustedHalt {
				q.Events.Tell(events.Event{Kind: events.Halted, ID: s.ID, Position: at, Payloads: 1, Error: s.Reason()})
				say = func() { q.Lines.Halted(s.ID, attempt, s.Reason()) }
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
func (q *Queue) condemnLater(s *quarantine.Suspect, at journal.Position, in *shard.Shard, letters journal.Room) {
	for said := false; !q.Log.TakeRoom(q.Crew.Handlers.Done(), letters); said = true {
		if !said {
			q.Lines.Held(s.ID, uint64(at), s.Reason())
		}
	}
	if q.Crew.Handlers.Err() == nil {
		q.condemn(s, in, letters.Bytes)
	}
}

// Suspect is a payload that something speaks against.
func (q *Queue) Suspect(s journal.Suspicion, id string, at journal.Position) *quarantine.Suspect {
	one := &quarantine.Suspect{Suspicion: s, Owner: admit.Owner{Queue: q.Name, ID: id}, Position: at, Limit: q.Crew.Crashes}
	one.Clear = func() { q.Log.Record(&journal.Change{Sets: []journal.Set{journal.Cleared(one.Position)}}) }
	one.Release = func() { q.Shards.Of(id).Tell(func(c *shard.Core) { c.Let(id, shard.HoldSuspect) }) }
	return one
}
