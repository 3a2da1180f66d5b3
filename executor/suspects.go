package executor

import (
	"slices"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/internal/quarantine"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// suspects finds the suspects among the pending entries of a queue: of each id the
// payload that most speaks against, for which the id waits. It counts those that
// ran at the death and are not kept from running again.
func (q *queue) suspects(pending [][]journal.Ref) (found []*quarantine.Suspect, err error) {
	death, suspicions := q.x.log.Crash()
	if len(suspicions) == 0 && death == nil {
		return nil, nil
	}
	var ran []string
	var e journal.Entry
	for _, page := range pending {
		for _, ref := range page {
			suspicion, ok := suspicions[ref.Position()]
			again := death.WasRunning(ref.Position())
			if !ok && !again {
				continue
			}
			if err := ref.Read(&e); err != nil {
				return nil, err
			}
			id := string(e.ID)
			if again {
				ran = append(ran, id)
			}
			if !ok {
				continue
			}
			s := q.suspect(suspicion, id, e.Position)
			if i := slices.IndexFunc(found, func(s *quarantine.Suspect) bool { return s.ID == id }); i < 0 {
				found = append(found, s)
			} else if suspicion.Exceeds(found[i].Suspicion) {
				found[i] = s
			}
		}
	}
	q.again = len(slices.DeleteFunc(ran, func(id string) bool {
		return slices.ContainsFunc(found, func(s *quarantine.Suspect) bool { return s.ID == id && (s.Held() || s.GivenUp()) })
	}))
	return found, nil
}

func (q *queue) suspect(s journal.Suspicion, id string, at journal.Position) *quarantine.Suspect {
	return &quarantine.Suspect{Suspicion: s, Queue: q.name, ID: id, Name: holder{Queue: q.name, ID: id}.String(), Position: at, Limit: q.x.cfg.Crash.Limit}
}

// admit hands a suspect over to the quarantine, or gives it up. Its id is parked in
// its shard if it is held or given up.
func (q *queue) admit(s *quarantine.Suspect, in *shard.Shard) {
	s.Release = func() { in.Tell(func(c *shard.Core) { c.Let(s.ID, shard.HoldSuspect) }) }
	s.Clear = func() { q.x.log.Record(&journal.Change{Sets: []journal.Set{journal.Cleared(s.Position)}}) }
	if s.GivenUp() {
		q.condemn(s, in)
	}
	q.x.quarantine.Admit(s)
}

// condemn gives a job up that has killed the process, as if it had failed for the
// last time.
func (q *queue) condemn(s *quarantine.Suspect, in *shard.Shard) {
	claim := q.claimOfNone(s.ID)
	in.Tell(func(c *shard.Core) {
		if c.Condemn(q.x.clock().UnixNano(), s.ID, s.Position, s.Reason(), claim) && q.core.OnExhausted == shard.OnExhaustedHalt {
			q.events.Tell(events.Event{Kind: events.Halted, ID: s.ID, Position: uint64(s.Position), Payloads: 1, Error: s.Reason()})
		}
	})
	// Not before: the sentence has to be in the log by then.
	in.Tell(func(c *shard.Core) { s.Clear(); c.Let(s.ID, shard.HoldSuspect) })
}

// logIfGivenUp is for callers that hold no lock.
func (q *queue) logIfGivenUp(s *quarantine.Suspect) {
	switch {
	case !s.GivenUp():
	case q.core.OnExhausted == shard.OnExhaustedHalt:
		q.logHalt(s.ID, s.Deaths, s.Reason())
	default:
		q.logBurial(s.ID, s.Position, s.Reason())
	}
}
