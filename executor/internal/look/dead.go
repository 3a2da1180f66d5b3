package look

import (
	"context"
	"errors"
	"fmt"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/listing"
	"github.com/strandjobs/strand/journal"
)

// checkDead checks what only a list of the dead has.
func (l *list) checkDead() error {
	switch {
	case len(l.States) > 0:
		return fmt.Errorf("%w: the dead have no state %q", inspect.ErrInvalidQuery, brief.Clip(string(l.States[0])))
	case l.DiedBefore < 0:
		return fmt.Errorf("%w: DiedBefore is %v, it must not be negative", inspect.ErrInvalidQuery, l.DiedBefore)
	case l.DiedBefore > 0:
		l.died = l.q.in.Now() - int64(l.DiedBefore)
	}
	return nil
}

func (l *list) meansDead(b *journal.Buried) bool { return l.meant.Dead(b) && b.At < l.died }

// DeadKey is the place of a dead letter in an order.
func DeadKey(order inspect.Order, id string, position, died int64) listing.Key {
	if order == inspect.OrderDied {
		return listing.Key{First: died, Last: position}
	}
	return listing.Key{ID: id, Last: position}
}

func (l *list) deadInOrder(ctx context.Context) (p inspect.JobPage, err error) {
	page := listing.NewPage[inspect.DeadPayload](l.Limit, l.Descending, l.after)
	ctx, cancel := patient(ctx, l.Patience)
	defer cancel()
	err = l.q.in.EachDead(ctx, l.q.Number, 0, func(b *journal.Buried) bool {
		p.Examined++
		if key := DeadKey(l.Order, string(b.Entry.ID), int64(b.Entry.Position), b.At); l.meansDead(b) && page.Takes(key) {
			page.Offer(key, l.q.listed(b))
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

func (l *list) asAccepted(ctx context.Context) (p inspect.JobPage, err error) {
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
		if l.meansDead(b) {
			p.Dead = append(p.Dead, l.q.listed(b))
		}
		return true
	})
	if errors.Is(err, errLate) {
		p.Next, p.Truncated, err = listing.Cursor(l.name, last), len(p.Dead) < l.Limit, nil
	}
	return p, err
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
