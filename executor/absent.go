package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// ErrWaiting is matched by the [WaitingError] that a call with [IfAbsent] returns
// when a payload of its id waits already.
var ErrWaiting = errors.New("executor: a payload of this id waits already")

// WaitingError says which payload keeps a call with [IfAbsent] from being accepted.
// To wait for that one: Receipt{ID: e.ID, Position: e.Position}.
type WaitingError struct {
	Queue, ID string
	Position  uint64    // of the one that is to run next
	Due       time.Time // when its job is due
}

func (e *WaitingError) Error() string {
	return fmt.Sprintf("%v: queue %q, id %q, position %d, due %s", ErrWaiting, e.Queue, e.ID, e.Position, e.Due.Format(time.RFC3339))
}

// Is matches ErrWaiting.
func (e *WaitingError) Is(target error) bool { return target == ErrWaiting }

// IfAbsent refuses the payload, with a [WaitingError], while another payload of its id
// and queue waits: for its turn, its due time, a retry, a lock, or RunNow, whatever it
// carries. A payload that runs does not count, because its handler may have read what
// has changed since. It holds over a restart, and a refused call writes nothing.
//
// Of several calls with IfAbsent for one id one is accepted; they go one after the
// other. A call without it that is under way at the same time may be accepted, too.
// IfAbsent is for calls with one payload; EnqueueMany with several returns ErrState.
// With an [IdempotencyKey] that came before, the call is a Duplicate, whatever waits.
// Under DurabilityAsync the call waits for the commit.
func IfAbsent() Option { return Option{kind: optionAbsent} }

// absentPrefix begins the names of the gates of ids.
const absentPrefix = "id/"

// demandAbsence makes it a condition that no payload of the id waits.
func (o *submission) demandAbsence() error {
	c := o.conditions
	if c == nil || !c.absent {
		return nil
	}
	if len(o.entries) != 1 {
		return fmt.Errorf("%w: IfAbsent is for one payload, this call has %d", ErrState, len(o.entries))
	}
	c.gateID = absentPrefix + fmt.Sprintf("%d/%s/%s", len(o.q.Name), o.q.Name, o.entries[0].ID)
	return nil
}

// checkAbsence refuses a call whose id has a payload that waits. The caller is inside
// the gate of the id.
func (o *submission) checkAbsence(ctx context.Context) error {
	if !o.conditions.absent {
		return nil
	}
	q, id := o.q, string(o.entries[0].ID)
	ctx, err := usable(ctx)
	if err != nil {
		return err
	}
	if q.durability == DurabilityAsync { // what was posted is to be seen
		if err := q.x.log.Flush(ctx); err != nil {
			return err
		}
	}
	var next journal.Position // a call may come after its caller has gone
	var due int64
	if err := q.Shards.Of(id).Do(ctx, func(c *shard.Core) { next, due = c.FirstWaiting(id) }); err != nil {
		return err
	}
	if next != 0 {
		return &WaitingError{Queue: q.Name, ID: id, Position: uint64(next), Due: time.Unix(0, due)}
	}
	return nil
}
