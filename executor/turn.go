package executor

import (
	"fmt"
	"slices"
)

// TurnReason says why no worker comes to a job that is ready.
type TurnReason string

// Reasons for which a job that is ready waits, the first that is so.
const (
	TurnNotStarted    TurnReason = "not started"    // before Executor.Start there are no workers
	TurnMaxConcurrent TurnReason = "max concurrent" // its queue runs as many as QueueConfig.MaxConcurrent says
	TurnConcurrency   TurnReason = "concurrency"    // its shard runs as many as QueueConfig.Concurrency says
	TurnPriority      TurnReason = "priority"       // all workers are busy, and under [Fair] queues of a higher priority come first
	TurnWeight        TurnReason = "weight"         // all workers are busy, and under [Fair] queues that have had less of their share come first
	TurnWorkers       TurnReason = "workers"        // all workers are busy
)

// Turn says why no worker comes to a job that is ready.
type Turn struct {
	Reason TurnReason

	// Running is how many are at work of Of that may be: workers for the queue, jobs of
	// the shard, or all workers. More may be at work than may be, after Tune.
	Running, Of int

	// Before are the queues with a job due to which workers come first, by name:
	// MaxListed at most. Of TurnPriority and TurnWeight only.
	Before []string
	More   int // queues that are not in Before
}

// String is a part of a line, as that of [Explanation].
func (t Turn) String() string {
	busy := fmt.Sprintf("all %d workers are busy", t.Of)
	before := func() string { return some(t.Before, t.More, brief) }
	switch t.Reason {
	case TurnNotStarted:
		return "the executor has not started"
	case TurnMaxConcurrent:
		return fmt.Sprintf("the queue runs %d of %d", t.Running, t.Of)
	case TurnConcurrency:
		return fmt.Sprintf("its shard runs %d of %d", t.Running, t.Of)
	case TurnPriority:
		return busy + ", and queues of a higher priority come first: " + before()
	case TurnWeight:
		return busy + ", and queues that have had less of their share come first: " + before()
	}
	return busy
}

// turn says why no worker comes to a shard of a queue with a job due, which runs so many
// of as many as it may; nil: one is about to come.
func (d *dispatcher) turn(q *queue, runs, most int) *Turn {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &q.share
	switch {
	case d.closed || d.held:
		return nil
	case d.total == 0:
		return &Turn{Reason: TurnNotStarted}
	case s.full():
		return &Turn{Reason: TurnMaxConcurrent, Running: s.running, Of: s.limit}
	case runs >= most && most < d.total: // by default it is all of them
		return &Turn{Reason: TurnConcurrency, Running: runs, Of: most}
	case len(d.idle) > 0:
		return nil
	}
	t := &Turn{Reason: TurnWorkers, Running: d.total, Of: d.total}
	if !d.fair {
		return t
	}
	now := d.now()
	s.count(now)
	d.countUp(now)
	var higher, lower []string
	for _, c := range d.ready {
		switch its := &c.port.queue.share; {
		case its.tier.priority > s.tier.priority:
			higher = append(higher, c.port.queue.name)
		case its.tier == s.tier && its.used < s.used:
			lower = append(lower, c.port.queue.name)
		}
	}
	switch {
	case len(higher) > 0:
		t.Reason, t.Before = TurnPriority, higher
	case len(lower) > 0:
		t.Reason, t.Before = TurnWeight, lower
	}
	slices.Sort(t.Before)
	t.Before = slices.Compact(t.Before) // there is one for each shard
	t.More = max(len(t.Before)-MaxListed, 0)
	t.Before = t.Before[:len(t.Before)-t.More]
	return t
}
