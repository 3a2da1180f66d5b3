package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// replay rebuilds blocks, accounts and pending entries.
func (l *Log) replay() error {
	r := block.NewReading(l.chain.SettleIn)
	if err := l.store.Scan(r.Block); err != nil {
		return err
	}
	t, err := store.ReadManifest(l.store)
	if err != nil {
		return err
	}
	if err := r.Finish(t); err != nil {
		return err
	}
	l.pending = r.Load(l.chain)
	t.Epoch++
	l.manifest = t
	return nil
}

// Queue returns the number that stands for a queue in entries, and makes one
// durable for a name that is new. It returns an error for a name that is
// empty or longer than 4096 bytes, and for a new name ErrFull while the disk is
// full: one that the journal knows takes no room.
func (l *Log) Queue(ctx context.Context, name string) (uint32, error) {
	if name == "" || len(name) > format.MaxQueueName {
		return 0, fmt.Errorf("%w, not %d", format.ErrQueueName, len(name))
	}
	if err := cause(ctx); err != nil {
		return 0, err
	}
	l.mu.Lock()
	number, known := l.queues[name]
	if err := l.refusal(); err != nil && !(known && errors.Is(err, ErrFull)) {
		l.mu.Unlock()
		return 0, err
	}
	if !known {
		number = uint32(len(l.queues)) + 1
		l.queues[name] = number
		l.open.changes = append(l.open.changes, format.QueueEdit(name, number))
	}
	ticket := Ticket{commit: l.open.commit}
	l.mu.Unlock()
	if known {
		return number, nil
	}
	l.wakeCommitter()
	return number, ticket.Wait(ctx)
}

// Queues returns the number of every queue that the journal knows, by name.
func (l *Log) Queues() map[string]uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := make(map[string]uint32, len(l.queues))
	maps.Copy(names, l.queues)
	return names
}

// PendingPages hands over what a queue had when the journal was opened: its live entries
// in position order. They come in pages, of which the caller lets go as it takes them in:
// of many entries they are a quarter of the memory. A second call returns none.
func (l *Log) PendingPages(queue uint32) [][]Ref {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pending.Take(queue)
}

// OldestUnclaimed returns when the oldest payload of a queue was accepted, or put back from
// the morgue, that PendingPages has not handed over, in Unix nanoseconds; 0: there is none, or it
// can't be read.
func (l *Log) OldestUnclaimed(queue uint32) (at int64) {
	l.mu.Lock()
	first := l.pending.First(queue, 64)
	l.mu.Unlock()
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
func (l *Log) Unclaimed() map[uint32]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pending.Counts()
}
