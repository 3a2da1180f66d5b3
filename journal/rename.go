package journal

import (
	"context"
	"fmt"
)

// Rename moves what the queue named from has, its live entries and its morgue,
// to the name to, and waits until that is on disk. If both names are known they
// change places. It returns ErrQueueName for a name that is empty, too long, or
// unknown in the case of from, and the errors of Queue.
func (l *Log) Rename(ctx context.Context, from, to string) error {
	if to == "" || len(to) > maxQueueName {
		return fmt.Errorf("%w, not %d", ErrQueueName, len(to))
	}
	l.mu.Lock()
	if err := l.refusal(ctx); err != nil {
		l.mu.Unlock()
		return err
	}
	number, known := l.queues[from]
	if !known {
		l.mu.Unlock()
		return fmt.Errorf("%w: there is no queue %q", ErrQueueName, from)
	}
	if from == to {
		l.mu.Unlock()
		return nil
	}
	// Numbers stay dense: one is never given up.
	other, swap := l.queues[to]
	l.queues[to] = number
	if swap {
		l.queues[from] = other
		l.open.changes = append(l.open.changes, queueChange(from, other))
	} else {
		delete(l.queues, from)
		l.open.changes = append(l.open.changes, change{bucket: bucketQueues, key: []byte(from)})
	}
	l.open.changes = append(l.open.changes, queueChange(to, number))
	ticket := Ticket{commit: l.open.commit}
	l.mu.Unlock()
	l.wakeCommitter()
	return ticket.Wait(ctx)
}
