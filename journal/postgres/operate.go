package postgres

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// Operator acts on the jobs of queues that are registered here, in all partitions that a Selection means: by itself where
// this node owns them, and otherwise the owner acts when he has taken in what was enqueued before. Counts are sums, except
// that Pause and Resume of a queue or a prefix count it once. Each call waits until all owners have answered, a partition
// without one included, so bound ctx. With an error, some partitions may be done. It matches executor.ErrUnknown
// when one of them may be done, because its owner has begun and did not answer; otherwise those that are not counted are not
// done, and will not be, as far as the methods of an executor say so. Positions need ids beside them: each partition has its own.
func (n *Node) Operator() inspect.Operator { return operator{n} }

type operator struct{ n *Node }

func (o operator) RunNow(ctx context.Context, which inspect.Selection) (int, error) {
	return o.count(ctx, "run", which)
}

func (o operator) RetryNow(ctx context.Context, which inspect.Selection) (int, error) {
	return o.count(ctx, "retry", which)
}

func (o operator) Cancel(ctx context.Context, which inspect.Selection, reason string) (int, error) {
	did, err := o.all(ctx, deed{"cancel", which, reason})
	return did.Back, err
}

func (o operator) Delete(ctx context.Context, which inspect.Selection) (int, error) {
	return o.count(ctx, "delete", which)
}

func (o operator) KillFailed(ctx context.Context, which inspect.Selection) (int, error) {
	return o.count(ctx, "kill-failed", which)
}

func (o operator) DeleteFailed(ctx context.Context, which inspect.Selection) (int, error) {
	return o.count(ctx, "delete-failed", which)
}

func (o operator) Requeue(ctx context.Context, which inspect.Selection) (inspect.Requeued, error) {
	return o.all(ctx, deed{"requeue", which, ""})
}

func (o operator) DeleteDead(ctx context.Context, which inspect.Selection) (int, error) {
	return o.count(ctx, "delete-dead", which)
}

func (o operator) Pause(ctx context.Context, which inspect.Selection) (int, error) {
	return o.pause(ctx, "pause", which)
}

func (o operator) Resume(ctx context.Context, which inspect.Selection) (int, error) {
	return o.pause(ctx, "resume", which)
}

func (o operator) pause(ctx context.Context, do string, which inspect.Selection) (int, error) {
	count, err := o.count(ctx, do, which)
	if which.IDs == nil {
		count = min(count, 1)
	}
	return count, err
}

func (o operator) count(ctx context.Context, do string, which inspect.Selection) (int, error) {
	did, err := o.all(ctx, deed{do, which, ""})
	return did.Back, err
}

// deed is what a partition is to do, as it stands in a row of the inbox: not as JSON, because ids are any bytes.
type deed struct {
	Do     string
	Which  inspect.Selection
	Reason string
}

// all has each partition that is meant do it, side by side.
func (o operator) all(ctx context.Context, d deed) (sum inspect.Requeued, err error) {
	if ctx == nil {
		return sum, errNilContext
	}
	parts, err := o.parts(&d.Which)
	if err != nil {
		return sum, err
	}
	var mu sync.Mutex
	var calls sync.WaitGroup
	for number, ids := range parts {
		calls.Go(func() {
			part := d
			part.Which.IDs = ids
			did, partErr := o.n.do(ctx, number, &part)
			mu.Lock()
			defer mu.Unlock()
			sum.Back, sum.Superseded, sum.Late, sum.Unsure = sum.Back+did.Back, sum.Superseded+did.Superseded, sum.Late+did.Late, sum.Unsure+did.Unsure
			if partErr != nil {
				err = errors.Join(err, fmt.Errorf("partition %d: %w", number, partErr))
			}
		})
	}
	calls.Wait()
	return sum, err
}

// parts are the partitions that are meant, each with its ids; nil: any.
func (o operator) parts(which *inspect.Selection) (map[int][]string, error) {
	parts := make(map[int][]string)
	if _, err := o.n.probe.Lookup(which.Queue); err != nil && !which.Whole {
		return nil, err
	}
	switch {
	case which.Positions != nil && len(which.Positions) == 0: // no payload is meant
		return nil, nil
	case which.IDs == nil && which.Positions != nil:
		return nil, fmt.Errorf("%w: positions without ids: each partition has its own; use SelectIDs and At", inspect.ErrInvalidQuery)
	case which.IDs == nil:
		for number := range o.n.divide.Nodes {
			parts[number] = nil
		}
	}
	for _, id := range which.IDs {
		number, err := o.n.PartitionOf(id)
		if err != nil {
			return nil, err
		}
		parts[number] = append(parts[number], id)
	}
	return parts, nil
}

// do has a partition do it, here or where its owner is.
func (n *Node) do(ctx context.Context, number int, d *deed) (did inspect.Requeued, err error) {
	if p := n.owned(number); p != nil && p.taker.gate(ctx, deeds) == nil {
		if did, err = d.done(ctx, p); gone(err) {
			err = fmt.Errorf("%w: the partition is given away: %w", executor.ErrUnknown, err)
		}
		return did, err
	}
	var text bytes.Buffer
	_ = gob.NewEncoder(&text).Encode(d) // does not fail
	a, token, err := n.asking.ask(ctx, place{partition: number}, deedVersion, item{Payload: text.Bytes()})
	switch {
	case err != nil && token.Valid && n.recall(token):
		return did, n.outbox.cause(ctx)
	case err != nil:
		return did, err
	case a.Did != nil:
		did = *a.Did
	}
	if a.Lost {
		return did, fmt.Errorf("%w: the partition was given away before its owner has answered", executor.ErrUnknown)
	}
	return did, a.err()
}

// recall takes a question back, unless its owner has begun.
func (n *Node) recall(token pgtype.UUID) (gone bool) {
	err := onConnection(n.base, n.pool, attemptTime, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, n.texts["recall"], token).Scan(&gone)
	})
	return gone && err == nil
}

// answer returns what does it for another node.
func (d *deed) answer(p *partition) func(context.Context) answer {
	return func(ctx context.Context) answer {
		did, err := d.done(ctx, p)
		a := answerOf(nil, err)
		a.Did, a.Lost = &did, gone(err) || ctx.Err() != nil
		return a
	}
}

// done does it where the partition is.
func (d *deed) done(ctx context.Context, p *partition) (inspect.Requeued, error) {
	return inspect.Act(ctx, p.x.Inspect(), d.Do, d.Which, d.Reason)
}

// gone reports whether the executor of a partition has ended.
func gone(err error) bool {
	return errors.Is(err, executor.ErrClosed) || errors.Is(err, executor.ErrFailed)
}
