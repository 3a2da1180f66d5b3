package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
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
	_, err = q.eachDead(ctx, which, func(ctx context.Context, some dead) (int, error) {
		one, err := q.restore(ctx, some)
		r = Requeued{r.Back + one.Back, r.Superseded + one.Superseded, r.Late + one.Late, r.Unsure + one.Unsure}
		return one.Back, err
	})
	if err != nil {
		err = fmt.Errorf("executor: requeue: %w", border(err))
	}
	return r, err
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
	n, err := q.eachDead(ctx, which, func(ctx context.Context, some dead) (int, error) {
		return q.deleteDead(ctx, some, &q.deadDeleted)
	})
	if err != nil {
		err = fmt.Errorf("executor: delete: %w", border(err))
	}
	return n, err
}

// eachDead calls do for those that are meant of what is dead by now, some at a time,
// and adds up what it returns.
func (q *queue) eachDead(ctx context.Context, which Selection, do func(context.Context, dead) (int, error)) (n int, err error) {
	if len(which.states) > 0 {
		return 0, fmt.Errorf("%w: the dead have no state %q", ErrInvalidQuery, which.states[0])
	}
	if err = context.Cause(ctx); err != nil {
		return 0, err
	}
	// What is counted as dead may be on its way to the morgue.
	if err = q.x.log.Settled(ctx); err != nil {
		return 0, cmp.Or(context.Cause(ctx), err)
	}
	end := q.x.log.Stats().Next
	first, last := which.span(end)
	some := q.exhuming.begin()
	for b, err := range q.x.log.Morgue(q.number, first) {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return n, err
		}
		if b.Entry.Position > last {
			break // or jobs that die at once would keep it here
		}
		if !which.meansDead(&b) {
			continue
		}
		// A payload that is larger than the rest of the commit is in the next one.
		more := len(b.Entry.ID) + len(b.Entry.Payload)
		if len(some.positions) == requeueAtOnce || some.bytes+more > requeueBytes {
			did, err := do(ctx, some)
			if n += did; err != nil {
				return n, err
			}
			some = some.none()
		}
		some.add(&b)
	}
	did, err := do(ctx, some)
	return n + did, err
}

// areBack says in lanes that shards have heard of payloads: until then what their queue
// has beside them must not run in their turn. Those that stay away lose their places; if
// another call has brought one back meanwhile, it gets its place when a worker comes to it.
func (q *queue) areBack(out, in dead) {
	if q.lanes != nil {
		q.lanes.Back(out.positions...)
		q.lanes.Remove(in.positions...)
	}
}

// restore puts payloads back that are still dead, all in one commit.
func (q *queue) restore(ctx context.Context, some dead) (Requeued, error) {
	var late, unsure int
	back, err := q.takeOut(ctx, some, func(some dead) (err error) {
		if late, unsure, err = q.late(ctx, some); err != nil {
			return err
		}
		if q.lanes != nil { // before their shards hear of them
			q.lanes.ComeBack(some.ids, some.positions, q.number)
		}
		err = q.x.log.Restore(ctx, q.number, some.positions, q.stamp(), q.shards.Route)
		switch {
		case err == nil:
			q.areBack(some, dead{})
		case !errors.Is(err, journal.ErrUnknown):
			q.areBack(dead{}, some)
		}
		return err
	}, q.areBack)
	r := Requeued{Back: len(back.positions), Superseded: back.superseded}
	if r.Back > 0 {
		r.Late, r.Unsure = late, unsure
	}
	return r, err
}

// deleteDead deletes payloads as restore puts them back, and has them counted in the instant
// in which they are dead no more; on a disk that is short of room
// each in a commit of its own, because one of many may need more than results have.
func (q *queue) deleteDead(ctx context.Context, some dead, deleted *atomic.Uint64) (n int, err error) {
	if len(some.positions) > 1 && q.x.log.Short() {
		for i := 0; i < len(some.positions) && err == nil; i++ {
			var did int
			did, err = q.deleteDead(ctx, some.part(i, i+1), deleted)
			n += did
		}
		return n, err
	}
	gone, err := q.takeOut(ctx, some, func(some dead) error {
		ticket, err := q.x.log.Delete(ctx, q.number, some.positions)
		if err != nil {
			return err
		}
		deleted.Add(uint64(len(some.positions)))
		if err = ticket.Wait(ctx); errors.Is(err, journal.ErrFull) {
			err = q.x.log.Settled(ctx)
		}
		return err
	}, func(out, _ dead) {
		q.forget(out)
		_ = q.unlockDead(out)
	})
	q.forget(gone)
	if n = len(gone.positions); err == nil {
		err = q.unlockDead(gone)
	}
	return n, err
}

// unlockDead ends what payloads had locked that are deleted: each its own, and the last
// one of an id what its runs had locked for the job. They are gone, so that no context of a
// call ends it.
func (q *queue) unlockDead(some dead) error {
	if len(some.positions) == 0 || q.keys == nil {
		return nil
	}
	whole := q.x.keys.DropDead(q.name, some.positions, some.ids)
	if len(whole) == 0 {
		return nil
	}
	for b, err := range q.x.log.Morgue(q.number, 0) {
		if err != nil {
			return err
		}
		delete(whole, string(b.Entry.ID))
	}
	for id := range whole {
		if _, err := q.shards.VisitIDs(context.Background(), []string{id}, func(c *shard.Core, _ []string) (int, error) {
			if !c.Has(id) { // on its shard: it can't come meanwhile
				q.x.keys.DropJob(holder{Queue: q.name, ID: id})
			}
			return 0, nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// span returns the first and the last position that may be meant of the dead, of those
// below end.
func (s *Selection) span(end journal.Position) (first, last journal.Position) {
	last = end - 1
	if s.of != nil {
		if len(s.of) == 0 {
			return 0, 0
		}
		return s.of[0], min(last, s.of[len(s.of)-1])
	}
	return 0, last
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
