package executor

import (
	"fmt"
	"sync/atomic"

	"github.com/strandjobs/strand/executor/internal/lane"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// How queues share the order of their ids: a payload takes its place in its lane in
// the instant in which it gets its position, and a job that a worker comes to enters
// its lane or is parked until what comes before it has ended.

// mayShareLanes checks the setting, and has the jobs go through enter.
func (s *settings) mayShareLanes(single bool, l *locking) error {
	if s.sharedLanes == "" {
		return nil
	}
	if !single {
		return fmt.Errorf("%w: SharedLanes is %q for a handler that gets several payloads at once, which would overtake those of other queues; use Handle",
			ErrConfig, s.sharedLanes)
	}
	if l.wants == nil {
		l.wants = func(*shard.Item) (wants, error) { return wants{}, nil }
	}
	return nil
}

// joinLanes finds the lanes that the queue shares. Once jobs run, some might run that
// should have come after those of the queue.
func (q *queue) joinLanes() error {
	if q.order = q.name; q.sharedLanes == "" {
		return nil
	}
	q.order = fmt.Sprintf("lanes %q", q.sharedLanes)
	x := q.x
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state != opened {
		return fmt.Errorf("%w: queue %q shares the lanes %q, so it must be registered before Start", ErrState, q.name, q.sharedLanes)
	}
	if q.lanes = x.lanes[q.sharedLanes]; q.lanes == nil {
		q.lanes = new(lane.Lanes)
		x.lanes[q.sharedLanes] = q.lanes
	}
	return nil
}

// standInLanes gives what the journal has for the queue its places.
func (q *queue) standInLanes(entries []journal.Entry) {
	if q.lanes == nil {
		return
	}
	for i := range entries {
		if e := &entries[i]; e.Kind == journal.KindEnqueued {
			q.lanes.Add(string(e.ID), uint64(e.Position), q.number)
		}
	}
}

// standInLanes gives the entries their places, before a shard hears of any.
func (o *submission) standInLanes(first journal.Position) {
	if o.q.lanes == nil {
		return
	}
	o.first = first
	for i := range o.entries {
		o.q.lanes.Add(string(o.entries[i].ID), uint64(first)+uint64(i), o.q.number)
	}
}

// standInLanes is the same for follow-ups.
func standInLanes(c *shard.Change, first journal.Position) {
	for f := range followUps(c) {
		if f.queue.lanes != nil {
			f.queue.lanes.Add(string(f.entry.ID), uint64(first), f.queue.number)
		}
		first++
	}
}

// leaveLanes takes the places of a call back that was refused.
func (o *submission) leaveLanes() {
	if o.first == 0 {
		return
	}
	for i := range o.entries {
		o.q.lanes.Remove(uint64(o.first) + uint64(i))
	}
}

// leaveLanes takes what has ended out of its lane. Its end is on record by now, so
// that what comes next can't be before it on disk.
func (q *queue) leaveLanes(c *journal.Change) {
	if q.lanes == nil {
		return
	}
	positions := make([]uint64, 0, len(c.Ended)+len(c.Buried))
	for _, r := range c.Ended {
		positions = append(positions, uint64(r.Position()))
	}
	for i := range c.Buried {
		positions = append(positions, uint64(c.Buried[i].Ref.Position()))
	}
	q.lanes.Remove(positions...)
}

// comeBack gives payloads their old places, before their shards hear of them.
func (q *queue) comeBack(positions []journal.Position, ids []string) {
	if q.lanes == nil {
		return
	}
	for i, p := range positions {
		q.lanes.ComeBack(ids[i], uint64(p), q.number)
	}
}

// areBack says that the shards have heard of payloads. Until then what their queue has
// beside them must not run in their turn.
func (q *queue) areBack(positions []journal.Position) {
	if q.lanes == nil {
		return
	}
	for _, p := range positions {
		q.lanes.Back(uint64(p))
	}
}

// stayAway undoes comeBack for what is not back. If another call has brought it back
// meanwhile, it gets its place when a worker comes to it.
func (q *queue) stayAway(positions []journal.Position) {
	if q.lanes == nil {
		return
	}
	for _, p := range positions {
		q.lanes.Remove(uint64(p))
	}
}

// awaitTurn enters the lane of a job; woken: another one comes before it.
func (w *worker) awaitTurn(it *shard.Item, c *claim) (woken *atomic.Bool) {
	lanes := w.queue.lanes
	if lanes == nil {
		return nil
	}
	woken, wake := w.waker(it)
	if c.inTurn = lanes.Enter(it.ID, uint64(it.Current().Ref.Position()), w.queue.number, wake); c.inTurn {
		return nil
	}
	return woken
}

// behind names the job that comes before one that waits for its turn, and says how many
// payloads of other queues do; "": none does.
func (q *queue) behind(id string) (job string, ahead int) {
	if q.lanes == nil {
		return "", 0
	}
	number, ahead, ok := q.lanes.First(id, q.number)
	if !ok || number == q.number {
		return "", 0
	}
	q.x.mu.Lock()
	defer q.x.mu.Unlock()
	for _, other := range q.x.queues {
		if other.number == number {
			return holder{Queue: other.name, ID: id}.String(), ahead
		}
	}
	return "", 0
}
