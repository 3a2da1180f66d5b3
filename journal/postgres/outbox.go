package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/internal/format"
)

const (
	// flushBytes is how much goes with one flush, unless one call is larger.
	flushBytes = 4 << 20
	// callBytes is how much one call may have, unless that is one payload: PostgreSQL takes a
	// GiB in a message, and can't dump a field of half of that.
	callBytes = 256 << 20
	// rowCalls is how many calls are in one row at most: as many numbers are free after
	// that of a row, so that the row can be split in its place.
	rowCalls = 1000
	// callTime is how long an attempt to write calls may take, by the server's clock, before it is
	// refused; those with more bytes have longer.
	callTime = 2 * time.Second
	// longestDoubt is how long a flush is made again without an answer: less than the tokens
	// of rows that were taken are kept.
	longestDoubt = 30 * time.Minute
)

// place is where a row goes.
type place struct {
	partition int
	queue     string
}

// outCall is a call on its way into the inbox, in parts of one partition and queue each.
type outCall struct {
	ctx   context.Context // of its caller
	parts map[place][]byte
	alone bool        // there is one part, which is a row of its own
	token pgtype.UUID // of that row
	size  int
	done  chan error // holds one
}

// outbox gathers the calls of this node for partitions of others, and writes them into the
// inbox: what comes while one flush is under way goes with the next. So a caller's next call is
// in a later flush, and gets a greater number.
type outbox struct {
	n *Node

	mu      sync.Mutex
	pending []*outCall
	busy    bool
	closed  error         // after drain
	quiet   chan struct{} // closed when busy ends
	until   time.Time     // what the flush has sent is refused when it is later
	clock   serverClock
	trouble trouble // with the server
}

// put waits until a call is committed, and returns the token of its row if that is to be alone. Nothing was accepted when it returns an error, but
// executor.ErrUnknown: then it may have been, and will not be any longer.
func (o *outbox) put(ctx context.Context, parts map[place][]byte, alone bool) (token pgtype.UUID, err error) {
	if ctx.Err() != nil {
		return token, context.Cause(ctx)
	}
	c := &outCall{ctx: ctx, parts: parts, alone: alone, done: make(chan error, 1)}
	for _, b := range parts {
		c.size += len(b)
	}
	o.mu.Lock()
	if o.closed != nil {
		o.mu.Unlock()
		return token, o.closed
	}
	o.pending = append(o.pending, c)
	if !o.busy {
		o.busy, o.quiet = true, make(chan struct{})
		o.n.tasks.Go(o.flush)
	}
	o.mu.Unlock()
	select {
	case err := <-c.done:
		return c.token, err
	case <-ctx.Done():
	}
	until, pending := o.withdraw(c)
	if pending {
		return token, o.cause(ctx)
	}
	select {
	case err := <-c.done:
		return c.token, err
	case <-time.After(time.Until(until)):
		return token, fmt.Errorf("%w: the flush was under way: %w", executor.ErrUnknown, o.cause(ctx))
	}
}

// cause is that of a context, and what the caller has waited for.
func (o *outbox) cause(ctx context.Context) error {
	return o.trouble.explain(context.Cause(ctx), "the inbox can't be written")
}

// withdraw takes a call back that no flush has yet. Any other may be accepted until the time that
// it returns.
func (o *outbox) withdraw(c *outCall) (until time.Time, pending bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.Index(o.pending, c)
	if i >= 0 {
		o.pending = slices.Delete(o.pending, i, i+1)
	}
	return o.until, i >= 0
}

// waiting returns the calls of a flush whose callers wait, and until when an attempt that begins now
// has to be committed: at the first of their deadlines, or after most, if that is earlier. A deadline that is over
// while its context goes on is by a clock that was set: the others of the flush don't wait for that one.
func (o *outbox) waiting(calls []*outCall, most time.Duration) (left []*outCall, until time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	for _, c := range calls {
		if c.ctx.Err() != nil { // and has seen an earlier until
			continue
		}
		left = append(left, c)
		if d, ok := c.ctx.Deadline(); ok && d.After(now) {
			most = min(most, d.Sub(now))
		}
	}
	o.until = now.Add(most) // also where a deadline is by the time of day
	return left, o.until
}

// next returns the calls of the next flush; none: nothing is pending any longer.
func (o *outbox) next() []*outCall {
	o.mu.Lock()
	defer o.mu.Unlock()
	count := flushable(o.pending)
	calls := slices.Clone(o.pending[:count])
	o.pending = slices.Delete(o.pending, 0, count) // what was taken is kept by nobody else
	if count == 0 {
		o.busy, o.pending = false, nil
		close(o.quiet)
	}
	return calls
}

// flush writes what is pending until there is nothing.
func (o *outbox) flush() {
	for calls := o.next(); len(calls) > 0; calls = o.next() {
		calls, err := o.insert(calls)
		if errors.Is(err, executor.ErrUnknown) { // nor will it be accepted after that is said
			time.Sleep(time.Until(o.until))
		}
		for _, c := range calls {
			c.done <- err
		}
	}
}

// insert writes calls into the inbox, all or none, however long that takes: a call of the
// server without an answer is made again, with the same tokens. It leaves out, and answers, those
// whose callers have gone, unless they are there; those that it returns have its answer.
func (o *outbox) insert(calls []*outCall) ([]*outCall, error) {
	f := flight{n: o.n, calls: calls, rows: rowsOf(calls)}
	f.most = silence(callTime, f.bytes)
	pause, began := firstPause, time.Now()
	for {
		sent := time.Now()
		err := onConnection(o.n.base, o.n.pool, silence(attemptTime, f.bytes), f.attempt)
		o.trouble.note(sent, err)
		switch {
		case err == nil:
			o.n.notifier.hint(f.partitions)
			return f.calls, nil
		case errors.Is(err, errLate):
			f.most = max(f.most, min(2*f.most, longestDoubt))
		case refusedForGood(err) && !f.asked:
			err = translated(err)
			if errors.Is(err, format.ErrFull) {
				return f.calls, fmt.Errorf("%w: %w", &executor.FullError{Disk: true, RetryAfter: time.Second}, err)
			}
			return f.calls, fmt.Errorf("postgres: the inbox: %w", err)
		case f.asked && (time.Since(began) > longestDoubt || errors.Is(translated(err), errRemade)):
			return f.calls, fmt.Errorf("%w: the server has not answered for %v: %w", executor.ErrUnknown, time.Since(began), translated(err))
		case !refusedForGood(err):
			f.asked = true
		}
		if retryAfter(o.n.base, &pause) != nil {
			return f.calls, fmt.Errorf("%w: the node was stopped while the server did not answer: %w", executor.ErrUnknown, err)
		}
	}
}

// flushable is how many calls go together.
func flushable(calls []*outCall) (count int) {
	for size := 0; count < min(len(calls), rowCalls); count++ {
		if size += calls[count].size; size > flushBytes && count > 0 {
			break
		}
	}
	return count
}

// ended returns an error for calls that come after drain, which no flush has.
func (o *outbox) ended() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed
}

// drain accepts nothing any longer, and waits until what was accepted is written, or ctx ends.
func (o *outbox) drain(ctx context.Context) {
	o.mu.Lock()
	o.closed = fmt.Errorf("%w: the node was stopped", executor.ErrClosed)
	busy, quiet := o.busy, o.quiet
	o.mu.Unlock()
	if busy {
		select {
		case <-quiet:
		case <-ctx.Done():
		}
	}
}

// rows are rows of the inbox as the server gets them.
type rows struct {
	partitions []int
	queues     []string
	calls      [][]byte
	tokens     []pgtype.UUID
	bytes      int // of their calls
}

// rowsOf makes one row of all parts for one place, in the order of the calls.
func rowsOf(calls []*outCall) (r rows) {
	var order []place
	parts := make(map[place][][]byte)
	for _, c := range calls {
		for at, b := range c.parts {
			if c.alone {
				c.token = r.add(at, b)
				continue
			}
			if parts[at] == nil {
				order = append(order, at)
			}
			parts[at] = append(parts[at], b)
		}
	}
	for _, at := range order {
		r.add(at, row(parts[at]...))
	}
	return r
}

func (r *rows) add(at place, calls []byte) (token pgtype.UUID) {
	token.Valid = true
	_, _ = rand.Read(token.Bytes[:]) // does not fail
	r.partitions, r.queues = append(r.partitions, at.partition), append(r.queues, at.queue)
	r.calls, r.tokens = append(r.calls, calls), append(r.tokens, token)
	r.bytes += len(calls)
	return token
}

// flight is a flush under way.
type flight struct {
	n     *Node
	calls []*outCall
	rows
	most  time.Duration // that an attempt may take
	asked bool          // an outcome is not known
}

// errLate is why the server has refused an attempt that was there too late.
var errLate = errors.New("postgres: the attempt has taken too long")

// attempt calls the server once.
func (f *flight) attempt(ctx context.Context, conn *pgx.Conn) error {
	waiting, until := f.n.outbox.waiting(f.calls, f.most)
	if len(waiting) < len(f.calls) {
		if f.asked { // nothing that was sent may come later
			var there bool
			if err := conn.QueryRow(ctx, f.n.texts["withdraw"], f.tokens).Scan(&there); err != nil || there {
				return err
			}
		}
		for _, c := range f.calls {
			if !slices.Contains(waiting, c) {
				c.done <- f.n.outbox.cause(c.ctx)
			}
		}
		f.asked, f.calls, f.rows = false, waiting, rowsOf(waiting)
	}
	if len(f.calls) == 0 {
		return nil
	}
	clock := &f.n.outbox.clock
	err := clock.read(ctx, conn, f.n.texts["put"], f.partitions, f.queues, f.rows.calls, f.tokens, clock.at(until))
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == lateRows {
		return fmt.Errorf("%w: %w", errLate, errors.Join(err, clock.read(ctx, conn, readClock)))
	}
	return err
}

// serverClock is the server's clock as far as a node knows it from its answers: it shows what at
// returns, or more. The node's own time of day does not count.
type serverClock struct {
	mu          sync.Mutex
	zero, shown time.Time // what it showed at zero, at least
	most        time.Time // and at most
}

const readClock = "SELECT clock_timestamp()"

// read makes a call whose answer is the time.
func (c *serverClock) read(ctx context.Context, q querier, sql string, args ...any) error {
	sent := time.Now()
	var now time.Time
	if err := q.QueryRow(ctx, sql, args...).Scan(&now); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.zero.IsZero() {
		c.zero = sent
	}
	least, most := now.Add(-time.Since(c.zero)), now.Add(-sent.Sub(c.zero))
	if c.shown.Before(least) || c.shown.After(most) { // later: it was set back
		c.shown = least
	}
	if c.most.IsZero() || c.most.After(most) || c.most.Before(least) {
		c.most = most
	}
	return nil
}

func (c *serverClock) at(t time.Time) time.Time { return c.now().Add(time.Until(t)) }

func (c *serverClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.zero.IsZero() { // a store by itself, without a node
		return time.Now()
	}
	return c.shown.Add(time.Since(c.zero))
}

// byServer is the time by the server's clock that a time of day here stands for, where it is now, or later:
// nothing is due too early because an answer took long.
func (c *serverClock) byServer(t, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most.Add(time.Since(c.zero)).Add(t.Sub(now))
}
