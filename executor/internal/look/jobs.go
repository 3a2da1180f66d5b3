package look

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/listing"
	"github.com/strandjobs/strand/executor/internal/pick"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// What a page of a list has.
const (
	MaxExamined = 100_000 // jobs that are looked at for a page without an order
	errorBytes  = 1 << 10 // of an error
)

func (i *Inspector) Jobs(ctx context.Context, query inspect.JobQuery) (p inspect.JobPage, err error) {
	if query.Limit, err = listLimit(query.Limit); err != nil {
		return p, err
	}
	return i.Page(ctx, query)
}

// Page is Jobs without its default for Limit and without its bound.
func (i *Inspector) Page(ctx context.Context, query inspect.JobQuery) (inspect.JobPage, error) {
	ctx, l, err := i.list(ctx, "jobs", query)
	switch {
	case err != nil:
		return inspect.JobPage{}, err
	case query.Order == inspect.OrderNone:
		return l.asTheyCome(ctx)
	}
	return l.inOrder(ctx)
}

func (i *Inspector) Dead(ctx context.Context, query inspect.JobQuery) (p inspect.JobPage, err error) {
	ctx, l, err := i.list(ctx, "dead", query)
	if err == nil {
		l.Limit, err = listLimit(query.Limit)
	}
	switch {
	case err != nil:
	case query.Order == inspect.OrderNone:
		p, err = l.asAccepted(ctx)
	default:
		p, err = l.deadInOrder(ctx)
	}
	if err != nil {
		p = inspect.JobPage{} // and no part of one
	}
	return p, err
}

// list is a query at work, for jobs or for dead letters.
type list struct {
	inspect.JobQuery
	q     Queue
	name  string       // of the list that cursors belong to
	after *listing.Key // nil: from the beginning
	died  int64        // before that, in Unix ns
	meant *pick.Selection
}

// list checks what a query has, for jobs or for the dead.
func (i *Inspector) list(ctx context.Context, of string, query inspect.JobQuery) (context.Context, *list, error) {
	ctx, q, err := i.Queue(ctx, query.Queue)
	if err != nil {
		return nil, nil, err
	}
	l := &list{JobQuery: query, q: q, name: ListName(of, &query), died: math.MaxInt64}
	l.meant = pick.Select(inspect.SelectJobs(query.Queue, query.Filter, query.States...))
	has := []inspect.Order{inspect.OrderNone, inspect.OrderID, inspect.OrderDue, inspect.OrderAttempt, inspect.OrderPayloads}
	if of == "dead" {
		err, has = l.checkDead(), []inspect.Order{inspect.OrderNone, inspect.OrderID, inspect.OrderDied}
	} else if query.DiedBefore != 0 {
		err = fmt.Errorf("%w: DiedBefore is %v, and jobs have not died", inspect.ErrInvalidQuery, query.DiedBefore)
	} else if query.Order == inspect.OrderNone {
		l.name = fmt.Sprintf("jobs of %x: %s", i.nonce, query.Queue)
	}
	return ctx, l, cmp.Or(err, l.check(has))
}

// check checks what all lists have, for one that has some orders.
func (l *list) check(has []inspect.Order) error {
	if err := l.meant.Check(l.q.in.Now()); err != nil {
		return err
	}
	switch {
	case !slices.Contains(has, l.Order):
		return fmt.Errorf("%w: Order is %q; it must be one of %q", inspect.ErrInvalidQuery, brief.Clip(string(l.Order)), has)
	case l.Order == inspect.OrderNone && l.Descending:
		return fmt.Errorf("%w: Descending has no meaning without an Order", inspect.ErrInvalidQuery)
	case l.Patience < 0:
		return fmt.Errorf("%w: Patience is %v, it must not be negative; 0 is as long as ctx lets it", inspect.ErrInvalidQuery, l.Patience)
	}
	if l.Cursor == "" {
		return nil
	}
	after, ok := listing.Parse(l.name, l.Cursor)
	if l.Order == inspect.OrderNone { // who has a cursor can make others: their sum is no secret
		ok = ok && after.First >= 0 && after.First < int64(len(l.q.Shards.All))
	}
	if l.after = &after; !ok {
		return fmt.Errorf("%w: %q does not belong to this list: queue, order and direction must be those of the page that it came with, and without an order the process, too",
			inspect.ErrInvalidCursor, brief.Clip(l.Cursor))
	}
	return nil
}

// ListName is what the cursors of a list in an order belong to; of is jobs or dead.
func ListName(of string, query *inspect.JobQuery) string {
	return fmt.Sprintf("%s %s %t %s", of, query.Order, query.Descending, query.Queue)
}

// JobKey is the place of a job in an order.
func JobKey(order inspect.Order, j *inspect.JobInfo) listing.Key {
	first, second := numbers(order, j.Due.UnixNano(), j.Attempt-admin.FirstAttempt, j.Payloads, int64(j.Position))
	return listing.Key{First: first, Second: second, ID: j.ID}
}

// numbers are what decides before the id does.
func numbers(order inspect.Order, due int64, retry, payloads int, position int64) (first, second int64) {
	switch order {
	case inspect.OrderDue:
		return due, 0
	case inspect.OrderAttempt:
		return int64(retry), due
	case inspect.OrderPayloads:
		return int64(payloads), position
	}
	return 0, 0
}

// none reports whether a shard with these figures has no job that is wanted.
func (l *list) none(c shard.Counts) bool {
	return l.meant.States.None(c) || l.Filter.Failed && c.Retrying == 0
}

// picks is what can be told of a job on its shard.
func (l *list) picks(v *shard.View) bool {
	f := &l.Filter
	return l.meant.States.Has(v) && (!f.Failed || v.Retry >= 0) && (f.ErrorContains == "" || v.LastError != "")
}

// matches is the rest of the filter.
func (l *list) matches(v *shard.View) (bool, error) {
	ok, err := l.meant.Matches(v)
	return ok, l.q.in.Border(err)
}

// inOrder goes through all jobs and keeps the first of them.
func (l *list) inOrder(ctx context.Context) (inspect.JobPage, error) {
	page := listing.NewPage[shard.View](l.Limit, l.Descending, l.after)
	w := NewWalk(l.q)
	var cancel context.CancelFunc
	w.patience, cancel = patient(ctx, l.Patience)
	defer cancel()
	// Most jobs are due in the order in which they came. So the first ones on the page
	// come early, and those behind them are told by a glance.
	w.none, w.back = l.none, l.Descending
	w.Want = func(v *shard.View) bool { return l.picks(v) && page.May(l.numbers(v)) }
	w.take = func(_ int, v *shard.View) error {
		ok, err := l.matches(v)
		if err == nil && ok && page.Takes(l.key(v)) {
			page.Offer(l.key(v), *v)
		}
		return err
	}
	if err := w.All(ctx); err != nil {
		return inspect.JobPage{}, err
	}
	rows, last, more := page.Rows()
	p := inspect.JobPage{Jobs: []inspect.JobInfo{}, Examined: w.examined, Partial: w.late}
	if more || w.late && len(rows) > 0 {
		p.Next = listing.Cursor(l.name, last)
	}
	for i := range rows {
		if err := l.add(&p, &rows[i]); err != nil {
			return inspect.JobPage{}, err
		}
	}
	return p, nil
}

// key is the place of a job in the order.
func (l *list) key(v *shard.View) listing.Key {
	first, second := l.numbers(v)
	return listing.Key{First: first, Second: second, ID: v.ID}
}

func (l *list) numbers(v *shard.View) (first, second int64) {
	return numbers(l.Order, v.Due, v.Retry, v.Payloads, int64(v.First.Position()))
}

// asTheyCome goes on behind the last row, shard by shard, until the page is full.
func (l *list) asTheyCome(ctx context.Context) (p inspect.JobPage, err error) {
	p.Jobs = []inspect.JobInfo{}
	var k listing.Key // the shard, and the place in it, of the last job that is dealt with
	if l.after != nil {
		k = *l.after
	}
	w := NewWalk(l.q)
	var cancel context.CancelFunc
	w.patience, cancel = patient(ctx, l.Patience)
	defer cancel()
	w.none, w.Want = l.none, l.picks
	w.take = func(s int, v *shard.View) error {
		if len(p.Jobs) == l.Limit {
			return nil
		}
		k.Second = int64(v.Cursor)
		if ok, err := l.matches(v); err != nil || !ok {
			return err
		}
		return l.add(&p, v)
	}
	for ; int(k.First) < len(w.at); k = (listing.Key{First: k.First + 1}) {
		s := int(k.First)
		for w.at[s] = shard.Cursor(k.Second); !w.over[s]; k.Second = int64(w.at[s]) {
			if w.late = w.examined >= MaxExamined; !w.late {
				err = w.step(ctx, s, l.stride(len(p.Jobs)))
			}
			if err != nil {
				return inspect.JobPage{}, err
			}
			if len(p.Jobs) == l.Limit || w.late {
				p.Next, p.Examined, p.Truncated = listing.Cursor(l.name, k), w.examined, len(p.Jobs) < l.Limit
				return p, nil
			}
		}
	}
	p.Examined = w.examined
	return p, nil
}

// stride is how many jobs to look at next when a page without an order has so many.
func (l *list) stride(rows int) int {
	if l.Filter == (inspect.JobFilter{}) && len(l.States) == 0 {
		return min(l.Limit-rows, jobsPerVisit)
	}
	return jobsPerVisit
}

// add puts a job on the page, with what its payload says.
func (l *list) add(p *inspect.JobPage, v *shard.View) error {
	info, err := l.q.Info(v)
	p.Jobs = append(p.Jobs, info)
	return err
}

// Info shows a job to people.
func (q Queue) Info(v *shard.View) (inspect.JobInfo, error) {
	info := inspect.JobInfo{
		Queue: q.Name, ID: v.ID, State: pick.State(v), Due: time.Unix(0, v.Due), Attempt: v.Retry + admin.FirstAttempt,
		LastError: brief.Cut(v.LastError, errorBytes), Payloads: v.Payloads,
	}
	var e journal.Entry
	found, err := v.First.Peek(&e)
	if !found || err != nil {
		return info, q.in.Border(err)
	}
	info.PayloadInfo = admin.PreviewOf(admin.PayloadOf(&e))
	return info, nil
}
