package executor

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/ownership"
	"github.com/strandjobs/strand/executor/internal/statekey"
)

func init() {
	ownership.Refuse = func(x any, id string) error { return x.(*Executor).cfg.Splitter.refuse(id) }
	ownership.Divided = func(x any) bool { return x.(*Executor).cfg.Splitter.Nodes > 1 }
	ownership.Raise = func(ctx context.Context, x any, name string, to int64) error {
		return border(x.(*Executor).once.Put(ctx, name, statekey.Offset(to), func(last int64) bool { return last >= to }))
	}
}

// ErrNotOwned is returned for an id of another process, which [Splitter.OwnerOf] names.
var ErrNotOwned = errors.New("executor: id of another process")

// Splitter divides ids among processes, each with an executor and a journal of its own,
// numbered from 0. With the zero Splitter all ids belong to this process.
//
// Enqueue, EnqueueMany, Do and FollowUp refuse an id of another process, also in a handler, with [ErrNotOwned]; OwnerOf
// says whose it is. The program has to send it there. Let Owner go by what the ids of a chain have in common, as the
// customer in "customer/order". Or stage a follow-up here whose handler sends the payload to the owner. Let it use an
// IdempotencyKey made of Job.Position and the number of this process.
//
// No other call asks the Splitter. When Nodes changes, jobs and dead letters of ids that now belong
// elsewhere still run here, and can be put back here. So an id may have jobs in two processes for a
// while, without an order between them: if that matters, let the old processes run dry first. Add a
// schedule of executor/cron in all processes: the one that its job's id belongs to fires the tick.
type Splitter struct {
	// Nodes is how many processes share the work, 1,048,576 at most. Default 0: all ids
	// belong to this process, and Self and Owner must be zero, too. Below zero is ErrConfig.
	Nodes int

	// Self is the number of this process, from 0 to Nodes − 1.
	Self int

	// Owner returns the number of the process that an id belongs to, from 0 to Nodes − 1. It must
	// return the same in each process, always. The goroutine of each call calls it, for each id. If
	// it returns another number, or panics, the call gets ErrConfig and nothing is accepted.
	// Default nil: a hash divides the ids evenly, and stays the same in later versions; from n to
	// n + 1 processes one id of n + 1 moves, to the new process.
	Owner func(id string) int
}

// check returns an error for numbers that make no sense.
func (s *Splitter) check() error {
	switch {
	case s.Nodes == 0 && s.Self == 0 && s.Owner == nil:
		return nil
	case s.Nodes < 1 || s.Nodes > maxNodes:
		return fmt.Errorf("%w: Splitter.Nodes is %d, with Self or Owner it must be from 1 to %d", ErrConfig, s.Nodes, maxNodes)
	case s.Self < 0 || s.Self >= s.Nodes:
		return fmt.Errorf("%w: Splitter.Self is %d, of %d processes it must be from 0 to %d", ErrConfig, s.Self, s.Nodes, s.Nodes-1)
	}
	return nil
}

const maxNodes = 1 << 20

// OwnerOf returns the number of the process that an id belongs to. All processes with the
// same Nodes and Owner get the same answer: what is refused here with [ErrNotOwned] goes
// there. Without Nodes it returns Self. It returns ErrConfig when Owner panics or returns
// a number out of range. Any goroutine may call it, if Owner allows that.
func (s Splitter) OwnerOf(id string) (int, error) {
	if s.Nodes == 0 {
		return s.Self, nil
	}
	if s.Owner == nil {
		h := fnv.New64a() // RFC 9923. No other may take its place: processes of two versions must agree.
		h.Write([]byte(id))
		return ownership.Jump(h.Sum64(), s.Nodes), nil
	}
	owner := 0
	if err := guard.Call(func() error { owner = s.Owner(id); return nil }); err != nil {
		return 0, fmt.Errorf("%w: Splitter.Owner of id %s: %w", ErrConfig, brief.Text(id), err)
	}
	if owner < 0 || owner >= s.Nodes {
		return 0, fmt.Errorf("%w: Splitter.Owner of id %s is %d, of %d processes it must be from 0 to %d", ErrConfig, brief.Text(id), owner, s.Nodes, s.Nodes-1)
	}
	return owner, nil
}

// refuse returns an error for an id that is not this process's.
func (s *Splitter) refuse(id string) error {
	if s.Nodes == 0 {
		return nil
	}
	owner, err := s.OwnerOf(id)
	if err == nil && owner != s.Self {
		err = fmt.Errorf("%w: %s belongs to %d, and this is %d", ErrNotOwned, brief.Text(id), owner, s.Self)
	}
	return err
}
