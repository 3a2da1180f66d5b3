package journal

import (
	"context"
	"errors"
	"slices"

	"github.com/strandjobs/strand/journal/internal/format"
)

// Delete removes buried payloads from the morgue, for good. All of them go, or
// none; ErrNotFound when one is not there. What ctx ends before it returns has no effect;
// when it has returned, [Log.Buried] counts them no longer, and they are gone on disk when
// the ticket is done. That gives room back, and so it goes with the results on a full disk,
// which does not refuse it: there the ticket may say ErrFull, and [Log.Settled] waits on. A
// few at a time find room more easily.
func (l *Log) Delete(ctx context.Context, queue uint32, ps []Position) (Ticket, error) {
	// In turn with Restore: both take payloads out, and each only once.
	release, err := l.beginRestore(ctx)
	if err != nil {
		return Ticket{commit: settled}, err
	}
	ticket, err := l.delete(ctx, queue, ps)
	release(ticket.commit)
	return ticket, err
}

func (l *Log) delete(ctx context.Context, queue uint32, ps []Position) (Ticket, error) {
	ps = slices.Clone(ps)
	slices.Sort(ps)
	ps = slices.Compact(ps)
	nothing := Ticket{commit: settled}
	if len(ps) == 0 {
		return nothing, nil
	}
	for _, p := range ps {
		if _, err := l.exhumeOne(queue, p); err != nil {
			return nothing, err
		}
	}
	if err := cause(ctx); err != nil {
		return nothing, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refusal(); err != nil && !errors.Is(err, ErrFull) {
		return nothing, err
	}
	for _, p := range ps {
		l.open.changes = append(l.open.changes, format.Edit{Bucket: format.BucketMorgue, Key: format.MorgueKey(queue, p)})
	}
	l.bury(queue, -len(ps))
	if !l.volatile {
		l.open.cuts = append(l.open.cuts, l.open.cut())
	}
	l.wakeCommitter()
	return Ticket{commit: l.open.commit}, nil
}
