package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
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
	parts map[place][]byte
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
	quiet   chan struct{} // closed when busy ends, for drain; nil: nobody waits
}

// put waits until a call is committed. Nothing was accepted when it returns an error, but
// executor.ErrUnknown.
func (o *outbox) put(ctx context.Context, parts map[place][]byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c := &outCall{parts: parts, done: make(chan error, 1)}
	for _, b := range parts {
		c.size += len(b)
	}
	o.mu.Lock()
	if o.n.base.Err() != nil {
		o.mu.Unlock()
		return fmt.Errorf("%w: the node was stopped", executor.ErrClosed)
	}
	o.pending = append(o.pending, c)
	if !o.busy {
		o.busy = true
		o.n.tasks.Go(o.flush)
	}
	o.mu.Unlock()
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
	}
	if o.withdraw(c) {
		return context.Cause(ctx)
	}
	select {
	case err := <-c.done:
		return err
	default:
		return fmt.Errorf("%w: the flush was under way: %w", executor.ErrUnknown, context.Cause(ctx))
	}
}

// withdraw takes a call back that no flush has yet.
func (o *outbox) withdraw(c *outCall) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, other := range o.pending {
		if other == c {
			o.pending = append(o.pending[:i:i], o.pending[i+1:]...)
			return true
		}
	}
	return false
}

// flush writes what is pending until there is nothing.
func (o *outbox) flush() {
	for {
		o.mu.Lock()
		size, count := 0, 0
		for count < len(o.pending) && count < rowCalls && (count == 0 || size+o.pending[count].size <= flushBytes) {
			size += o.pending[count].size
			count++
		}
		calls := o.pending[:count:count]
		o.pending = o.pending[count:]
		if count == 0 {
			o.busy, o.pending = false, nil
			if o.quiet != nil {
				close(o.quiet)
				o.quiet = nil
			}
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		err := o.n.insert(calls)
		for _, c := range calls {
			c.done <- err
		}
	}
}

// drain waits until what was accepted is written, or ctx ends.
func (o *outbox) drain(ctx context.Context) {
	o.mu.Lock()
	if !o.busy {
		o.mu.Unlock()
		return
	}
	if o.quiet == nil {
		o.quiet = make(chan struct{})
	}
	quiet := o.quiet
	o.mu.Unlock()
	select {
	case <-quiet:
	case <-ctx.Done():
	}
}

// rows are rows of the inbox as the server gets them.
type rows struct {
	partitions []int
	queues     []string
	calls      [][]byte
	tokens     []pgtype.UUID
}

// rowsOf makes one row of all parts for one place, in the order of the calls.
func rowsOf(calls []*outCall) (r rows) {
	var order []place
	parts := make(map[place][][]byte)
	for _, c := range calls {
		for at, b := range c.parts {
			if parts[at] == nil {
				order = append(order, at)
			}
			parts[at] = append(parts[at], b)
		}
	}
	for _, at := range order {
		token := pgtype.UUID{Valid: true}
		_, _ = rand.Read(token.Bytes[:]) // does not fail
		r.partitions, r.queues = append(r.partitions, at.partition), append(r.queues, at.queue)
		r.calls, r.tokens = append(r.calls, row(parts[at]...)), append(r.tokens, token)
	}
	return r
}

// insert writes calls into the inbox, all or none, however long that takes: a call of the
// server without an answer is made again, with the same tokens.
func (n *Node) insert(calls []*outCall) error {
	r, pause := rowsOf(calls), firstPause
	size := 0
	for _, c := range r.calls {
		size += len(c)
	}
	asked := false // an outcome is not known
	began := time.Now()
	for {
		err := onConnection(n.base, n.pool, silence(attemptTime, size), func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, n.texts.put, r.partitions, r.queues, r.calls, r.tokens)
			return err
		})
		switch {
		case err == nil:
			n.hint(r.partitions)
			return nil
		case refusedForGood(err) && !asked:
			err = translated(err)
			if errors.Is(err, format.ErrFull) {
				return fmt.Errorf("%w: %w", executor.ErrFull, err)
			}
			return fmt.Errorf("postgres: the inbox: %w", err)
		case asked && time.Since(began) > longestDoubt:
			return fmt.Errorf("%w: the server has not answered for %v: %w", executor.ErrUnknown, time.Since(began), err)
		case !refusedForGood(err):
			asked = true
		}
		t := time.NewTimer(pause)
		pause = min(pause*2, longestPause)
		select {
		case <-n.base.Done():
			t.Stop()
			return fmt.Errorf("%w: the node was stopped while the server did not answer: %w", executor.ErrUnknown, err)
		case <-t.C:
		}
	}
}

// hint wakes the owners of partitions: here directly, elsewhere by NOTIFY.
func (n *Node) hint(partitions []int) {
	var remote []int
	for _, number := range partitions {
		if p := n.owned(number); p != nil {
			poke(p.taker.wake)
		} else {
			remote = append(remote, number)
		}
	}
	if len(remote) > 0 {
		n.notifier.rows(remote...)
	}
}
