package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/format"
)

// queues are the names that the journal knows, each with its number, and what it had of
// each queue when it was opened.
type queues struct {
	h      *head
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
