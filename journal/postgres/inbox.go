package postgres

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cluster"
)

const (
	// pollEvery is how often an idle inbox is looked at without a hint.
	pollEvery = time.Second
	// fullPause is how long rows wait that the backlog has no room for.
	fullPause = 20 * time.Millisecond
	// unknownEvery is how often rows of unknown queues are looked for.
	unknownEvery = 30 * time.Second
)

// deeds is the order of questions that wait for no queue, and whose rows have none.
const deeds = "deeds"

// taker moves the rows of an owned partition from the inbox into the log, in passes. A pass
// begins with a look at the inbox, and ends when all that was there then is in the log, or
// waits for a reason. Callers of this node wait for a pass that began after them, so that
// what was acknowledged before they called is ahead of them, whoever enqueued it.
type taker struct {
	p      *partition
	orders map[string]string // of queues, by all of their names: what their payloads are in order within
	queues map[string]string // by these names, what they are called now
	names  []string          // all of them
	offset int64             // of the source that stands for the inbox
	wake   chan struct{}     // holds a token
	looked time.Time         // for unknown queues

	mark  mark            // what is to be the floor
	floor atomic.Int64    // what a pass takes in has a number above it: nothing else may come
	held  map[string]bool // orders whose rows have waited for room in the last pass: above low, and not the floor
	low   int64

	trouble   trouble        // with passes
	answering sync.WaitGroup // those who find answers to questions
	answers   answers        // that the server does not have yet

	// mu guards what follows.
	mu     sync.Mutex
	next   *pass
	closed bool
	others map[string]int // what waits for queues that the node does not have: rows, and payloads in the log
}

// pass is one look at the inbox.
type pass struct {
	done    chan struct{}
	wanted  bool
	err     error            // it was given up; before done is closed, as what follows
	blocked map[string]error // orders whose later rows wait, too
}

func newPass() *pass { return &pass{done: make(chan struct{}), blocked: make(map[string]error)} }

// block has the later rows of an order wait, and its callers. What waits for room that all queues share has its turn
// before the callers of any of them, who would stand in line before it again and again.
func (p *pass) block(t *taker, order string, err error) {
	p.blocked[order] = err
	if full, is := errors.AsType[*executor.FullError](err); is && !full.Disk && full.Queue == "" && t.p.n.cfg.Executor.WaitForRoom {
		for _, other := range t.orders {
			if other != deeds {
				p.blocked[other] = err
			}
		}
	}
}

// errTakerClosed is what callers get when the partition is lost, or given away.
var errTakerClosed = errors.New("postgres: the partition is not served any longer")

func newTaker(p *partition) *taker {
	t := &taker{p: p, orders: map[string]string{"": deeds}, wake: make(chan struct{}, 1), next: newPass()}
	queues, lanes := cluster.Names(p.x)
	for name, queue := range queues {
		switch {
		case name == "" || !validText(name): // the server has none
		case lanes[queue] != "":
			t.orders[name] = "lanes " + lanes[queue]
		default:
			t.orders[name] = "queue " + queue
		}
	}
	t.queues, t.names = queues, slices.Sorted(maps.Keys(t.orders))
	return t
}

// gate waits for a pass that begins from now on. The error is why rows of the order wait, or
// why there was no pass.
func (t *taker) gate(ctx context.Context, order string) error {
	t.mu.Lock()
	p, closed := t.next, t.closed
	p.wanted = true
	t.mu.Unlock()
	if closed {
		return errTakerClosed
	}
	poke(t.wake)
	select {
	case <-p.done:
		return cmp.Or(p.err, p.blocked[order])
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stop ends run once it has finished what it is at.
func (t *taker) stop() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	poke(t.wake)
}

// begin returns the pass that begins now; nil: none does any longer.
func (t *taker) begin() (p *pass) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed = t.closed || t.p.ctx.Err() != nil; t.closed {
		t.next.err = errTakerClosed
		close(t.next.done)
		return nil
	}
	p, t.next = t.next, newPass()
	return p
}

func (t *taker) run() {
	told := time.Time{}
	for p := t.begin(); p != nil; p = t.begin() {
		began := time.Now()
		p.err = t.pass(p)
		failed := p.err
		if failed != nil && t.ends(failed) {
			failed = nil
		}
		t.trouble.note(began, failed)
		close(p.done)
		if failed != nil && time.Since(told) >= tellEvery {
			t.p.n.lines.tell(levelOf(failed), "the inbox can't be taken in", t.p.number, slog.Any("error", failed))
			told = time.Now()
		}
		pause := pollEvery
		if failed != nil || len(p.blocked) > 0 {
			pause = fullPause
		}
		t.rest(pause, min(2*time.Since(began), hintEvery))
	}
}

// rest waits for a hint, no longer than most. One that comes sooner than least waits until then, so that a pass finds
// more on a busy server; where a caller waits for the pass it does not.
func (t *taker) rest(most, least time.Duration) {
	soonest := time.Now().Add(least)
	for most > 0 {
		select {
		case <-t.wake:
		case <-time.After(most):
			return
		case <-t.p.ctx.Done():
			return
		}
		t.mu.Lock()
		if most = time.Until(soonest); t.next.wanted || t.closed {
			most = 0
		}
		t.mu.Unlock()
	}
}

// pass takes in what is there. With all of it in the log, what is up to a mark is out of the way of the next pass, which
// does not step over what waits for room either, but for who waits for that.
func (t *taker) pass(p *pass) error {
	if time.Since(t.looked) > unknownEvery {
		t.looked, t.low = time.Now(), 0
		t.floor.Store(0) // a person may have set refused to null
		if err := t.tellUnknown(); err != nil {
			return err
		}
	}
	floor := t.floor.Load()
	held, err := t.takeAfter(p, t.low, func(order string) bool { return t.held[order] })
	if err != nil {
		return err
	}
	first, err := t.takeAfter(p, floor, func(string) bool { return true })
	if err != nil || p.blocked[deeds] != nil { // what was taken apart is above the floor
		return err
	}
	if len(t.held) == 0 {
		t.low = floor
	}
	t.held = make(map[string]bool)
	for order := range p.blocked {
		t.held[order] = true
	}
	first.last = cmp.Or(first.last, held.last)
	t.raise(first)
	return nil
}

// takeAfter takes in the rows of some orders that come after a number, page by page, and returns the first one.
func (t *taker) takeAfter(p *pass, after int64, of func(order string) bool) (first page, err error) {
	for {
		queues := slices.DeleteFunc(slices.Clone(t.names), func(name string) bool { return p.blocked[t.orders[name]] != nil || !of(t.orders[name]) })
		if len(queues) == 0 {
			return first, nil
		}
		next, err := t.page(after, first.last, queues)
		if err != nil {
			return first, err
		}
		if first.begun == 0 {
			first = next
		}
		if len(next.rows) == 0 {
			return first, nil
		}
		after = next.rows[len(next.rows)-1].number
		for rest, n := next.rows, 0; len(rest) > 0; rest = rest[n:] {
			n = untilDeed(rest)
			if err := t.takePage(p, rest[:n]); err != nil {
				return first, err
			}
		}
		if after >= *first.last {
			return first, nil
		}
	}
}

// untilDeed is how many rows come before the next deed that has rows of a queue ahead of it: it is to find their payloads.
func untilDeed(rows []inRow) (n int) {
	for n = 1; n < len(rows) && (rows[n].queue != "" || rows[n-1].queue == ""); n++ {
	}
	return n
}

// takePage takes rows in: those of one order in their order, and as many together as may be.
func (t *taker) takePage(p *pass, page []inRow) (err error) {
	var orders []string
	rows := make(map[string][]inRow)
	for _, r := range page {
		order := t.orders[r.queue]
		if rows[order] == nil {
			orders = append(orders, order)
		}
		rows[order] = append(rows[order], r)
	}
	defer func() { // what was accepted is, also if what came after it was not
		err = cmp.Or(err, t.answer(&t.answers))
		t.answers = answers{}
	}()
	for _, order := range orders {
		alone := 0 // so many go one by one, because they were refused together
		for rest := rows[order]; len(rest) > 0 && p.blocked[order] == nil; alone-- {
			some := rest
			if alone > 0 {
				some = rest[:1]
			}
			g, err := t.together(some)
			group := g.rows
			if err == nil {
				err = t.take(g)
			}
			switch {
			case err == nil:
				rest = rest[len(group):]
			case waits(err):
				p.block(t, order, err)
			case !t.refusal(err):
				return err
			case len(group) > 1:
				alone = len(group) + 1 // with this round
			default:
				split, err := t.refuse(group[0], err)
				if err != nil {
					return err
				}
				if rest = rest[1:]; split {
					p.blocked[order], p.blocked[deeds] = errSplit, errSplit // its calls come with the next pass, before what is behind it
					poke(t.wake)
				}
			}
		}
	}
	return nil
}

// errSplit is why the rows behind one that was split wait.
var errSplit = errors.New("postgres: a row of the inbox was taken apart, because one of its calls was refused")

// unserved returns what waits for queues that the node does not have, by their names.
func (t *taker) unserved() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.others
}

// tellUnknown notes rows of queues that are not registered, and payloads in the log, and logs the
// first of each queue. They wait.
func (t *taker) tellUnknown() error {
	others := make(map[string]int)
	err := t.p.store.patient(func(ctx context.Context, conn *pgx.Conn) error {
		clear(others)
		rows, _ := conn.Query(ctx, t.p.n.texts["unknown"], t.p.number, t.names)
		var queue string
		var count int
		_, err := pgx.ForEachRow(rows, []any{&queue, &count}, func() error { others[queue] = count; return nil })
		return err
	})
	if err != nil {
		return err
	}
	stats, err := t.p.x.Stats(t.p.ctx)
	if err != nil {
		return err
	}
	for _, q := range stats.Queues {
		if q.Unclaimed > 0 {
			others[q.Name] += q.Unclaimed
		}
	}
	before := t.unserved()
	for _, queue := range slices.Sorted(maps.Keys(others)) {
		if before[queue] == 0 {
			t.p.n.lines.tell(slog.LevelWarn, "jobs wait for a queue that is not registered here", t.p.number, slog.String("queue", queue))
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.others = others
	return nil
}

// page is what the server shows of the inbox at one moment: rows, and the number of the last that
// there is; all transactions before ended have ended, and none from begun on has begun.
type page struct {
	rows         []inRow
	last         *int64
	ended, begun int64
}

// page reads the rows after a number, up to another one, if that is not nil.
func (t *taker) page(after int64, last *int64, queues []string) (p page, err error) {
	err = t.p.store.patient(func(ctx context.Context, conn *pgx.Conn) error {
		p.rows = p.rows[:0]
		rows, _ := conn.Query(ctx, t.p.n.texts["page"], t.p.number, after, last, queues)
		var r inRow
		_, err := pgx.ForEachRow(rows, []any{&p.ended, &p.begun, &r.number, &r.queue, &r.calls, &r.token, &p.last}, func() error {
			if p.last != nil {
				p.rows = append(p.rows, r)
			}
			r.calls = nil
			return nil
		})
		return err
	})
	return p, err
}

// mark is the number of a row of the inbox, and the first transaction that had not begun when that
// row was seen. A transaction has its own number before its rows have theirs: see the function same.
// So rows up to the mark are there, or never will be, once all transactions before that one have ended.
type mark struct{ number, begun int64 }

// raise is called when all that the first page of a pass had to show is in the log, or held. Without a floor each
// pass would step over all that was taken in since the oldest snapshot in the database, or waits.
func (t *taker) raise(first page) {
	if first.ended >= t.mark.begun {
		t.floor.Store(max(t.floor.Load(), t.mark.number))
		if first.last != nil {
			t.mark = mark{*first.last, first.begun}
		}
	}
}
