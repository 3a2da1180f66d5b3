package executor

import (
	"context"
	"fmt"
	"slices"

	"github.com/strandjobs/strand/executor/internal/keylock"
	"github.com/strandjobs/strand/journal"
)

// keysOnEnqueue computes what each of the entries locks; nil: nothing. It returns
// an error, too, for a bad key that is wanted only before the run.
func (q *queue) keysOnEnqueue(entries []journal.Entry) (keys [][]string, err error) {
	if q.keys == nil && !q.Admission.Checked() {
		return nil, nil
	}
	if q.keys != nil && q.keys.OnEnqueue != nil {
		keys = make([][]string, len(entries))
	}
	for i := range entries {
		e := &entries[i]
		locked, err := q.checkPayload(string(e.ID), e.Payload)
		if err != nil {
			return nil, fmt.Errorf("item %d: queue %q, id %q: %w", i, q.Name, e.ID, err)
		}
		if keys != nil {
			keys[i] = locked
		}
	}
	return keys, nil
}

// lockOnEnqueue locks the keys of entries.
func (q *queue) lockOnEnqueue(ctx context.Context, entries []journal.Entry, keys [][]string) (p *keylock.Coming, err error) {
	if keys == nil {
		return nil, nil
	}
	p = q.x.keys.Coming()
	if q.keys.Service != nil {
		return p, p.Serve(ctx, q.keys, slices.Concat(keys...))
	}
	q.x.ledger.Do(nil, func() {
		for i := range entries {
			p.Lock(q.keys, string(entries[i].ID), keys[i])
		}
	})
	for i := range entries {
		q.reconsider(string(entries[i].ID), keys[i])
	}
	return p, nil
}

// reconsider has a job that waits ask again when keys that it has locked meanwhile close
// a circle: then it hears of that.
func (q *queue) reconsider(id string, keys []string) {
	if len(keys) > 0 && q.x.graph.Closed(holder{Queue: q.Name, ID: id}) != nil {
		q.Admission.Wake(id)
	}
}
