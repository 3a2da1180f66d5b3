package executor

import (
	"context"
	"errors"
	"fmt"

	"github.com/strandjobs/strand/journal"
)

// append locks what entries lock, journals them, and waits as the durability
// says.
func (q *queue) append(ctx context.Context, entries []journal.Entry) (journal.Ticket, error) {
	if err := q.x.admits(ctx); err != nil {
		return journal.Ticket{}, err
	}
	keys, err := q.keysOnEnqueue(entries)
	if err != nil {
		return journal.Ticket{}, err
	}
	pledge, ticket, err := q.offer(ctx, entries, keys)
	if q.x.waits(ctx, err) {
		ticket, err = q.whenDrained(ctx, func() (ticket journal.Ticket, err error) {
			pledge, ticket, err = q.offer(ctx, entries, keys)
			return ticket, err
		})
	}
	if err == nil && q.durability == Sync {
		err = q.x.await(ctx, ticket)
	}
	if err != nil {
		err = border(err)
		pledge.end(ticket, err)
		return ticket, err
	}
	return ticket, nil
}

// offer gives entries to the journal once, with what they lock. What it refuses
// locks nothing: the backlog may wait for that.
func (q *queue) offer(ctx context.Context, entries []journal.Entry, keys [][]string) (*pledge, journal.Ticket, error) {
	appended := q.x.log.AppendWith
	if q.durability == Async {
		appended = q.x.log.PostWith
	}
	if keys == nil {
		ticket, err := appended(ctx, entries, nil)
		return nil, ticket, err
	}
	pledge, err := q.pledge(ctx, entries, keys)
	if err != nil {
		return nil, journal.Ticket{}, err
	}
	ticket, err := appended(ctx, entries, pledge.sets)
	if err != nil {
		pledge.withdraw()
		return nil, ticket, err
	}
	return pledge, ticket, nil
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

// whenDrained tries to append whenever some of the backlog is over.
func (q *queue) whenDrained(ctx context.Context, try func() (journal.Ticket, error)) (journal.Ticket, error) {
	for {
		drained := q.x.log.Drained()
		ticket, err := try()
		if !errors.Is(err, journal.ErrBacklog) {
			return ticket, err
		}
		select {
		case <-drained:
		case <-q.x.failed:
		case <-q.x.stopped:
		case <-done(ctx):
		}
	}
}
