// Package work runs jobs: it has the workers, which call handlers, turn what these return into
// outcomes, and give the jobs back to their shards, and it writes down what the shards decide.
//
// # What is needed
//
// A [Crew] is filled in when its executor opens, and a [Queue] before the queue is registered;
// after that neither changes. What makes a job out of an item, and calls the handler, is the executor's.
//
// # What is promised
//
//   - What a worker has taken in hand has an outcome when it comes back to its shard, also when
//     user code panics, or ends the goroutine: then another one goes on where that was.
//   - The worker of a handler that is stuck is replaced while there is a spare one, and leaves
//     when its handler has returned after all.
//   - What the handler has staged, and what its error asks for, is as packages followup and verdict
//     say; what becomes of the jobs that may have killed a process, as package suspect does.
//
// # Concurrency and cost
//
// A worker is a goroutine; what it is about is its own, but for what its hand guards. User code
// runs under no lock. A job of a queue without conditions, follow-ups, events and suspects pays
// one look at each of these.
package work

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/actor"
	"github.com/strandjobs/strand/executor/internal/dead"
	"github.com/strandjobs/strand/executor/internal/dispatch"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/quarantine"
	"github.com/strandjobs/strand/executor/internal/submit"
	"github.com/strandjobs/strand/executor/internal/suspect"
	"github.com/strandjobs/strand/executor/internal/tell"
	"github.com/strandjobs/strand/executor/internal/verdict"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Queue is a registered queue.
type Queue struct {
	engine.Queue
	submit.Door
	verdict.Rules
	Crew     *Crew
	Events   tell.Source // what is told of it
	Suspects suspect.Queue

	DeadAge   time.Duration // how long dead letters are kept; 0 and below: without end
	DeadCount int           // how many; 0 and below: any number

	Far int64 // entries that Open has found to be due in more than 50 years

	// Call runs the handler for started items and returns an error for each. It is not guarded.
	Call func(ctx context.Context, items []*shard.Item) []error
	// Exhausted tells the user's hook; nil when there is none. Not guarded.
	Exhausted func(ctx context.Context, items []*shard.Item)
}

// hasTime reports whether the watchdog has to look at the handlers of the queue.
func (q *Queue) hasTime() bool { return q.Timeout > 0 || q.Heartbeat > 0 }

// Open makes the shards of the queue, each with its part of the pending entries. Nothing can be
// delivered to them before: no caller has the queue yet. They are paused until the queue is known,
// so that no pause misses them. Those that are suspected are held; Admit is to follow.
func (q *Queue) Open(first int, actors *actor.System, wall func() time.Time) (suspects []*quarantine.Suspect, err error) {
	q.Shards.First = uint32(first)
	pending := q.Log.PendingPages(q.Number)
	q.Suspects = suspect.Queue{Engine: q.Crew.Engine, Queue: q.To, Events: &q.Events}
	if suspects, err = q.Suspects.Find(pending); err != nil {
		return nil, err
	}
	cores := make([]*shard.Core, q.Shards.N)
	for i := range cores {
		cores[i] = shard.NewCore(q.Number, q.Core)
		cores[i].Tick(q.Crew.Now())
	}
	q.Dead = dead.New(dead.Config{
		Log: q.Log, Logger: q.Crew.Logger, Name: q.Name, Number: q.Number, Shards: q.Shards, Now: q.Crew.Now,
		Supersedes: q.Supersedes, Lanes: q.Lanes, Ledger: q.Ledger, Keys: q.Keys, Age: q.DeadAge, Count: q.DeadCount,
	})
	err = cmp.Or(q.Crew.Pauses.Load(&q.Pauses, cores), q.Dead.Load(cores))
	if err == nil {
		err = q.load(pending, cores) // which stands in lanes of other queues, too
	}
	if err != nil {
		return nil, err
	}
	q.Suspects.Hold(suspects, cores)
	return suspects, q.start(first, cores, actors, wall)
}

// start starts the shards of the queue.
func (q *Queue) start(first int, cores []*shard.Core, actors *actor.System, wall func() time.Time) error {
	for i, core := range cores {
		name := fmt.Sprintf("%s/%d", q.Name, i)
		s, err := shard.New(actors, name, core, q, &dispatch.Port{Queue: q.Share, Shard: i, Index: first + i}, wall)
		if err != nil {
			return fmt.Errorf("executor: shard %s: %w", name, err)
		}
		q.Shards.All = append(q.Shards.All, s)
	}
	q.Shards.Tell(func(*shard.Core) {}) // not before: to record what the start has decided may take another of them
	return nil
}

// absurdDelay is further ahead than any job is planned: when one is due later,
// either the clock was wrong when it was accepted, or it is wrong now.
const absurdDelay = 50 * 365 * 24 * time.Hour

// load gives the cores of the shards what is pending, and lets go of it.
func (q *Queue) load(pending [][]journal.Ref, cores []*shard.Core) error {
	absurd := q.Crew.Now() + int64(absurdDelay)
	var far atomic.Int64
	weight, err := shard.LoadAll(cores, pending, q.Shards.Index, func(entries []journal.Entry) {
		newest := 0.0
		for i := range entries {
			e := &entries[i]
			if e.Due > absurd {
				far.Add(1)
			}
			if e.Kind == journal.KindEnqueued {
				if q.Lanes != nil {
					q.Lanes.Stand(string(e.ID), e.Position)
				}
				newest = max(newest, defaultScore(e))
			}
		}
		q.Log.Raise(&q.Scores, newest)
	})
	if err != nil {
		return err
	}
	q.Far = far.Load()
	q.Backlog.Exceed(weight)
	return nil
}

// A payload without a score of its own gets it in two steps: the time of the call, and with its position
// what keeps it behind all that was accepted before ([journal.Floor]). The floor is the queue's own: what
// is wrong in one queue moves nothing in another. It begins with what the queue has found waiting.

// defaultScore returns the score of a payload that waits, if it is one of ours, or else 0. The journal does
// not say whose it is. Ours is that of a payload which was accepted without At, In and Score. Otherwise,
// what has a fraction and is within the times that a clock can show is taken for ours: what callers give is
// mostly a whole number, or thousands of times as large. A mistake means that payloads which are accepted
// later, without a score, come after the one that they would have been ahead of: in the order in which they
// were accepted.
func defaultScore(e *journal.Entry) float64 {
	if s := e.Score; s == journal.ScoreOf(e.Due) || s != math.Trunc(s) && s < journal.ScoreOf(math.MaxInt64) {
		return s
	}
	return 0
}
