package postgres

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/strandjobs/strand/executor"
)

// EnqueueTx puts a payload into the inbox with the caller's transaction: it is accepted if and
// only if that commits, and runs after it. Rolled back, to a savepoint, too, it leaves nothing.
// The transaction is one of the database that has the schema, and its role may insert there; it
// is as durable as its synchronous_commit. Calls in one transaction keep their order.
//
// Transactions that notify commit one after the other, and so one in 50 ms of a node does. When
// others commit later than that after the call, the owner finds the payload within a second.
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
		return fmt.Errorf("%w: no transaction; give the one that the payload is to commit with", ErrConfig)
	case n == nil:
		return fmt.Errorf("%w: the queue is not of an executor that Open of this package returned", executor.ErrState)
	case ctx == nil:
		return errNilContext
	case n.outbox.ended() != nil:
		return n.outbox.ended()
	case ctx.Err() != nil: // before the transaction hears of it
		return context.Cause(ctx)
	}
	items, conditions, err := q.Carry([]executor.Item[T]{{ID: id, Payload: payload}}, options...)
	if err != nil {
		return err
	}
	number, err := n.PartitionOf(items[0].ID)
	if err != nil {
		return err
	}
	if due := &items[0].Due; !due.IsZero() {
		*due = n.byServer(*due)
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
