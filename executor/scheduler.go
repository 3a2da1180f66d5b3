package executor

import (
	"cmp"
	"time"

	"github.com/strandjobs/strand/executor/internal/dispatch"
	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/setting"
)

// Scheduler decides which shard gets the next free worker.
type Scheduler interface {
	// Pick returns the index in ready of one of these, not its Candidate.Index; there is one
	// at least. It is called from one goroutine at a time and must not block. If it panics, or
	// the index is out of range, [OldestFirst] decides. Shards of a queue that has as many jobs
	// running as its MaxConcurrent are not among them.
	Pick(ready []Candidate) int
}

// Candidate is a shard that has a job due.
type Candidate struct {
	Queue string
	Shard int // in its queue, from 0
	Index int // among all shards of the executor, in order of registration
	ready dispatch.Ready
}

// Due returns since when the oldest job of the shard has been due.
func (c Candidate) Due() time.Time { return time.Unix(0, c.ready.Due) }

// builtin is a scheduler of this package.
type builtin struct {
	dispatch.Policy
	fresh func() dispatch.Policy // another one for each executor: one Config may serve several
}

func newBuiltin(p func() dispatch.Policy) Scheduler { return &builtin{p(), p} }

// Pick serves a scheduler of the program's that makes use of this one. Of candidates that no
// executor has made it picks the first.
func (b *builtin) Pick(candidates []Candidate) int {
	ready := make([]dispatch.Ready, len(candidates))
	for i, c := range candidates {
		if ready[i] = c.ready; c.ready.Port == nil {
			return 0
		}
	}
	return b.Policy.Pick(ready)
}

// policyOf returns what the dispatcher asks. A scheduler of the program's sees a copy of
// what is ready, and may panic.
func policyOf(s Scheduler) dispatch.Policy {
	if b, ok := s.(*builtin); ok {
		return b.fresh()
	}
	return dispatch.Asked(func(ready []dispatch.Ready) int {
		candidates := each.Of(ready, func(r dispatch.Ready) Candidate { return Candidate{r.Queue.Name, r.Shard, r.Index, r} })
		picked := -1
		_ = guard.Call(func() error { picked = s.Pick(candidates); return nil })
		return picked
	})
}

// Fair returns the default scheduler. It gives queues that have jobs due equal shares
// of the workers' time, or shares by their Weight, and picks the oldest due job inside
// a queue. So a queue with little to do hardly waits for one with a large backlog: its
// next job gets the next free worker. A queue can't claim later what it did not use.
//
// Queues with a higher QueueConfig.Share.Priority go first, and the others get what
// these leave. Queues of equal priority share by weight.
func Fair() Scheduler { return newBuiltin(dispatch.Fair) }

// OldestFirst returns the scheduler that picks the shard with the oldest due job of all
// queues. No shard starves, because a job that waits only gets older. But a queue waits
// until the older backlog of another queue is done. It is the Lag of Lowkiq, and the
// default there. Here the default is [Fair], so a program that relies on it sets
// Config.Scheduler.
func OldestFirst() Scheduler { return newBuiltin(dispatch.OldestFirst) }

// RoundRobin returns a scheduler that gives each shard with a job due its turn, one
// after the other; so a queue with more shards gets more turns. It is the Seq of
// Lowkiq.
func RoundRobin() Scheduler { return newBuiltin(dispatch.RoundRobin) }

// RegistrationOrder returns the scheduler that picks the queue that was registered first,
// and of its shards the one with the oldest due job: the order of registration is the
// priority. A queue waits as long as those before it have jobs that can run; blocked
// jobs don't count. It does not ask QueueConfig.Share.Priority, which does the same under
// [Fair] with numbers that may be equal and can be changed.
func RegistrationOrder() Scheduler { return newBuiltin(dispatch.RegistrationOrder) }

// QueueTuning is what can be changed of a queue while it runs. Its fields are those
// of [QueueConfig] and its [Share], with the same defaults and bounds.
type QueueTuning struct {
	Weight        int // default 1
	MaxConcurrent int // default, and below zero: no limit but the workers
	Priority      int // default 0
}

// check names the fields as those of a group, with its dot, or as its own.
func (t QueueTuning) check(group string) error {
	return cmp.Or(
		setting.NotAbove("MaxConcurrent", t.MaxConcurrent, 1<<17),
		setting.InRange(group+"Weight", t.Weight, 0, 1<<16),
		setting.InRange(group+"Priority", t.Priority, -1<<16, 1<<16),
	)
}
