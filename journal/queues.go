package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/format"
)

// queues are the names that the journal knows, each with its number, and what it had of
// each queue when it was opened.
type queues struct {
	h      *results
	morgue *morgue

	// Guarded by the lock of the head.
	numbers map[string]uint32
	pending block.Pending // found at open, per queue, in pages and in position order
}

// Queue returns the number that stands for a queue in entries, and makes one
// durable for a name that is new. It returns an error for a name that is
// empty or longer than 4096 bytes, and for a new name ErrFull while the disk is
// full: one that the journal knows takes no room.
func (q *queues) Queue(ctx context.Context, name string) (uint32, error) {
	if name == "" || len(name) > format.MaxQueueName {
		return 0, fmt.Errorf("%w, not %d", format.ErrQueueName, len(name))
	}
	if err := cause(ctx); err != nil {
		return 0, err
	}
	q.h.mu.Lock()
	number, known := q.numbers[name]
	if err := q.h.refusal(); err != nil && !(known && errors.Is(err, ErrFull)) {
		q.h.mu.Unlock()
		return 0, err
	}
	if !known {
		number = uint32(len(q.numbers)) + 1
		q.numbers[name] = number
		q.h.open.changes = append(q.h.open.changes, format.QueueEdit(name, number))
	}
	ticket := Ticket{commit: q.h.open.commit}
	q.h.mu.Unlock()
	if known {
		return number, nil
	}
	q.h.wakeCommitter()
	return number, ticket.Wait(ctx)
}

// Queues returns the number of every queue that the journal knows, by name.
func (q *queues) Queues() map[string]uint32 {
	q.h.mu.Lock()
	defer q.h.mu.Unlock()
	return maps.Clone(q.numbers)
}

// PendingPages hands over what a queue had when the journal was opened: its live entries in
// position order. They come in pages, so that the caller can let go of each when it has taken it
// in: of many entries the pages are a quarter of the memory. A second call returns none.
func (q *queues) PendingPages(queue uint32) [][]Ref {
	q.h.mu.Lock()
	defer q.h.mu.Unlock()
	return q.pending.Take(queue)
}

// OldestUnclaimed returns when the oldest payload of a queue that PendingPages has not handed over was
// accepted, or put back from the morgue, in Unix nanoseconds; 0: there is none, or it can't be read.
func (q *queues) OldestUnclaimed(queue uint32) (at int64) {
	q.h.mu.Lock()
	first := q.pending.First(queue, 64)
	q.h.mu.Unlock()
	for _, ref := range first {
		var e Entry
		switch found, err := ref.Peek(&e); {
		case err != nil || !found || e.Kind != KindEnqueued:
			continue
		case e.Restored: // what comes behind it may be older
			at = min(cmp.Or(at, e.Due), e.Due)
		default:
			return min(cmp.Or(at, e.AcceptedAt()), e.AcceptedAt())
		}
	}
	return at
}

// Unclaimed returns the number of payloads that each queue had when the journal
// was opened, without those that PendingPages has handed over.
func (q *queues) Unclaimed() map[uint32]int {
	q.h.mu.Lock()
	defer q.h.mu.Unlock()
	return q.pending.Counts()
}

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
	number, known := q.numbers[from]
	err := q.h.err // a full disk has room for a name
	if err == nil && !known {
		err = fmt.Errorf("%w: there is no queue %q", format.ErrQueueName, from)
	}
	if err != nil || from == to {
		q.h.mu.Unlock()
		return err
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
