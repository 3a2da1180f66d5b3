package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/strandjobs/strand/journal/internal/format"
)

// Rename moves what the queue named from has, its live entries and its morgue,
// to the name to, and waits until that is on disk. If both names are known they
// change places. It returns an error for a name that is empty, too long, or
// unknown in the case of from, ErrFailed, ErrClosed, ErrContext, or the cause of
// ctx. On a full disk it takes of the room that is kept for results: the jobs
// that it is about make room when they run.
func (l *Log) Rename(ctx context.Context, from, to string) error {
	if to == "" || len(to) > format.MaxQueueName {
		return fmt.Errorf("%w, not %d", format.ErrQueueName, len(to))
	}
	if err := cause(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	if err := l.refusal(); err != nil && !errors.Is(err, ErrFull) {
		l.mu.Unlock()
		return err
	}
	number, known := l.queues[from]
	if !known {
		l.mu.Unlock()
		return fmt.Errorf("%w: there is no queue %q", format.ErrQueueName, from)
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
		l.open.changes = append(l.open.changes, format.QueueEdit(from, other))
	} else {
		delete(l.queues, from)
		l.open.changes = append(l.open.changes, format.Edit{Bucket: format.BucketQueues, Key: []byte(from)})
	}
	l.open.changes = append(l.open.changes, format.QueueEdit(to, number))
	ticket := Ticket{commit: l.open.commit}
	l.mu.Unlock()
	l.wakeCommitter()
	return l.waitKept(ctx, ticket)
}

// waitKept waits until a change that belongs to no entry is on disk. A full disk
// refuses the entries of its commit, and the change goes with the results.
func (l *Log) waitKept(ctx context.Context, t Ticket) error {
	for {
		if err := t.Wait(ctx); err != ErrFull { // not ErrUnknown because of it
			return err
		}
		l.mu.Lock()
		t = l.newest()
		l.mu.Unlock()
		l.wakeCommitter()
	}
}
