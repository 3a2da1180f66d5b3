package executor

import (
	"cmp"
	"fmt"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/lane"
	"github.com/strandjobs/strand/executor/internal/work"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// admission has the conditions of a queue, in the order in which a job meets them: what others
// wait for while it waits comes late. A slot is on disk before what follows is asked for: a limit
// before it would be held while the disk writes.
func (t *Queue[T]) admission() (*admit.List, error) {
	q, c := t.q, &t.cfg.Conditions
	a := &admit.List{Queue: q.Name, Ledger: q.x.ledger, Graph: &q.x.graph, Decode: t.inHand, Shards: q.Shards, Clock: q.stamp}
	if err := cmp.Or(addLanes(q, a), addLocks(q, &c.Locks, a), addUnique(q, c.Unique, a), addSlots(q, c.Slots, a), addLimits(q, c.Limits, a)); err != nil {
		return nil, fmt.Errorf("queue %q: %w", q.Name, err)
	}
	if a.Empty() {
		return nil, nil
	}
	return a, nil
}

// inHand decodes what a worker has in hand. Payloads that do not decode ask for nothing.
func (t *Queue[T]) inHand(it *shard.Item) (all []admit.Payload, err error) {
	for i, p := range t.q.Core.InHand(it) {
		var e journal.Entry
		if err := p.Ref.Read(&e); err != nil {
			return nil, &work.Unread{Err: err}
		}
		if it.Folded != nil {
			if i > 0 {
				break // they became one
			}
			e.Payload = it.Folded
		}
		if value, err := t.decodeOne(e.Payload); err == nil {
			all = append(all, admit.Payload{Position: uint64(e.Position), Raw: e.Payload, Value: value})
		}
	}
	return all, nil
}

// checkPayload computes what a payload locks when it is accepted, and all that it will
// want before it runs: the caller hears of a bad key. The payload is decoded although
// Enqueue has the value: a key of what does not survive the codec (an int in an any, a
// field that is not encoded, the monotonic part of a time) would never be unlocked,
// because Unlock is computed from what the journal gives back, after a restart at any
// rate.
func (t *Queue[T]) checkPayload(id string, payload []byte) (keys []string, err error) {
	k := t.q.Locks
	value, err := t.decodeOne(payload)
	if err != nil && (k == nil || k.OnEnqueue == nil) {
		return nil, nil // the morgue says so
	}
	if err != nil {
		return nil, fmt.Errorf("the keys to lock: %w", err)
	}
	if k != nil {
		if keys, err = k.KeysOnEnqueue(id, value); err != nil {
			return nil, err
		}
	}
	return keys, t.q.Admission.CheckAll(id, value)
}

// How queues share the order of their ids: a payload takes its place in its lane in
// the instant in which it gets its position, and a job that a worker comes to enters
// its lane or is parked until what comes before it has ended.

// addLanes adds the turn in lanes that queues share. joinLanes says which.
func addLanes(q *queue, a *admit.List) error {
	if q.sharedLanes == "" {
		return nil
	}
	if !q.Core.Single {
		return fmt.Errorf("%w: Conditions.SharedLanes is %q for a handler that gets several payloads at once, which would overtake those of other queues; use Handle",
			ErrConfig, q.sharedLanes)
	}
	q.Lanes = new(lane.Condition)
	a.Ask(q.Lanes)
	return nil
}
