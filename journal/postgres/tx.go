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
// returns the errors of [Queue.Enqueue] about the call, and what the server says, which has
// failed the transaction then.
func (q *Queue[T]) EnqueueTx(ctx context.Context, tx pgx.Tx, id string, payload T, options ...executor.Option) error {
	return q.enqueueTx(ctx, tx != nil, id, payload, options, func(sql string, args ...any) error {
		_, err := tx.Exec(ctx, sql, args...)
		return err
	})
}

// EnqueueSQL is [Queue.EnqueueTx] for a transaction of database/sql, with a driver whose
// placeholders are those of PostgreSQL.
func (q *Queue[T]) EnqueueSQL(ctx context.Context, tx *sql.Tx, id string, payload T, options ...executor.Option) error {
	return q.enqueueTx(ctx, tx != nil, id, payload, options, func(sql string, args ...any) error {
		_, err := tx.ExecContext(ctx, sql, args...)
		return err
	})
}

func (q *Queue[T]) enqueueTx(ctx context.Context, given bool, id string, payload T, options []executor.Option, exec func(string, ...any) error) error {
	if !given {
		return fmt.Errorf("%w: no transaction; give the one that the payload is to commit with", ErrConfig)
	}
	if q == nil || q.n == nil {
		return errNoQueue
	}
	if ctx == nil {
		return errNilContext
	}
	if err := q.n.outbox.ended(); err != nil {
		return err
	}
	if ctx.Err() != nil { // before the transaction hears of it
		return context.Cause(ctx)
	}
	b, err := q.batch([]executor.Item[T]{{ID: id, Payload: payload}}, options)
	if err != nil {
		return err
	}
	number := b.numbers[0]
	calls := row(encodeCall(b.parts[number]))
	if b.conditions != nil {
		calls = rowOf([]byte{txVersion}, b.conditions, encodeCall(b.parts[number]))
	}
	args := []any{number, q.name, calls}
	if q.n.notifier.transaction(number) {
		err = exec(q.n.texts["insertHint"], append(args, q.n.texts["channel"], hintOf([]int{number}))...)
	} else {
		err = exec(q.n.texts["insert"], args...)
	}
	if err != nil {
		return fmt.Errorf("postgres: enqueue in a transaction: %w", translated(because(ctx, err)))
	}
	return nil
}
