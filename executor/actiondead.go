package executor

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/strandjobs/strand/executor/internal/dead"
	"github.com/strandjobs/strand/journal"
)

// Requeue puts the selected dead letters back in their place: with their old score
// and position, due now, with all retries given back. They start again without Failures
// and LastError. If a job of the same id waits, they join it, and it is due now, too.
//
// Later payloads of the id may have been done since, and do not run again: so an older
// payload runs after them. That is right for payloads that don't depend on each other.
// If they do, look at Late and Unsure of the result. For state use [HandleLatest]:
// there, no older state replaces a newer one.
//
// Requeue goes in the order in which the payloads were accepted, up to a thousand of
// them or 4 MiB in a commit, so that it takes little memory and other work goes on; the
// first ones may run before the last ones are back. It returns what became of them,
// also with an error: ErrFull, ErrClosed, ErrFailed, ErrContext, ErrUnknownQueue,
// ErrInvalidID, ErrInvalidQuery, also for a selection with states, which dead letters
// have not, or the cause of ctx when that ends first. After an error, ErrUnknown
// included, the payloads of one more commit may be back.
//
// Several calls that put back or delete dead letters of one queue take turns with each
// other, and with Retention, commit by commit. One of them takes a payload and counts
// it; the others skip it. So a call for a few payloads waits for one commit of each
// other call, not for the end of it.
func (i *Inspector) Requeue(ctx context.Context, which Selection) (r Requeued, err error) {
	q, ctx, err := i.selected(ctx, &which)
	if err != nil {
		return r, err
	}
	dead, err := which.dead()
	if err != nil {
		return r, fmt.Errorf("executor: requeue: %w", err)
	}
	back, err := q.dead.Restore(ctx, dead)
	if err != nil {
		err = fmt.Errorf("executor: requeue: %w", border(err))
	}
	return Requeued(back), err
}

// DeleteDead deletes dead letters for good, up to a thousand or 4 MiB of them in a
// commit; QueueStats.Deleted counts them. What they had left locked is unlocked. It
// returns how many it deleted, also with an error: the errors are those of Requeue,
// except ErrFull. See [Inspector.Requeue] for what may be deleted beside those, and for
// several calls at the same time. On a full disk it deletes them one by one, in the
// room that is kept for results.
func (i *Inspector) DeleteDead(ctx context.Context, which Selection) (int, error) {
	q, ctx, err := i.selected(ctx, &which)
	if err != nil {
		return 0, err
	}
	dead, err := which.dead()
	if err != nil {
		return 0, fmt.Errorf("executor: delete: %w", err)
	}
	n, err := q.dead.Delete(ctx, dead)
	if err != nil {
		err = fmt.Errorf("executor: delete: %w", border(err))
	}
	return n, err
}

// dead says which dead letters are meant.
func (s *Selection) dead() (w dead.Which, err error) {
	if len(s.states) > 0 {
		return w, fmt.Errorf("%w: the dead have no state %q", ErrInvalidQuery, s.states[0])
	}
	w = dead.Which{Last: math.MaxUint64, Means: s.meansDead}
	if n := len(s.of); n > 0 {
		w.First, w.Last = s.of[0], s.of[n-1]
	} else if s.of != nil {
		w.Last = 0
	}
	return w, nil
}

// meansDead reports whether a dead letter is meant.
func (s *Selection) meansDead(b *journal.Buried) bool {
	id := string(b.Entry.ID)
	switch {
	case s.of != nil:
		_, found := slices.BinarySearch(s.of, b.Entry.Position)
		return found && (s.ids == nil || s.ids[id])
	case s.ids != nil:
		return s.ids[id]
	}
	return s.filter.means(id, b.Reason, true) && s.oldEnough(b.Entry.AcceptedAt())
}
