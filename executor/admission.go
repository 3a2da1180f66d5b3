package executor

import (
	"context"
	"fmt"

	"github.com/strandjobs/strand/journal"
)

// append journals entries, and waits as the durability says.
func (q *queue) append(ctx context.Context, entries []journal.Entry) (journal.Ticket, error) {
	if err := q.x.admits(ctx); err != nil {
		return journal.Ticket{}, err
	}
	keys, err := q.keysOnEnqueue(entries)
	if err != nil {
		return journal.Ticket{}, err
	}
	o := q.newOffer(entries)
	defer o.end()
	// Before anything is locked: what is in the backlog may wait for that key.
	if err = o.reserve(ctx); err == errNoRoom {
		err = o.wait(ctx)
	}
	if err == nil {
		err = o.append(ctx, entries, keys, nil, q.durability == Async)
	}
	if err == nil && q.durability == Sync {
		err = o.await(ctx)
	}
	if err != nil {
		err = border(err)
	}
	return o.ticket, err
}

// await waits for a ticket, but not for a shard that has failed.
func (x *Executor) await(ctx context.Context, ticket journal.Ticket) error {
	select {
	case <-ticket.Done():
	case <-done(ctx):
	case <-x.failed:
		select {
		case <-ticket.Done():
		default:
			return fmt.Errorf("%w: %w", journal.ErrUnknown, x.Err())
		}
	}
	return ticket.Wait(ctx)
}
