package postgres

import (
	"bytes"
	"cmp"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/strandjobs/strand/executor"
)

// Wait returns when the payload of a receipt has ended, with what executor.Queue.Wait says of it, on any node: the
// owner of the partition is asked. When he ends, or gives it away, the next one is: a job that was not settled runs
// again, and the wait goes on. What has ended between two owners is taken for done, unless it is a dead letter. Only
// ctx, and the end of this node, end the wait before, with an executor.PendingError: without an owner that has the
// queue it goes on. executor.ErrDeadlock is of a handler on the owner's node. The receipt of a payload in the inbox
// has no position, and is executor.ErrInvalidID: an IdempotencyKey, say, has the owner give it one.
func (q *Queue[T]) Wait(ctx context.Context, r executor.Receipt) error {
	switch {
	case q == nil || q.n == nil:
		return errNoQueue
	case ctx == nil:
		return errNilContext
	case r.ID == "" || r.Position == 0:
		return fmt.Errorf("%w: the receipt has id %q and position %d, which is no payload", executor.ErrInvalidID, r.ID, r.Position)
	}
	number, err := q.n.PartitionOf(r.ID)
	if err != nil {
		return err
	}
	position, _ := json.Marshal([]uint64{r.Position, r.MergedInto}) // does not fail
	_, handler := ctx.Value(partitionKey{}).(*partition)
	a := answer{Lost: true}
	for a.Lost {
		if p := q.n.owned(number); p != nil {
			err = p.await(ctx, q.name, r)
			if pending, _ := errors.AsType[*executor.PendingError](err); pending == nil || handler || ctx.Err() != nil { // otherwise the next owner tells
				return err
			}
		}
		a, _, err = q.n.asking.ask(ctx, place{number, q.name}, waitVersion, item{ID: r.ID, Payload: position})
		if err != nil {
			return &executor.PendingError{Receipt: r, Err: cmp.Or(context.Cause(ctx), q.n.outbox.ended(), err)}
		}
	}
	return a.err()
}

// await waits for the end of a payload of the partition.
func (p *partition) await(ctx context.Context, queue string, r executor.Receipt) error {
	x, err := p.x.Lookup(queue)
	if err == nil {
		err = x.Wait(ctx, r)
	}
	return err
}

// hear has those who ask on other nodes hear of an answer, unless the ownership ends before. Who waits for a payload
// may have gone: if not, he asks again after a while.
func (t *taker) hear(row inRow, it item) error {
	find, err := t.question(row, it)
	if err != nil {
		return err
	}
	ours := false
	err = t.p.store.patient(func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, t.p.n.texts["hear"], t.p.number, t.p.epoch(), row.number, row.token).Scan(&ours)
	})
	if err != nil || !ours {
		return err
	}
	t.p.n.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(t.p.ctx, t.p.n.longestWait)
		defer cancel()
		a := find(ctx)
		if t.p.ctx.Err() == nil && (!a.Lost || ctx.Err() != nil) {
			var own answers
			own.add(row, a)
			_ = t.answer(&own) // it is lost with the ownership
		}
	})
	return nil
}

// question returns what finds the answer to a question.
func (t *taker) question(row inRow, it item) (find func(context.Context) answer, err error) {
	if row.calls[0] == deedVersion {
		d := new(deed)
		return d.answer(t.p), gob.NewDecoder(bytes.NewReader(it.Payload)).Decode(d)
	}
	at := [2]uint64{}
	find = func(ctx context.Context) (a answer) {
		err := t.p.await(ctx, row.queue, executor.Receipt{ID: it.ID, Position: at[0], MergedInto: at[1]})
		a = answerOf(nil, err)
		_, a.Lost = err.(*executor.PendingError)
		return a
	}
	return find, json.Unmarshal(it.Payload, &at)
}
