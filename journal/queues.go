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
	h *head

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
	names := make(map[string]uint32, len(q.numbers))
	maps.Copy(names, q.numbers)
	return names
}

// Rename moves what the queue named from has, its live entries and its morgue,
// to the name to, and waits until that is on disk. If both names are known they
// change places. It returns an error for a name that is empty, too long, or
// unknown in the case of from, ErrFailed, ErrClosed, ErrContext, or the cause of
// ctx. On a full disk it takes of the room that is kept for results: the jobs
// that it is about make room when they run.
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
	other, swap := q.numbers[to]
	q.numbers[to] = number
	if swap {
		q.numbers[from] = other
		q.h.open.changes = append(q.h.open.changes, format.QueueEdit(from, other))
	} else {
		delete(q.numbers, from)
		q.h.open.changes = append(q.h.open.changes, format.Edit{Bucket: format.BucketQueues, Key: []byte(from)})
	}
	q.h.open.changes = append(q.h.open.changes, format.QueueEdit(to, number))
	q.h.mu.Unlock()
	return q.h.Settled(ctx)
}

// PendingPages hands over what a queue had when the journal was opened: its live entries
// in position order. They come in pages, of which the caller lets go as it takes them in:
// of many entries they are a quarter of the memory. A second call returns none.
func (q *queues) PendingPages(queue uint32) [][]Ref {
	q.h.mu.Lock()
	defer q.h.mu.Unlock()
	return q.pending.Take(queue)
}

// OldestUnclaimed returns when the oldest payload of a queue was accepted, or put back from
// the morgue, that PendingPages has not handed over, in Unix nanoseconds; 0: there is none, or it can't
// be read.
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
