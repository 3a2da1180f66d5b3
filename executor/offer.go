package executor

import (
	"context"
	"errors"
	"fmt"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// offer is a call to Enqueue on its way into the journal, with its room in the backlog
// and what it locks. It gives both back if it turns out that it is not accepted.
type offer struct {
	q      *queue
	weight shard.Weight // zero: there is no limit
	taken  bool         // it has its room
	pledge *pledge      // nil: it locks nothing
	ticket journal.Ticket
	stage  stage
}

// stage is how far an offer has come.
type stage uint8

const (
	outside  stage = iota // the journal does not have it
	underWay              // nobody knows what becomes of it
	accepted
)

// newOffer begins an offer of entries. It has to be ended.
func (q *queue) newOffer(entries []journal.Entry) (o offer) {
	if o.q = q; len(q.quotas) > 0 {
		for i := range entries {
			o.weight = o.weight.Plus(shard.Announced(&entries[i]))
		}
	}
	return o
}

// errNoRoom is returned when a call should wait for room.
var errNoRoom = errors.New("no room")

// reserve takes room in the backlog. The limits don't hold for handlers: what they
// have in hand could never end otherwise.
func (o *offer) reserve(ctx context.Context) error {
	b := &o.q.x.backlog
	for !o.taken && o.weight != (shard.Weight{}) {
		if o.taken = b.take(o.q, o.weight); o.taken {
			break
		}
		if o.q.x.owns(ctx) {
			b.exceed(o.q, o.weight)
			o.taken = true
			break
		}
		if err := o.hopeless(ctx); err != nil {
			return err
		}
		if o.q.x.cfg.Overflow == Wait {
			return errNoRoom
		}
		if err := b.refuse(o.q, o.weight); err != nil {
			return err
		}
	}
	return nil
}

// hopeless returns why a call need not wait for room.
func (o *offer) hopeless(ctx context.Context) error {
	for _, c := range o.q.quotas {
		if err := c.outgrown(o.weight); err != nil {
			return err
		}
	}
	select {
	case <-done(ctx):
		return ended(ctx)
	default:
		return nil
	}
}

// wait waits for the room that reserve has not found.
func (o *offer) wait(ctx context.Context) error {
	over := done(ctx)
	b := &o.q.x.backlog
	w := b.await(o.q, o.weight)
	select {
	case <-w.ready:
		o.taken = w.err == nil
		return w.err
	case <-over:
	}
	full := b.quit(w)
	if full == nil {
		return ended(ctx)
	}
	return fmt.Errorf("%w, while waiting for room: %w", ended(ctx), full)
}

// append gives entries to the journal, with what they lock and with sets, which may
// be nil. Posted: nobody waits for the outcome.
func (o *offer) append(ctx context.Context, entries []journal.Entry, keys [][]string, sets func(journal.Position) []journal.Set, posted bool) (err error) {
	pledge, err := o.q.pledge(ctx, entries, keys)
	if err != nil {
		return err
	}
	if o.pledge = pledge; pledge != nil {
		own := sets
		sets = func(first journal.Position) []journal.Set {
			if own == nil {
				return pledge.sets(first)
			}
			return append(own(first), pledge.sets(first)...)
		}
	}
	if posted {
		if o.ticket, err = o.q.x.log.PostWith(ctx, entries, sets); err == nil {
			o.stage = accepted // it is not refused any more
		}
		return err
	}
	if o.ticket, err = o.q.x.log.AppendWith(ctx, entries, sets); err == nil {
		o.stage = underWay
	}
	return err
}

// await waits for the outcome.
func (o *offer) await(ctx context.Context) error {
	err := o.q.x.await(ctx, o.ticket)
	switch {
	case err == nil:
		o.stage = accepted
	case !errors.Is(err, journal.ErrUnknown):
		o.stage = outside
	}
	return err
}

// end gives back what belongs to an offer that is not accepted: at once, or when that
// is known.
func (o *offer) end() {
	switch {
	case o.stage == outside:
		o.withdraw()
	case o.stage == underWay && (o.taken || o.pledge != nil):
		late := *o
		go late.learn() // nobody else will: see the census
	}
}

// learn is end for a call that could not wait.
func (o *offer) learn() {
	select {
	case <-o.ticket.Done():
	case <-o.q.x.stopped:
		return
	}
	if errors.Is(o.ticket.Wait(context.Background()), journal.ErrFull) {
		o.withdraw()
	}
}

func (o *offer) withdraw() {
	if o.taken {
		o.q.x.backlog.giveBack(o.q, o.weight)
	}
	o.pledge.withdraw()
}
