package executor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/dead"
	"github.com/strandjobs/strand/executor/internal/listing"
	"github.com/strandjobs/strand/journal"
)

func (i inspector) Dead(ctx context.Context, query inspect.DeadQuery) (inspect.DeadPage, error) {
	ctx, q, err := i.begin(ctx, query.Queue)
	if err != nil {
		return inspect.DeadPage{}, err
	}
	l, err := newDeadList(q, query)
	if err != nil {
		return inspect.DeadPage{}, err
	}
	if query.Order == inspect.OrderNone {
		return l.asAccepted(ctx)
	}
	return l.inOrder(ctx)
}

// deadList is a query for dead letters at work.
type deadList struct {
	list
	inspect.DeadQuery
	died int64 // it died before that; Unix ns
}

func newDeadList(q *queue, query inspect.DeadQuery) (l *deadList, err error) {
	l = &deadList{DeadQuery: query, died: math.MaxInt64}
	if query.DiedBefore < 0 {
		return nil, fmt.Errorf("%w: DiedBefore is %v, it must not be negative", inspect.ErrInvalidQuery, query.DiedBefore)
	}
	if query.DiedBefore > 0 {
		l.died = q.x.clock().Add(-query.DiedBefore).UnixNano()
	}
	l.list, err = newList(q, "dead", &inspect.JobQuery{
		Queue: query.Queue, Order: query.Order, Descending: query.Descending, Filter: query.Filter,
		Limit: query.Limit, Cursor: query.Cursor, Patience: query.Patience,
	}, inspect.OrderNone, inspect.OrderID, inspect.OrderDied)
	return l, err
}

func (l *deadList) matches(b *journal.Buried) bool {
	return means(&l.Filter, string(b.Entry.ID), b.Reason, true) &&
		b.Entry.AcceptedAt() < l.before && b.At < l.died
}

// key is the place of a dead letter in the order.
func (l *deadList) key(b *journal.Buried) listing.Key {
	if l.Order == inspect.OrderDied {
		return listing.Key{First: b.At, Last: int64(b.Entry.Position)}
	}
	return listing.Key{ID: string(b.Entry.ID), Last: int64(b.Entry.Position)}
}

func (l *deadList) inOrder(ctx context.Context) (p inspect.DeadPage, err error) {
	page := listing.NewPage[inspect.DeadInfo](l.limit, l.Descending, l.after)
	ctx, cancel := patient(ctx, l.Patience)
	defer cancel()
	err = l.q.x.seeDead(ctx, l.q.number, 0, func(b *journal.Buried) bool {
		p.Examined++
		if l.matches(b) && page.Takes(l.key(b)) {
			page.Offer(l.key(b), l.q.deadInfo(b))
		}
		return true
	})
	if p.Partial = errors.Is(err, errLate); err != nil && !p.Partial {
		return inspect.DeadPage{}, err
	}
	rows, last, more := page.Rows()
	if p.Dead = rows; more || p.Partial && len(rows) > 0 {
		p.Next = listing.Cursor(l.name, last)
	}
	return p, nil
}

func (l *deadList) asAccepted(ctx context.Context) (p inspect.DeadPage, err error) {
	var from journal.Position
	var last listing.Key
	if l.after != nil {
		last = *l.after
		from = journal.Position(last.Last) + 1
	}
	ctx, cancel := patient(ctx, l.Patience)
	defer cancel()
	err = l.q.x.seeDead(ctx, l.q.number, from, func(b *journal.Buried) bool {
		if len(p.Dead) == l.limit || p.Examined == maxExamined {
			p.Next, p.Truncated = listing.Cursor(l.name, last), len(p.Dead) < l.limit
			return false
		}
		p.Examined++
		last.Last = int64(b.Entry.Position)
		if l.matches(b) {
			p.Dead = append(p.Dead, l.q.deadInfo(b))
		}
		return true
	})
	if errors.Is(err, errLate) {
		p.Next, p.Truncated, err = listing.Cursor(l.name, last), len(p.Dead) < l.limit, nil
	}
	if err != nil {
		return inspect.DeadPage{}, err
	}
	return p, nil
}

// deadPerTurn is how many dead letters are read at once, unless they are large.
const deadPerTurn = 256

// seeDead calls f for the dead letters of a queue from a position on, in the order in which
// they were accepted, until f returns false, some in each of its turns.
func (x *Executor) seeDead(ctx context.Context, queue uint32, from journal.Position, f func(*journal.Buried) bool) error {
	for more := true; more; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		err := x.inspection.pacer.Do(ctx, x.atWork, func() (time.Duration, error) {
			began, n := time.Now(), 0
			more = false
			for b, err := range x.log.Morgue(queue, from) {
				if err != nil {
					return 0, border(err)
				}
				if n == deadPerTurn {
					more = true
					break
				}
				n++
				from = b.Entry.Position + 1
				if !f(&b) {
					break
				}
			}
			return time.Since(began), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// deadInfo shows a dead letter to people.
func (q *queue) deadInfo(b *journal.Buried) inspect.DeadInfo {
	e := &b.Entry
	return inspect.DeadInfo{
		Queue: q.name, ID: string(e.ID), Position: uint64(e.Position), Score: e.Score, Attempt: b.Retry + firstAttempt,
		Error: brief.Cut(b.Reason, errorBytes), At: time.Unix(0, b.At), EnqueuedAt: time.Unix(0, e.AcceptedAt()),
		Bytes: len(e.Payload), Preview: slices.Clone(e.Payload[:min(len(e.Payload), previewBytes)]),
	}
}

// explainDead says of an id without a job what is in the morgue.
func (q *queue) explainDead(ctx context.Context, e *inspect.Explanation) error {
	if q.x.log.Buried(q.number) == 0 {
		return nil
	}
	var last int64
	return q.x.seeDead(ctx, q.number, 0, func(b *journal.Buried) bool {
		if string(b.Entry.ID) != e.ID {
			return true
		}
		if e.Dead++; e.Dead == 1 || b.At >= last {
			e.State, e.LastError, e.Attempt, last = inspect.JobDead, b.Reason, b.Retry+firstAttempt, b.At
		}
		return true
	})
}

func (i inspector) Requeue(ctx context.Context, which inspect.Selection) (r inspect.Requeued, err error) {
	q, ctx, s, err := i.selected(ctx, which)
	if err != nil {
		return r, err
	}
	dead, err := s.dead()
	if err != nil {
		return r, fmt.Errorf("executor: requeue: %w", err)
	}
	back, err := q.dead.Restore(ctx, dead)
	if err != nil {
		err = fmt.Errorf("executor: requeue: %w", border(err))
	}
	return inspect.Requeued(back), err
}

func (i inspector) DeleteDead(ctx context.Context, which inspect.Selection) (int, error) {
	q, ctx, s, err := i.selected(ctx, which)
	if err != nil {
		return 0, err
	}
	dead, err := s.dead()
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
func (s *selection) dead() (w dead.Which, err error) {
	if len(s.states) > 0 {
		return w, fmt.Errorf("%w: the dead have no state %q", inspect.ErrInvalidQuery, s.states[0])
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
func (s *selection) meansDead(b *journal.Buried) bool {
	id := string(b.Entry.ID)
	_, found := slices.BinarySearch(s.of, b.Entry.Position)
	return (found || s.of == nil) && (s.ids == nil || s.ids[id]) &&
		means(&s.filter, id, b.Reason, true) && s.oldEnough(b.Entry.AcceptedAt())
}
