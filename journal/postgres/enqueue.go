package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/jackc/pgx/v5"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cluster"
)

// enqueue accepts the items of a call, or none: in one commit of the log when all are of one partition and this node
// owns it, and otherwise in one transaction of the inbox. See cluster.Cluster.
func (o *outbox) enqueue(ctx context.Context, queue string, items []item, conditions []byte) ([]executor.Receipt, error) {
	if err := o.ended(); err != nil {
		return nil, err
	}
	divided, err := o.divided(items)
	if err != nil {
		return nil, err
	}
	if conditions != nil && len(divided) > 1 {
		return nil, fmt.Errorf("%w: IfAbsent, IdempotencyKey and FromSource need one answer; make a call for each of %d partitions", executor.ErrInvalidKey, len(divided))
	}
	parts := make(map[place][]byte, len(divided))
	for number, of := range divided {
		if len(divided) == 1 {
			if p, err := o.gate(ctx, number, queue); err != nil {
				return nil, err
			} else if p != nil {
				receipts, err := p.enqueue(ctx, queue, items, conditions)
				if !p.gone(err) || errors.Is(err, executor.ErrUnknown) { // or nothing was accepted, and the inbox can have it
					return receipts, err
				}
			}
		}
		at := place{number, queue}
		parts[at] = encodeCall(of)
		if conditions != nil {
			parts[at] = rowOf([]byte{conditionVersion}, conditions, parts[at])
		}
	}
	token, err := o.put(ctx, parts, conditions != nil)
	var a answer
	if err == nil && conditions != nil {
		a, err = o.n.asking.wait(ctx, token)
	}
	if err = cmp.Or(err, a.err()); err != nil {
		return nil, err
	}
	return a.receipts(items), nil
}

// gate returns a partition of this node once its log has what the inbox had for a queue; nil: the inbox is to have the
// call. A handler is not kept waiting for what may wait for it.
func (o *outbox) gate(ctx context.Context, number int, queue string) (*partition, error) {
	for full := error(nil); ; _ = retryAfter(ctx, new(fullPause)) {
		p := o.n.owned(number)
		if p == nil {
			return nil, nil
		}
		switch err := p.taker.gate(ctx, p.taker.orders[queue]); {
		case err == nil:
			return p, nil
		case ctx.Err() != nil && full != nil:
			return nil, fmt.Errorf("%w, while waiting for room: %w", context.Cause(ctx), full)
		case ctx.Err() != nil:
			return nil, p.store.trouble.explain(context.Cause(ctx), "the server can't be used")
		case !errors.Is(err, executor.ErrFull) || ctx.Value(partitionKey{}) != nil:
			return nil, nil
		default:
			if f, is := errors.AsType[*executor.FullError](err); !is || f.Disk || !o.n.cfg.Executor.WaitForRoom {
				return nil, err
			}
			full = err
		}
	}
}

// enqueue puts a call into the log.
func (p *partition) enqueue(ctx context.Context, queue string, items []item, conditions []byte) ([]executor.Receipt, error) {
	options, err := cluster.Carried(conditions)
	x, unknown := p.x.Lookup(queue) // registered before the partition is served
	if err = cmp.Or(err, unknown); err != nil {
		return nil, err
	}
	receipts, err := x.EnqueueMany(ctx, items, options...)
	if err != nil && ctx.Err() != nil {
		err = p.store.trouble.explain(err, "the server can't be used")
	}
	return receipts, err
}

// divided are items by their partitions; due times become those of the server's clock.
func (o *outbox) divided(items []item) (map[int][]item, error) {
	parts, size := make(map[int][]item), 0
	for i := range items {
		it := &items[i]
		number, err := o.n.PartitionOf(it.ID)
		if err != nil {
			return nil, err
		}
		size += len(it.ID) + len(it.Payload) + itemBytes
		for key, value := range it.Metadata {
			size += len(key) + len(value) + 2*binary.MaxVarintLen16
		}
		if i > 0 && size > callBytes {
			return nil, fmt.Errorf("item %d: %w: with this one the call has %d bytes, the limit is %d; make several calls", i, executor.ErrTooLarge, size, callBytes)
		}
		if !it.Due.IsZero() {
			it.Due = o.clock.byServer(it.Due, o.n.now())
		}
		parts[number] = append(parts[number], *it)
	}
	return parts, nil
}

// errExited is that of user code which has ended its goroutine, after whatever it did.
var errExited = errors.New("postgres: the function called runtime.Goexit")

// guarded calls user code on a goroutine of its own, which that may end.
func guarded(f func() error) error {
	err := errExited
	<-returned(func() {
		defer func() {
			if v := recover(); v != nil {
				err = &executor.PanicError{Value: v, Stack: string(debug.Stack())}
			}
		}()
		err = f()
	})
	return err
}

// returned calls f, which may block, and is closed when f has returned.
func returned(f func()) <-chan struct{} {
	over := make(chan struct{})
	go func() { defer close(over); f() }()
	return over
}

// EnqueueTx puts a payload into the inbox with the caller's transaction: it is accepted if and
// only if that commits, and runs after it. Rolled back, to a savepoint, too, it leaves nothing.
// The transaction is one of the database that has the schema, and its role may insert there; it
// is as durable as its synchronous_commit. Calls in one transaction keep their order.
//
// Of the calls of a node one in 50 ms has its transaction notify the owner, because such transactions commit one after
// the other. For the others the node notifies twice within 100 ms of the call; what commits after that the owner finds
// within a second. The server prepares no transaction that has notified: this is not for one of a two-phase commit.
//
// A payload has MaxPayloadBytes of Config.Executor at most; it is executor.ErrTooLarge otherwise.
// What IdempotencyKey, FromSource and IfAbsent say is decided by the owner, when it takes the payload
// in: what was accepted before, or is not to be, is dropped then, and nobody is told. It
// returns the errors of Enqueue about the call, and what the server says, which has
// failed the transaction then.
func EnqueueTx[T any](ctx context.Context, tx pgx.Tx, q *executor.Queue[T], id string, payload T, options ...executor.Option) error {
	return enqueueTx(ctx, tx != nil, q, id, payload, options, func(sql string, args ...any) error {
		_, err := tx.Exec(ctx, sql, args...)
		return err
	})
}

// EnqueueSQL is [EnqueueTx] for a transaction of database/sql, with a driver whose
// placeholders are those of PostgreSQL.
func EnqueueSQL[T any](ctx context.Context, tx *sql.Tx, q *executor.Queue[T], id string, payload T, options ...executor.Option) error {
	return enqueueTx(ctx, tx != nil, q, id, payload, options, func(sql string, args ...any) error {
		_, err := tx.ExecContext(ctx, sql, args...)
		return err
	})
}

func enqueueTx[T any](ctx context.Context, given bool, q *executor.Queue[T], id string, payload T, options []executor.Option, exec func(string, ...any) error) error {
	n := NodeOf(q.Executor())
	switch {
	case !given:
		return fmt.Errorf("%w: no transaction; give the one that the payload is to commit with", executor.ErrConfig)
	case n == nil:
		return fmt.Errorf("%w: the queue is not of an executor that Open of this package returned", executor.ErrState)
	case ctx == nil:
		return errNilContext
	case n.outbox.ended() != nil:
		return n.outbox.ended()
	case ctx.Err() != nil: // before the transaction hears of it
		return context.Cause(ctx)
	}
	items, conditions, err := cluster.Carry(q, []executor.Item[T]{{ID: id, Payload: payload}}, options...)
	if err != nil {
		return err
	}
	number, err := n.PartitionOf(items[0].ID)
	if err != nil {
		return err
	}
	if due := &items[0].Due; !due.IsZero() {
		*due = n.outbox.clock.byServer(*due, n.now())
	}
	calls := row(encodeCall(items))
	if conditions != nil {
		calls = rowOf([]byte{txVersion}, conditions, encodeCall(items))
	}
	text, args := "insert", []any{number, q.Name(), calls}
	if n.notifier.transaction(number) {
		text, args = "insertHint", append(args, n.texts["channel"], hintOf(number))
	}
	if err = exec(n.texts[text], args...); err != nil {
		return fmt.Errorf("postgres: enqueue in a transaction: %w", translated(because(ctx, err)))
	}
	return nil
}
