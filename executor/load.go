package executor

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/internal/quarantine"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// absurdDelay is further ahead than any job is planned: when one is due later,
// either the clock was wrong when it was accepted, or it is wrong now.
const absurdDelay = 50 * 365 * 24 * time.Hour

// convicted are odds at which a suspect is guilty beyond doubt.
const convicted = 1e9

// load gives the cores of the shards what is pending, and lets go of it.
func (q *queue) load(pending [][]journal.Ref, cores []*shard.Core) error {
	absurd := q.x.clock().Add(absurdDelay).UnixNano()
	var far atomic.Int64
	weight, err := shard.LoadAll(cores, pending, q.Shards.Index, func(entries []journal.Entry) {
		q.standInLanes(entries)
		newest := 0.0
		for i := range entries {
			e := &entries[i]
			if e.Due > absurd {
				far.Add(1)
			}
			if e.Kind == journal.KindEnqueued {
				newest = max(newest, defaultScore(e))
			}
		}
		q.x.log.Raise(&q.scores, newest)
	})
	if err != nil {
		return err
	}
	q.far = far.Load()
	q.Backlog.Exceed(weight)
	return nil
}

// standInLanes gives what the journal has for the queue its places.
func (q *queue) standInLanes(entries []journal.Entry) {
	if q.Lanes == nil {
		return
	}
	for i := range entries {
		if e := &entries[i]; e.Kind == journal.KindEnqueued {
			q.Lanes.Add(string(e.ID), e.Position, q.Number)
		}
	}
}

// A payload without a score of its own gets it in two steps: the time of the call
// (stamp), and with its position what keeps it behind all that was accepted before
// ([journal.Floor]). The floor is the queue's own: what is wrong in one queue moves
// nothing in another. It begins with what the queue has found waiting.

// defaultScore returns the score of a payload that waits, if it is one of ours, or
// else 0. The journal does not say whose it is. Ours is that of a payload which was
// accepted without At, In and Score. Otherwise, what has a fraction and is within
// the times that a clock can show is taken for ours: what callers give is mostly a
// whole number, or thousands of times as large. A mistake means that payloads which
// are accepted later, without a score, come after the one that they would have been
// ahead of: in the order in which they were accepted.
func defaultScore(e *journal.Entry) float64 {
	if s := e.Score; s == journal.ScoreOf(e.Due) || s != math.Trunc(s) && s < journal.ScoreOf(math.MaxInt64) {
		return s
	}
	return 0
}

// stamp is the time of a call, in Unix nanoseconds. Payloads for which it says nothing
// itself are due then, and have it for a score.
func (q *queue) stamp() int64 { return q.x.clock().UnixNano() }

// takeOver gives the queue what the journal has under its former names. arranging
// is held, and the queue is not registered.
func (q *queue) takeOver() error {
	for _, former := range q.renamedFrom {
		entries, dead, known := q.x.leftOver(former)
		own, ownDead, _ := q.x.leftOver(q.Name)
		if err := q.x.mayRegister(former); err != nil {
			if entries+dead == 0 {
				continue
			}
			return fmt.Errorf("RenamedFrom of queue %q: %w", q.Name, err)
		}
		if entries+dead > 0 && own+ownDead > 0 && !q.Supersedes { // there the newest counts, wherever it was
			return fmt.Errorf("%w: queue %q has %d payloads and %d dead ones in the journal, and so has its former name %q: %d and %d; register both until one of them has none",
				ErrConfig, q.Name, own, ownDead, former, entries, dead)
		}
		if known { // with no payload left there is still what has run of each id
			if err := q.x.log.Rename(context.Background(), former, q.Name); err != nil {
				return border(err)
			}
		}
		if err := q.inherit(former); err != nil { // again, if the last process has died before it had done so
			return err
		}
	}
	return nil
}

// inherit takes over what jobs hold under a former name, keys and slots, and what is
// paused.
func (q *queue) inherit(former string) error {
	q.x.keys.Rename(former, q.Name)
	for _, s := range q.Slots {
		s.Rename(former, q.Name)
	}
	return border(q.x.pauses.Rename(former, q.Name))
}

// leftOver returns how many payloads the journal had for a name that is not
// registered yet, and how many dead ones; known: it has the name.
func (x *Executor) leftOver(name string) (entries, dead int, known bool) {
	number, known := x.log.Queues()[name]
	if !known {
		return 0, 0, false
	}
	return x.log.Unclaimed()[number], x.log.Buried(number), true
}

// unclaimed names the queues that have jobs and are not registered.
func (x *Executor) unclaimed() error {
	counts := x.log.Unclaimed()
	var names []string
	for name, number := range x.log.Queues() {
		if n := counts[number]; n > 0 {
			names = append(names, fmt.Sprintf("%q (%d payloads)", name, n))
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("%w: the journal has jobs of queues that are not registered: %s; register them, name them in RenamedFrom of the queue that takes over, or leave Strict off",
		ErrConfig, strings.Join(names, ", "))
}

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

// admit hands a suspect over to the quarantine, or gives it up. Its id is parked in
// its shard if it is held or given up.
func (q *queue) admit(s *quarantine.Suspect, in *shard.Shard) {
	s.Release = func() { in.Tell(func(c *shard.Core) { c.Let(s.ID, shard.HoldSuspect) }) }
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

// handOver has what speaks against payloads speak against those that take their place.
func (q *queue) handOver(c *shard.Change) {
	for _, m := range c.Merged {
		if !m.Over {
			c.Sets = append(c.Sets, q.x.quarantine.Inherit(q.Name, m.Position, m.Into)...)
		}
	}
	for id, at := range c.Heirs {
		s := q.suspect(journal.Suspicion{Deaths: q.x.cfg.Crash.Limit, Odds: convicted}, id, at)
		s.Heir = true
		q.condemn(s, q.Shards.Of(id))
		c.Sets = append(c.Sets, s.Set(at)) // for a start that finds it before that is recorded
	}
}

func (q *queue) suspect(s journal.Suspicion, id string, at journal.Position) *quarantine.Suspect {
	one := &quarantine.Suspect{Suspicion: s, Queue: q.Name, ID: id, Name: holder{Queue: q.Name, ID: id}.String(), Position: at, Limit: q.x.cfg.Crash.Limit}
	one.Clear = func() { q.x.log.Record(&journal.Change{Sets: []journal.Set{journal.Cleared(one.Position)}}) }
	return one
}
