package executor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/internal/listing"
	"github.com/strandjobs/strand/journal"
)

// DeadQuery says which dead letters of a queue to list.
type DeadQuery struct {
	Queue      string // by name; it must be registered
	Order      Order
	Descending bool // the other way round; not with OrderNone

	// Filter: ErrorContains is about DeadInfo.Error, OlderThan about EnqueuedAt.
	Filter JobFilter
	// DiedBefore is how long ago they died at least. 0: whenever; below zero is
	// refused.
	DiedBefore time.Duration

	Limit  int    // as in JobQuery
	Cursor string // DeadPage.Next of the page before, as in JobQuery; it stays good after a restart

	Patience time.Duration // as in JobQuery
}

// DeadPage is a part of a list.
type DeadPage struct {
	Dead []DeadInfo
	Next string `wire:",omit"` // the cursor of the next page; "": this is the last one

	Examined  int  // dead letters that were looked at for it
	Truncated bool // as in JobPage
	Partial   bool // as in JobPage
}

// DeadInfo is a dead letter in a list.
type DeadInfo struct {
	Queue, ID  string
	Position   uint64
	Score      float64
	Attempt    int       // in which it died: 1, 2, 3, …
	Error      string    // why: its first KiB
	At         time.Time // when it died
	EnqueuedAt time.Time
	Bytes      int    // of the payload
	Preview    []byte `wire:"-"` // its first 256 bytes
}

// Dead lists dead letters of a queue, in pages. The pages, the cursor, the pauses
// between steps of the work and the errors are as with [Inspector.Jobs]. A page in an
// order looks at all of them: 10⁶ dead letters take a second or two. A page without one
// ends when 100,000 were examined. A payload that died a moment ago is listed when its
// death is on the disk.
func (i *Inspector) Dead(ctx context.Context, query DeadQuery) (DeadPage, error) {
	ctx, q, err := i.begin(ctx, query.Queue)
	if err != nil {
		return DeadPage{}, err
	}
	l, err := newDeadList(q, query)
	if err != nil {
		return DeadPage{}, err
	}
	if query.Order == OrderNone {
		return l.asAccepted(ctx)
	}
	return l.inOrder(ctx)
}

// deadList is a query at work.
type deadList struct {
	DeadQuery
	q      *queue
	name   string
	after  *listing.Key
	before int64 // it was enqueued before that; Unix ns
	died   int64 // it died before that
}

func newDeadList(q *queue, query DeadQuery) (*deadList, error) {
	l := &deadList{DeadQuery: query, q: q, before: math.MaxInt64, died: math.MaxInt64}
	if err := query.Filter.check(); err != nil {
		return nil, err
	}
	if err := query.Order.check(query.Descending, OrderNone, OrderID, OrderDied); err != nil {
		return nil, err
	}
	if query.DiedBefore < 0 {
		return nil, fmt.Errorf("%w: DiedBefore is %v, it must not be negative", ErrInvalidQuery, query.DiedBefore)
	}
	var err error
	if l.Limit, err = listLimit(query.Limit); err != nil {
		return nil, err
	}
	if err = checkPatience(query.Patience); err != nil {
		return nil, err
	}
	l.name = fmt.Sprintf("dead %s %t %s", query.Order, query.Descending, query.Queue)
	if l.after, err = parseCursor(l.name, query.Cursor); err != nil {
		return nil, err
	}
	now := q.x.clock()
	if query.Filter.OlderThan > 0 {
		l.before = now.Add(-query.Filter.OlderThan).UnixNano()
	}
	if query.DiedBefore > 0 {
		l.died = now.Add(-query.DiedBefore).UnixNano()
	}
	return l, nil
}

func (l *deadList) matches(b *journal.Buried) bool {
	return l.Filter.means(string(b.Entry.ID), b.Reason, true) &&
		b.Entry.AcceptedAt() < l.before && b.At < l.died
}

// key is the place of a dead letter in the order.
func (l *deadList) key(b *journal.Buried) listing.Key {
	if l.Order == OrderDied {
		return listing.Key{First: b.At, Last: int64(b.Entry.Position)}
	}
	return listing.Key{ID: string(b.Entry.ID), Last: int64(b.Entry.Position)}
}

func (l *deadList) inOrder(ctx context.Context) (p DeadPage, err error) {
	page := listing.NewPage[DeadInfo](l.Limit, l.Descending, l.after)
	ctx, cancel := patient(ctx, l.Patience)
	defer cancel()
	err = l.q.seeDead(ctx, 0, func(b *journal.Buried) bool {
		p.Examined++
		if l.matches(b) && page.Takes(l.key(b)) {
			page.Offer(l.key(b), l.q.deadInfo(b))
		}
		return true
	})
	if p.Partial = errors.Is(err, errLate); err != nil && !p.Partial {
		return DeadPage{}, err
	}
	rows, last, more := page.Rows()
	if p.Dead = rows; more || p.Partial && len(rows) > 0 {
		p.Next = listing.Cursor(l.name, last)
	}
	return p, nil
}

func (l *deadList) asAccepted(ctx context.Context) (p DeadPage, err error) {
	var from journal.Position
	var last listing.Key
	if l.after != nil {
		last = *l.after
		from = journal.Position(last.Last) + 1
	}
	ctx, cancel := patient(ctx, l.Patience)
	defer cancel()
	err = l.q.seeDead(ctx, from, func(b *journal.Buried) bool {
		if len(p.Dead) == l.Limit || p.Examined == maxExamined {
			p.Next, p.Truncated = listing.Cursor(l.name, last), len(p.Dead) < l.Limit
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
		p.Next, p.Truncated, err = listing.Cursor(l.name, last), len(p.Dead) < l.Limit, nil
	}
	if err != nil {
		return DeadPage{}, err
	}
	return p, nil
}

// deadPerTurn is how many dead letters are read at once, unless they are large.
const deadPerTurn = 256

// seeDead calls f for the dead letters from a position on, in the order in which
// they were accepted, until f returns false, some in each of its turns.
func (q *queue) seeDead(ctx context.Context, from journal.Position, f func(*journal.Buried) bool) error {
	return q.x.seeDead(ctx, q.number, from, f)
}

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
func (q *queue) deadInfo(b *journal.Buried) DeadInfo {
	e := &b.Entry
	return DeadInfo{
		Queue: q.name, ID: string(e.ID), Position: uint64(e.Position), Score: e.Score, Attempt: b.Retry + firstAttempt,
		Error: cut(b.Reason, errorBytes), At: time.Unix(0, b.At), EnqueuedAt: time.Unix(0, e.AcceptedAt()),
		Bytes: len(e.Payload), Preview: slices.Clone(e.Payload[:min(len(e.Payload), previewBytes)]),
	}
}

// explainDead says of an id without a job what is in the morgue.
func (q *queue) explainDead(ctx context.Context, e *Explanation) error {
	if q.x.log.Buried(q.number) == 0 {
		return nil
	}
	var last int64
	return q.seeDead(ctx, 0, func(b *journal.Buried) bool {
		if string(b.Entry.ID) != e.ID {
			return true
		}
		if e.Dead++; e.Dead == 1 || b.At >= last {
			e.State, e.LastError, e.Attempt, last = JobDead, b.Reason, b.Retry+firstAttempt, b.At
		}
		return true
	})
}
