package executor

import (
	"fmt"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/lane"
	"github.com/strandjobs/strand/journal"
)

// How queues share the order of their ids: a payload takes its place in its lane in
// the instant in which it gets its position, and a job that a worker comes to enters
// its lane or is parked until what comes before it has ended.

// addLanes adds the turn in lanes that queues share. joinLanes says which.
func addLanes(q *queue, a *admit.List) error {
	if q.sharedLanes == "" {
		return nil
	}
	if !q.core.Single {
		return fmt.Errorf("%w: Conditions.SharedLanes is %q for a handler that gets several payloads at once, which would overtake those of other queues; use Handle",
			ErrConfig, q.sharedLanes)
	}
	q.lanes = new(lane.Condition)
	a.Ask(q.lanes)
	return nil
}

// joinLanes finds the lanes that the queue shares. Once jobs run, some might run that
// should have come after those of the queue.
func (q *queue) joinLanes() error {
	if q.sharedLanes == "" {
		return nil
	}
	x := q.x
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state != opened {
		return fmt.Errorf("%w: queue %q shares the lanes %q, so it must be registered before Start", ErrState, q.name, q.sharedLanes)
	}
	lanes := x.lanes[q.sharedLanes]
	if lanes == nil {
		lanes = new(lane.Lanes)
		x.lanes[q.sharedLanes] = lanes
	}
	lanes.Join(q.number, q.name)
	q.lanes.Lanes, q.lanes.Number = lanes, q.number
	return nil
}

// standInLanes gives what the journal has for the queue its places.
func (q *queue) standInLanes(entries []journal.Entry) {
	if q.lanes == nil {
		return
	}
	for i := range entries {
		if e := &entries[i]; e.Kind == journal.KindEnqueued {
			q.lanes.Add(string(e.ID), e.Position, q.number)
		}
	}
}
