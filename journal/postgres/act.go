package postgres

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
)

// Act does what inspect.Act does, to the jobs of queues that are registered here, in all partitions that the Selection
// means: by itself where this node owns them, and otherwise the owner acts when he has taken in what was enqueued before.
// He does not find what the inbox keeps because the backlog is full, or he has not the queue; he may find what is enqueued
// while the call waits. Counts are sums, except that to pause or resume a queue, a prefix or the executor counts once. The
// call waits until all owners have answered, a partition without one included, so bound ctx. With an error, some partitions
// may be done. It matches executor.ErrUnknown when one of them may be done, or may be yet: its owner has begun and did not
// answer, the server was not there, or this node was stopped. Otherwise those that are not counted are not done, and will not
// be, as far as an inspect.Inspector says so. Positions need ids beside them: each partition has its own. Start may come later.
func (n *Node) Act(ctx context.Context, name string, which inspect.Selection, reason string) (sum inspect.Requeued, err error) {
	probed := strings.Replace(name, "pause", "resume", 1) // what does nothing where nothing is
	if _, err = inspect.Act(ctx, n.probe.Inspect(), probed, which, reason); err != nil {
		return sum, err
	}
	parts, err := n.parts(&which)
	if err != nil {
		return sum, err
	}
	var mu sync.Mutex
	var calls sync.WaitGroup
	for number, ids := range parts {
		calls.Go(func() {
			part := deed{name, which, reason}
			part.Which.IDs = ids
			a, partErr := n.do(ctx, number, &part)
			mu.Lock()
			defer mu.Unlock()
			if sum = sum.Plus(a.Did); partErr != nil {
				err = errors.Join(err, fmt.Errorf("partition %d: %w", number, partErr))
			}
		})
	}
	calls.Wait()
	if (name == "pause" || name == "resume") && which.IDs == nil {
		sum.Back = min(sum.Back, 1)
	}
	return sum, err
}

// Explain does what inspect.Inspector.Explain does, on any node: the owner of the id says it when he has taken in what was
// enqueued before. It waits for a partition without one, so bound ctx; otherwise its errors are those of [Node.Act].
func (n *Node) Explain(ctx context.Context, queue, id string) (why inspect.Explanation, err error) {
	if _, err = n.probe.Inspect().Explain(ctx, queue, id); err != nil && !errors.Is(err, executor.ErrUnknownQueue) {
		return why, err
	}
	number, err := n.PartitionOf(id)
	if err != nil {
		return why, err
	}
	a, err := n.do(ctx, number, &deed{Do: "explain", Which: inspect.SelectIDs(queue, id)})
	if err == nil {
		err = gob.NewDecoder(bytes.NewReader(a.Why)).Decode(&why)
	}
	return why, err
}

// deed is what a partition is to do, as it stands in a row of the inbox: not as JSON, because ids are any bytes.
type deed struct {
	Do     string
	Which  inspect.Selection
	Reason string
}

// parts are the partitions that are meant, each with its ids; nil: any.
func (n *Node) parts(which *inspect.Selection) (map[int][]string, error) {
	parts := make(map[int][]string)
	switch {
	case which.Positions != nil && len(which.Positions) == 0: // no payload is meant
		return nil, nil
	case which.IDs == nil && which.Positions != nil:
		return nil, fmt.Errorf("%w: positions without ids: each partition has its own; use SelectIDs and At", inspect.ErrInvalidQuery)
	case which.IDs == nil:
		for number := range n.divide.Nodes {
			parts[number] = nil
		}
	}
	for _, id := range which.IDs {
		number, err := n.PartitionOf(id)
		if err != nil {
			return nil, err
		}
		parts[number] = append(parts[number], id)
	}
	return parts, nil
}

// do has a partition do it, here or where its owner is.
func (n *Node) do(ctx context.Context, number int, d *deed) (a answer, err error) {
	if p := n.owned(number); p != nil && p.taker.gate(ctx, deeds) == nil {
		if a, err = d.done(ctx, p); gone(err) {
			err = fmt.Errorf("%w: the partition is given away: %w", executor.ErrUnknown, err)
		}
		return a, err
	}
	a, token, err := n.asking.ask(ctx, place{partition: number}, deedVersion, item{Payload: encoded(d)})
	switch {
	case err != nil && ctx.Err() != nil && token.Valid && n.recall(token):
		err = n.outbox.cause(ctx)
	case err == nil && a.Lost:
		err = fmt.Errorf("%w: the partition was given away before its owner has answered", executor.ErrUnknown)
	case err == nil:
		err = a.err()
	}
	return a, err
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
		a.Did, a.Why, a.Lost = did.Did, did.Why, gone(err) || ctx.Err() != nil
		return a
	}
}

// done does it where the partition is.
func (d *deed) done(ctx context.Context, p *partition) (a answer, err error) {
	if d.Do != "explain" || len(d.Which.IDs) != 1 { // rows may be anybody's
		a.Did, err = inspect.Act(ctx, p.x.Inspect(), d.Do, d.Which, d.Reason)
		return a, err
	}
	why, err := p.x.Inspect().Explain(ctx, d.Which.Queue, d.Which.IDs[0])
	a.Why = encoded(why)
	return a, err
}

func encoded(v any) []byte {
	var b bytes.Buffer
	_ = gob.NewEncoder(&b).Encode(v) // does not fail
	return b.Bytes()
}

// gone reports whether the executor of a partition has ended.
func gone(err error) bool {
	return errors.Is(err, executor.ErrClosed) || errors.Is(err, executor.ErrFailed)
}
