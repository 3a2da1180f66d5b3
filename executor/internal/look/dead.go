package look

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/listing"
	"github.com/strandjobs/strand/executor/internal/pick"
	"github.com/strandjobs/strand/journal"
)

func (i *Inspector) Dead(ctx context.Context, query inspect.JobQuery) (p inspect.JobPage, err error) {
	ctx, q, err := i.Queue(ctx, query.Queue)
	if err != nil {
		return p, err
	}
	if query.Limit, err = listLimit(query.Limit); err != nil {
		return p, err
	}
	l, err := newDeadList(q, query)
	if err != nil {
		return p, err
	}
	if query.Order == inspect.OrderNone {
		p, err = l.asAccepted(ctx)
	} else {
		p, err = l.inOrder(ctx)
	}
	if err != nil {
		return inspect.JobPage{}, err
	}
	return p, nil
}

// deadList is a query for dead letters at work.
type deadList struct {
	list
	inspect.JobQuery
	died int64 // it died before that; Unix ns
}

func newDeadList(q Queue, query inspect.JobQuery) (l *deadList, err error) {
	l = &deadList{JobQuery: query, died: math.MaxInt64}
	switch {
	case len(query.States) > 0:
		return nil, fmt.Errorf("%w: the dead have no state %q", inspect.ErrInvalidQuery, brief.Clip(string(query.States[0])))
	case query.DiedBefore < 0:
		return nil, fmt.Errorf("%w: DiedBefore is %v, it must not be negative", inspect.ErrInvalidQuery, query.DiedBefore)
	case query.DiedBefore > 0:
		l.died = q.in.Now() - int64(query.DiedBefore)
	}
	l.list, err = newList(q, "dead", &query, inspect.OrderNone, inspect.OrderID, inspect.OrderDied)
	return l, err
}

func (l *deadList) matches(b *journal.Buried) bool {
	return pick.Means(&l.Filter, string(b.Entry.ID), b.Reason, true) &&
		b.Entry.AcceptedAt() < l.before && b.At < l.died
}

func (l *deadList) key(b *journal.Buried) listing.Key {
	return deadKey(l.Order, string(b.Entry.ID), int64(b.Entry.Position), b.At)
}

// DeadKey is the place of a dead letter in an order.
func DeadKey(order inspect.Order, d *inspect.DeadPayload) listing.Key {
	return deadKey(order, d.ID, int64(d.Position), d.At.UnixNano())
}

func deadKey(order inspect.Order, id string, position, died int64) listing.Key {
	if order == inspect.OrderDied {
		return listing.Key{First: died, Last: position}
	}
	return listing.Key{ID: id, Last: position}
}

func (l *deadList) inOrder(ctx context.Context) (p inspect.JobPage, err error) {
	page := listing.NewPage[inspect.DeadPayload](l.Limit, l.Descending, l.after)
	ctx, cancel := patient(ctx, l.Patience)
	defer cancel()
	err = l.q.in.EachDead(ctx, l.q.Number, 0, func(b *journal.Buried) bool {
		p.Examined++
		if l.matches(b) && page.Takes(l.key(b)) {
			page.Offer(l.key(b), l.q.listed(b))
		}
		return true
	})
	if p.Partial = errors.Is(err, errLate); err != nil && !p.Partial {
		return p, err
	}
	rows, last, more := page.Rows()
	if p.Dead = append([]inspect.DeadPayload{}, rows...); more || p.Partial && len(rows) > 0 {
		p.Next = listing.Cursor(l.name, last)
	}
	return p, nil
}

func (l *deadList) asAccepted(ctx context.Context) (p inspect.JobPage, err error) {
	p.Dead = []inspect.DeadPayload{}
	var from journal.Position
	var last listing.Key
	if l.after != nil {
		last = *l.after
		from = journal.Position(last.Last) + 1
	}
	ctx, cancel := patient(ctx, l.Patience)
	defer cancel()
	err = l.q.in.EachDead(ctx, l.q.Number, from, func(b *journal.Buried) bool {
		if len(p.Dead) == l.Limit || p.Examined == MaxExamined {
			p.Next, p.Truncated = listing.Cursor(l.name, last), len(p.Dead) < l.Limit
			return false
		}
		p.Examined++
		last.Last = int64(b.Entry.Position)
		if l.matches(b) {
			p.Dead = append(p.Dead, l.q.listed(b))
		}
		return true
	})
	if errors.Is(err, errLate) {
		p.Next, p.Truncated, err = listing.Cursor(l.name, last), len(p.Dead) < l.Limit, nil
	}
	return p, err
}

// deadPerTurn is how many dead letters are read at once, unless they are large.
const deadPerTurn = 256

// EachDead calls f for the dead letters of a queue from a position on, in the order in which
// they were accepted, until f returns false, some in each of its turns.
func (i *Inspector) EachDead(ctx context.Context, queue uint32, from journal.Position, f func(*journal.Buried) bool) error {
	for more := true; more; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		err := i.Paced(ctx, func() (time.Duration, error) {
			began, n := time.Now(), 0
			more = false
			for b, err := range i.Log.Morgue(queue, from) {
				if err != nil {
					return 0, i.Border(err)
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

// listed is a dead letter as lists have it.
func (q Queue) listed(b *journal.Buried) inspect.DeadPayload {
	d := admin.DeadOf(q.Name, b)
	d.PayloadInfo, d.Error, d.Failures = admin.PreviewOf(d.PayloadInfo), brief.Cut(d.Error, errorBytes), nil
	return d
}

// explainDead says of an id without a job what is in the morgue.
func (q Queue) explainDead(ctx context.Context, e *inspect.Explanation) error {
	if q.in.Log.Buried(q.Number) == 0 {
		return nil
	}
	var last int64
	return q.in.EachDead(ctx, q.Number, 0, func(b *journal.Buried) bool {
		if string(b.Entry.ID) != e.ID {
			return true
		}
		if e.Dead++; e.Dead == 1 || b.At >= last {
			e.State, e.LastError, e.Attempt, last = inspect.JobDead, b.Reason, b.Retry+admin.FirstAttempt, b.At
		}
		return true
	})
}
