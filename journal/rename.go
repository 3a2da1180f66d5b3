package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/strandjobs/strand/journal/internal/format"
)

// Rename moves what the queue named from has, its live entries and its morgue, to the
// name to, and waits until that is on disk. What to has already stays, and all of it is
// in position order. It returns an error for a name that is empty, too long, or unknown
// in the case of from, ErrFailed, ErrClosed, ErrContext, or the cause of ctx. On a full
// disk it takes some of the room that is kept for results: the queue's jobs make room
// when they run.
//
// Call it at a start, before PendingPages was called for either name. A new name writes as
// little as a result does; so does a known one if one of the two queues has no payload, dead or
// alive: they change places if need be. Otherwise what the queue has is written again, some at
// a time. A crash in between leaves the rest where it was, for the next call.
func (q *queues) Rename(ctx context.Context, from, to string) error {
	if to == "" || len(to) > format.MaxQueueName {
		return fmt.Errorf("%w, not %d", format.ErrQueueName, len(to))
	}
	if err := cause(ctx); err != nil {
		return err
	}
	q.h.mu.Lock()
	if err := q.h.refusal(); err != nil && !errors.Is(err, ErrFull) {
		q.h.mu.Unlock()
		return err
	}
	number, known := q.numbers[from]
	if !known {
		q.h.mu.Unlock()
		return fmt.Errorf("%w: there is no queue %q", format.ErrQueueName, from)
	}
	if from == to {
		q.h.mu.Unlock()
		return nil
	}
	// Numbers stay dense: one is never given up.
	other, both := q.numbers[to]
	switch payloads := q.pending.Counts(); {
	case !both:
		delete(q.numbers, from)
		q.h.open.changes = append(q.h.open.changes, format.Edit{Bucket: format.BucketQueues, Key: []byte(from)})
	case payloads[number]+q.h.dead[number] == 0 || payloads[other]+q.h.dead[other] > 0:
		q.h.mu.Unlock()
		return q.join(context.WithoutCancel(ctx), number, other)
	default:
		q.numbers[from] = other
		q.h.open.changes = append(q.h.open.changes, format.QueueEdit(from, other))
	}
	q.numbers[to] = number
	q.h.open.changes = append(q.h.open.changes, format.QueueEdit(to, number))
	q.h.mu.Unlock()
	if err := q.h.Settled(ctx); err != nil || !both {
		return err
	}
	return q.join(context.WithoutCancel(ctx), other, number)
}

// joinAtOnce bounds what is written again in one commit, in bytes.
const joinAtOnce = 1 << 20

// join has what one queue has be another one's.
func (q *queues) join(ctx context.Context, from, to uint32) error {
	if err := q.joinDead(ctx, from, to); err != nil {
		return err
	}
	q.h.mu.Lock()
	payloads := q.pending.Counts()[from]
	some := q.pending.Take(from)
	q.h.mu.Unlock()
	var joined []Ref
	bytes := 0
	for _, ref := range slices.Concat(some...) {
		c := Change{Rewritten: []Rewrite{{Ref: ref, queue: to}}} // alone: on a full disk as many are written as fit
		q.h.Record(&c)
		joined = append(joined, c.Rewritten[0].Ref)
		if bytes += ref.Size(); bytes >= joinAtOnce {
			bytes = 0
			if err := q.h.Settled(ctx); err != nil {
				return err
			}
		}
	}
	if err := q.h.Settled(ctx); err != nil {
		return err
	}
	q.h.mu.Lock()
	defer q.h.mu.Unlock()
	q.pending.Join(to, joined, payloads)
	return nil
}

// joinDead is join for the morgue.
func (q *queues) joinDead(ctx context.Context, from, to uint32) error {
	if q.morgue.Buried(from) == 0 {
		return nil
	}
	bytes := 0
	for b, err := range q.morgue.Morgue(from, 0) {
		if err != nil {
			return err
		}
		gone := format.Edit{Bucket: format.BucketMorgue, Key: format.MorgueKey(from, b.Entry.Position)}
		b.Entry.Queue = to
		put := b.Edit()
		q.h.mu.Lock()
		q.h.open.changes = append(q.h.open.changes, gone, put)
		q.h.bury(from, -1)
		q.h.bury(to, 1)
		q.h.open.cuts = append(q.h.open.cuts, q.h.open.cut())
		q.h.mu.Unlock()
		q.h.wakeCommitter()
		if bytes += len(put.Value); bytes >= joinAtOnce {
			bytes = 0
			if err := q.h.Settled(ctx); err != nil {
				return err
			}
		}
	}
	return q.h.Settled(ctx)
}
