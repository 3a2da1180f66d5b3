package executor

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/internal/listing"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Order says by what a list is sorted.
type Order string

const (
	// OrderNone: jobs about in the order in which their ids came to wait, dead letters in
	// that in which they were accepted. A page costs no more than what is on it, however
	// many there are. The default.
	OrderNone Order = ""
	// OrderID: by id, byte by byte; dead letters of one id by position.
	OrderID Order = "id"
	// OrderDue: jobs by due time, the earliest first; by id where these are equal.
	OrderDue Order = "due"
	// OrderAttempt: jobs by the attempt that runs or comes next, the lowest first; then by
	// due time and id.
	OrderAttempt Order = "attempts"
	// OrderPayloads: jobs by how many payloads they have, the fewest first; with
	// Descending the busiest ids come first. Where these are equal, by Position, and by
	// id if that is not known.
	OrderPayloads Order = "payloads"
	// OrderDied: dead letters by the time of death, then by position.
	OrderDied Order = "died"
)

// check refuses an order that a list does not have.
func (o Order) check(descending bool, has ...Order) error {
	switch {
	case !slices.Contains(has, o):
		return fmt.Errorf("%w: Order is %q; it must be one of %q", ErrInvalidQuery, clip(string(o)), has)
	case o == OrderNone && descending:
		return fmt.Errorf("%w: Descending has no meaning without an Order", ErrInvalidQuery)
	}
	return nil
}

// What a page of a list has.
const (
	// DefaultListLimit is how many rows a page has if the query does not say.
	DefaultListLimit = 25
	// MaxListLimit is how many it has at most.
	MaxListLimit = 1000
	// maxExamined is how many jobs are looked at for a page without an order.
	maxExamined = 100_000
	// errorBytes and previewBytes are how much of an error and a payload a list shows.
	errorBytes   = 1 << 10
	previewBytes = 256
)

// JobQuery says which jobs of a queue to list, in which order, and how many.
type JobQuery struct {
	Queue string // by name; it must be registered

	// States are those that are wanted: JobReady, JobScheduled, JobRetrying, JobParked,
	// JobHalted and JobRunning; or JobFresh, for jobs in any of them that have used up
	// no retry. Default: all.
	States []JobState

	Order      Order
	Descending bool // the other way round; not with OrderNone, which has no other way
	Filter     JobFilter

	// Limit is how many rows the page has at most. 0: DefaultListLimit; above
	// MaxListLimit and below zero it is refused.
	Limit int

	// Cursor is JobPage.Next of the page before; "": the first page. Queue, Order
	// and Descending must be the same, the others may change.
	Cursor string

	// Patience is how long the page may take while the executor has other work to do.
	// When it is over, the page has what was found until then; see Partial and
	// Truncated. 0: as long as ctx lets it; below zero is refused.
	Patience time.Duration
}

// JobPage is a part of a list.
type JobPage struct {
	Jobs []JobInfo
	Next string `wire:",omit"` // the cursor of the next page; "": this is the last one

	Examined int // jobs that were looked at for it
	// Truncated: without an order, the page ends before Limit because so many jobs were
	// examined, or because Patience is over. Next goes on there.
	Truncated bool
	// Partial: with an order, Patience was over before all jobs were examined. Jobs are
	// the first of those that were; others may belong before or between them, and Next,
	// which goes on behind the last one, does not come back to them. A longer Patience
	// shows them.
	Partial bool
}

// JobInfo is a job in a list: what it was at a moment while the list was made. Those
// of different jobs are of different moments.
type JobInfo struct {
	Queue, ID string
	State     JobState  // one of the first six of JobQuery.States
	Due       time.Time // of one that runs, when what waits behind it is due
	Attempt   int       // that runs or comes next: 1, 2, 3, …
	LastError string    // its first KiB; "": its last run did not fail
	Payloads  int       // that wait, run, or failed and wait

	// Of the payload that runs or comes next. Zero if it ended while the list was
	// made.
	Position   uint64
	Score      float64
	EnqueuedAt time.Time
	Bytes      int    // of the payload
	Preview    []byte `wire:"-"` // its first 256 bytes
}

// Jobs lists jobs of a queue, while they go on.
//
// The cursor is the place of the last row in the order: what comes and goes
// meanwhile moves no row to another page. A job that is there all the time, and
// whose place in the order stays, is on exactly one page; one that comes, goes or
// changes meanwhile may be on any number of them. A cursor with an order stays good
// after a restart; one with OrderNone gets ErrInvalidCursor then.
//
// With an order each page takes a look at all jobs of the queue, unless States are
// such that its shards know that they have none: 10⁶ jobs take some 40 ms of a
// processor. Where the id decides, because they are in its order or share a due time, or
// because a filter has a prefix, the ids are read, too, and it is some 150 ms; those of
// which only the disk has a copy are read from there, and stay there. It takes no more
// memory than the page. With OrderNone the page ends when 100,000 jobs were examined,
// with Truncated set, and Next goes on.
//
// The work is done in steps that keep no shard for longer than some tens of
// microseconds. While handlers run, or payloads are accepted, all calls together
// get a fiftieth of each processor, or half of what lies idle if that is more, beyond
// a burst of 50 ms. So beside handlers that wait for something a page comes about as
// soon as at rest. Beside those that compute on all processors a page of a long queue
// may take ten seconds: ctx bounds the wait, and with a Patience there is a page by
// then, be it Partial.
//
// It returns ErrUnknownQueue, ErrInvalidQuery, ErrInvalidCursor, ErrContext,
// ErrClosed, ErrFailed, or the cause of ctx.
func (i *Inspector) Jobs(ctx context.Context, query JobQuery) (JobPage, error) {
	ctx, q, err := i.begin(ctx, query.Queue)
	if err != nil {
		return JobPage{}, err
	}
	l, err := newJobList(q, query)
	if err != nil {
		return JobPage{}, err
	}
	if query.Order == OrderNone {
		return l.asTheyCome(ctx)
	}
	return l.inOrder(ctx)
}

// begin checks what all calls are given.
func (i *Inspector) begin(ctx context.Context, queue string) (context.Context, *queue, error) {
	if i == nil || i.x == nil {
		return nil, nil, errNoInspector
	}
	ctx, err := usable(ctx)
	if err != nil {
		return nil, nil, err
	}
	q, err := i.x.lookup(queue)
	return ctx, q, err
}

var errNoInspector = fmt.Errorf("%w: this inspector is of no executor; Executor.Inspect returns one", ErrState)

// jobList is a query at work.
type jobList struct {
	JobQuery
	q      *queue
	wanted stateSet
	name   string       // of the list that cursors belong to
	after  *listing.Key // nil: from the beginning
	before int64        // the payload was enqueued before that; Unix ns
}

func newJobList(q *queue, query JobQuery) (*jobList, error) {
	l := &jobList{JobQuery: query, q: q, before: math.MaxInt64}
	var err error
	if l.wanted, err = statesOf(query.States); err != nil {
		return nil, err
	}
	if err := query.Filter.check(); err != nil {
		return nil, err
	}
	if err := query.Order.check(query.Descending, OrderNone, OrderID, OrderDue, OrderAttempt, OrderPayloads); err != nil {
		return nil, err
	}
	if l.Limit, err = listLimit(query.Limit); err != nil {
		return nil, err
	}
	if err = checkPatience(query.Patience); err != nil {
		return nil, err
	}
	l.name = fmt.Sprintf("jobs %s %t %s", query.Order, query.Descending, query.Queue)
	if query.Order == OrderNone {
		l.name = fmt.Sprintf("jobs of %x: %s", q.x.inspection.nonce, query.Queue)
	}
	if l.after, err = parseCursor(l.name, query.Cursor); err != nil {
		return nil, err
	}
	if query.Filter.OlderThan > 0 {
		l.before = q.x.clock().Add(-query.Filter.OlderThan).UnixNano()
	}
	return l, nil
}

func listLimit(n int) (int, error) {
	switch {
	case n < 0 || n > MaxListLimit:
		return 0, fmt.Errorf("%w: Limit is %d, it must be from 0, for %d, to %d", ErrInvalidQuery, n, DefaultListLimit, MaxListLimit)
	case n == 0:
		return DefaultListLimit, nil
	}
	return n, nil
}

func parseCursor(list, text string) (*listing.Key, error) {
	if text == "" {
		return nil, nil
	}
	k, ok := listing.Parse(list, text)
	if !ok {
		return nil, fmt.Errorf("%w: %q does not belong to this list: queue, order and direction must be those of the page that it came with, and without an order the process, too",
			ErrInvalidCursor, clip(text))
	}
	return &k, nil
}

// none reports whether a shard with these figures has no job that is wanted.
func (l *jobList) none(c shard.Counts) bool {
	return l.wanted.none(c) || l.Filter.Failed && c.Retrying == 0
}

// picks is what can be told of a job on its shard.
func (l *jobList) picks(v *shard.View) bool {
	f := &l.Filter
	return l.wanted.has(v) && (!f.Failed || v.Retry >= 0) && (f.ErrorContains == "" || v.LastError != "")
}

// matches is the rest of the filter.
func (l *jobList) matches(v *shard.View) (bool, error) {
	if !l.Filter.means(v.ID, v.LastError, v.Retry >= 0) {
		return false, nil
	}
	if l.Filter.OlderThan == 0 {
		return true, nil
	}
	var e journal.Entry
	found, err := v.First.Peek(&e)
	return found && e.AcceptedAt() < l.before, border(err)
}

// inOrder goes through all jobs and keeps the first of them.
func (l *jobList) inOrder(ctx context.Context) (JobPage, error) {
	page := listing.NewPage[shard.View](l.Limit, l.Descending, l.after)
	w := newWalk(l.q)
	var cancel context.CancelFunc
	w.patience, cancel = patient(ctx, l.Patience)
	defer cancel()
	// Most jobs are due in the order in which they came. So the first ones on the page
	// come early, and those behind them are told by a glance.
	w.none, w.back = l.none, l.Descending
	w.want = func(v *shard.View) bool { return l.picks(v) && page.May(l.numbers(v)) }
	w.take = func(_ int, v *shard.View) error {
		ok, err := l.matches(v)
		if err == nil && ok && page.Takes(l.key(v)) {
			v.ID = strings.Clone(v.ID)
			page.Offer(l.key(v), *v)
		}
		return err
	}
	if err := w.all(ctx); err != nil {
		return JobPage{}, err
	}
	rows, last, more := page.Rows()
	p := JobPage{Examined: w.examined, Partial: w.late}
	if more || w.late && len(rows) > 0 {
		p.Next = listing.Cursor(l.name, last)
	}
	for i := range rows {
		if err := l.add(&p, &rows[i]); err != nil {
			return JobPage{}, err
		}
	}
	return p, nil
}

// key is the place of a job in the order.
func (l *jobList) key(v *shard.View) listing.Key {
	first, second := l.numbers(v)
	return listing.Key{First: first, Second: second, ID: v.ID}
}

// numbers are what decides before the id does.
func (l *jobList) numbers(v *shard.View) (first, second int64) {
	switch l.Order {
	case OrderDue:
		return v.Due, 0
	case OrderAttempt:
		return int64(v.Retry), v.Due
	case OrderPayloads:
		return int64(v.Payloads), int64(v.First.Position())
	}
	return 0, 0
}

// asTheyCome goes on behind the last row, shard by shard, until the page is full.
func (l *jobList) asTheyCome(ctx context.Context) (p JobPage, err error) {
	var k listing.Key // the shard, and the place in it, of the last job that is dealt with
	if l.after != nil {
		k = *l.after
	}
	w := newWalk(l.q)
	var cancel context.CancelFunc
	w.patience, cancel = patient(ctx, l.Patience)
	defer cancel()
	w.none, w.want = l.none, l.picks
	w.take = func(s int, v *shard.View) error {
		if len(p.Jobs) == l.Limit {
			return nil
		}
		k.Second = int64(v.Cursor)
		if ok, err := l.matches(v); err != nil || !ok {
			return err
		}
		v.ID = strings.Clone(v.ID)
		return l.add(&p, v)
	}
	for ; int(k.First) < len(w.at); k = (listing.Key{First: k.First + 1}) {
		s := int(k.First)
		for w.at[s] = shard.Cursor(k.Second); !w.over[s]; k.Second = int64(w.at[s]) {
			if w.examined >= maxExamined {
				return l.goesOn(p, w, k), nil
			}
			if err := w.step(ctx, s, l.stride(len(p.Jobs))); err != nil {
				return JobPage{}, err
			}
			if len(p.Jobs) == l.Limit || w.late {
				return l.goesOn(p, w, k), nil
			}
		}
	}
	p.Examined = w.examined
	return p, nil
}

// goesOn ends a page behind which there may be another one.
func (l *jobList) goesOn(p JobPage, w *walk, k listing.Key) JobPage {
	p.Next, p.Examined, p.Truncated = listing.Cursor(l.name, k), w.examined, len(p.Jobs) < l.Limit
	return p
}

// stride is how many jobs to look at next when a page without an order has so many.
func (l *jobList) stride(rows int) int {
	if l.Filter == (JobFilter{}) && len(l.States) == 0 {
		return min(l.Limit-rows, jobsPerVisit)
	}
	return jobsPerVisit
}

// add puts a job on the page, with what its payload says.
func (l *jobList) add(p *JobPage, v *shard.View) error {
	info, err := l.q.info(v)
	p.Jobs = append(p.Jobs, info)
	return err
}

// info shows a job to people.
func (q *queue) info(v *shard.View) (JobInfo, error) {
	info := JobInfo{
		Queue: q.name, ID: v.ID, State: stateOf(v.State), Due: time.Unix(0, v.Due), Attempt: v.Retry + firstAttempt,
		LastError: cut(v.LastError, errorBytes), Payloads: v.Payloads,
	}
	var e journal.Entry
	found, err := v.First.Peek(&e)
	if !found || err != nil {
		return info, border(err)
	}
	info.Position, info.Score, info.EnqueuedAt = uint64(e.Position), e.Score, time.Unix(0, e.AcceptedAt())
	info.Bytes, info.Preview = len(e.Payload), slices.Clone(e.Payload[:min(len(e.Payload), previewBytes)])
	return info, nil
}
