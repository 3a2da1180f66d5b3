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

// Fair returns the scheduler that gives queues with jobs due equal shares of the
// workers' time, or such as their weights say, and picks the oldest due job inside
// a queue. So a queue with little to do hardly waits for one with a large backlog:
// its next job gets the next free worker. What a queue did not use it can't claim
// later.
//
// Queues with a higher QueueConfig.Priority go first: the others get what these leave.
// Shares are those of queues with the same priority.
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

// OldestFirst returns the scheduler that picks the shard with the oldest due job.
// No shard starves: a job that waits only gets older. But a queue waits until the
// backlog of another one that is older than its jobs is over. It is the Lag of Lowkiq,
// and the default there; here that is [Fair], so a program that relies on it sets
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

// RoundRobin returns a scheduler that goes round: each shard with a job due in
// turn, so that a queue with more shards gets more turns. It is the Seq of Lowkiq.
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

// StrictPriority returns the scheduler that picks the queue that was registered
// first, and of its shards the one with the oldest due job: the order of queues is
// their priority. A queue waits as long as those before it have jobs that can run;
// jobs that wait for a lock don't count. QueueConfig.Priority, under [Fair], does the
// same with numbers that can be equal and can be changed; here it is not asked.
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
