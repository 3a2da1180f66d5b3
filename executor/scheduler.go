package executor

import "time"

// Scheduler decides which shard gets the next free worker.
type Scheduler interface {
	// Pick returns the index in ready, which has one at least. It is called from
	// one goroutine at a time and must not block. If it panics, or the index is out
	// of range, [OldestFirst] decides. Shards of a queue that has as many jobs
	// running as its MaxConcurrent are not among them.
	Pick(ready []Candidate) int
}

// Candidate is a shard that has a job due.
type Candidate struct {
	Queue string
	Shard int // in its queue, from 0
	Index int // among all shards of the executor, in order of registration
	queue int // among all queues, in order of registration
	due   int64
	port  *port
}

// Due returns since when the oldest job of the shard has been due.
func (c Candidate) Due() time.Time { return time.Unix(0, c.due) }

// Fair returns the default scheduler. It gives queues that have jobs due equal shares
// of the workers' time, or shares by their Weight, and picks the oldest due job inside
// a queue. So a queue with little to do hardly waits for one with a large backlog: its
// next job gets the next free worker. A queue can't claim later what it did not use.
//
// Queues with a higher QueueConfig.Share.Priority go first, and the others get what
// these leave. Queues of equal priority share by weight.
func Fair() Scheduler { return fair{} }

type fair struct{}

// Pick compares what the queues have used up to now, which the dispatcher has
// brought up to date. (Start-time fair queueing: Goyal, Vin and Cheng, 1996.)
func (fair) Pick(ready []Candidate) int {
	best := 0
	for i, c := range ready {
		mine, its := &c.port.queue.share, &ready[best].port.queue.share
		if mine.tier != its.tier {
			if mine.tier.priority > its.tier.priority {
				best = i
			}
		} else if mine.used < its.used || mine.used == its.used && c.due < ready[best].due {
			best = i
		}
	}
	return best
}

// OldestFirst returns the scheduler that picks the shard with the oldest due job of all
// queues. No shard starves, because a job that waits only gets older. But a queue waits
// until the older backlog of another queue is done. It is the Lag of Lowkiq, and the
// default there. Here the default is [Fair], so a program that relies on it sets
// Config.Scheduler.
func OldestFirst() Scheduler { return oldestFirst{} }

type oldestFirst struct{}

func (oldestFirst) Pick(ready []Candidate) int {
	best := 0
	for i := range ready {
		if ready[i].due < ready[best].due {
			best = i
		}
	}
	return best
}

// RoundRobin returns a scheduler that gives each shard with a job due its turn, one
// after the other; so a queue with more shards gets more turns. It is the Seq of
// Lowkiq.
func RoundRobin() Scheduler { return &roundRobin{last: -1} }

type roundRobin struct{ last int }

func (s *roundRobin) Pick(ready []Candidate) int {
	next, lowest := -1, 0
	for i := range ready {
		if ready[i].Index < ready[lowest].Index {
			lowest = i
		}
		if ready[i].Index > s.last && (next < 0 || ready[i].Index < ready[next].Index) {
			next = i
		}
	}
	if next < 0 {
		next = lowest
	}
	s.last = ready[next].Index
	return next
}

// StrictPriority returns the scheduler that picks the queue that was registered first,
// and of its shards the one with the oldest due job: the order of registration is the
// priority. A queue waits as long as those before it have jobs that can run; blocked
// jobs don't count. It ignores QueueConfig.Share.Priority, which does the same under
// [Fair] with numbers that may be equal and can be changed.
func StrictPriority() Scheduler { return strictPriority{} }

type strictPriority struct{}

func (strictPriority) Pick(ready []Candidate) int {
	best := 0
	for i, c := range ready {
		b := ready[best]
		if c.queue < b.queue || (c.queue == b.queue && c.due < b.due) {
			best = i
		}
	}
	return best
}
