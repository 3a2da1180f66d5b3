package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"hash/maphash"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/backdoor"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/dispatch"
	"github.com/strandjobs/strand/executor/internal/fleet"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/ownership"
	"github.com/strandjobs/strand/executor/internal/quota"
	"github.com/strandjobs/strand/executor/internal/submit"
	"github.com/strandjobs/strand/journal"
)

func init() {
	backdoor.Open = openElsewhere
	backdoor.Staged = Option{kind: optionStaged}
	backdoor.OpenCluster = func(cfg Config, of any, all *fleet.Inspector, enqueue func(context.Context, string, []Item[[]byte], []byte) ([]Receipt, error),
		followUp func(string, Item[[]byte]) (journal.Set, error), start, stop func(context.Context) error, failing func() error, with quota.Processes,
	) (*Executor, openPartition, error) {
		return openCluster(&cluster{Inspector: all, of: of, enqueue: enqueue, followUp: followUp, start: start, stop: stop, failing: failing, all: with}, cfg)
	}
	backdoor.Lapse = func(x any) { x.(*Executor).limits.Lapse() }
	backdoor.ClusterOf = func(x any) any {
		if x := x.(*Executor); x != nil && x.cluster != nil {
			return x.cluster.of
		}
		return nil
	}
	backdoor.Part = func(x any) fleet.Part { return asked{x.(*Executor), x.(*Executor).inspector} }
	backdoor.Hold = func(x any, held bool) {
		if d := x.(*Executor).crew.Dispatcher; held {
			d.Hold()
		} else {
			d.Release()
		}
	}
	backdoor.Busy = func(x any) int { _, busy := x.(*Executor).crew.Dispatcher.Load(); return busy }
	backdoor.Settled = func(ctx context.Context, x any) error { return x.(*Executor).log.Settled(ctx) }
	backdoor.Encode = func(queue, payload any) ([]byte, error) {
		return queue.(interface{ encodeAny(any) ([]byte, error) }).encodeAny(payload)
	}
	backdoor.Decode = func(x any, queue string, payload []byte) (any, error) {
		q, err := x.(*Executor).lookup(queue)
		if err != nil {
			return nil, err
		}
		return q.Decode(payload)
	}
}

func (t *Queue[T]) encodeAny(payload any) ([]byte, error) { return t.encode(payload.(T)) }

type openPartition = func(name string, log func(journal.Config) (*journal.Log, error), cfg Config) (*Executor, error)

// openCluster opens the executor of a cluster, and returns what opens those of its partitions. See
// package cluster, which is its door.
func openCluster(c *cluster, cfg Config) (x *Executor, partition openPartition, err error) {
	if x, err = Open("", cfg); err != nil {
		return nil, nil, err
	}
	c.Actor, c.Probe, c.Decode, c.Handler, c.Workers, c.Here = c.Act, asked{x, x.inspector}, x.inspector.Decode, x.owns, x.cfg.Workers, func(n int) bool {
		return c.Any(func(part *Executor) bool { return part.cfg.Splitter.Self == n })
	}
	x.cluster, c.room = c, dispatch.NewRoom(x.cfg.Workers)
	x.dir, x.view = "a cluster", x.cluster.Inspector
	x.limits.Commonly()
	return x, x.openPartition, nil
}

// asked is the executor of a partition, for those who ask it from elsewhere.
type asked struct {
	*Executor
	inspector
}

func (a asked) Stats(ctx context.Context) (inspect.Stats, error) { return a.inspector.Stats(ctx) }

// Home tells processes apart.
func (a asked) Home() uint64 { return maphash.String(cmp.Or(a.front, a.Executor).seed, "") }

func (a asked) Lanes(queue string) string {
	if q, err := a.Executor.lookup(queue); err == nil {
		return q.sharedLanes
	}
	return ""
}

func (a asked) Queue(name string) (fleet.Queue, error) {
	t, err := a.Executor.Lookup(name)
	return askedQueue{t}, err
}

// askedQueue is a queue of such an executor.
type askedQueue struct{ *Queue[[]byte] }

func (t askedQueue) Letters(from uint64, yield func(inspect.DeadPayload, error) bool) {
	t.q.letters(journal.Position(from), yield)
}

// Wait waits for a payload, whose handler may have returned a result.
func (t askedQueue) Wait(ctx context.Context, id string, q *fleet.Question, a *fleet.Answer) error {
	end, err := t.q.wait(ctx, Receipt{ID: id, Position: q.Position, MergedInto: q.MergedInto, Durable: true})
	return cmp.Or(err, a.Say(end.Said, end.Value, ErrNoResult))
}

// Enqueue is Do. What a caller waits for no longer is in the answer, for the next one to be asked.
func (t askedQueue) Enqueue(ctx context.Context, id string, q *fleet.Question, a *fleet.Answer) error {
	options, err := Carried(q.Conditions)
	if err != nil {
		return err
	}
	entries := borrowEntries(1)
	defer giveBackEntries(entries)
	it := &submit.Item{ID: id, Payload: q.Payload, Score: q.Score, Metadata: q.Metadata}
	if q.Delay > 0 {
		it.Due = time.Unix(0, t.q.Crew.Now()).Add(q.Delay)
	}
	if err := t.q.Fill(&(*entries)[0], it, t.q.Crew.Now()); err != nil {
		return err
	}
	end, err := t.q.do(ctx, *entries, options)
	pending, ok := errors.AsType[*PendingError](err)
	switch {
	case ok:
		a.Position, a.MergedInto = pending.Receipt.Position, pending.Receipt.MergedInto
	case (errors.Is(err, ErrClosed) && t.q.x.stopping.Load() || errors.Is(err, ErrFailed) && t.q.x.failure() != nil) &&
		!errors.Is(err, ErrUnknown) && !errors.As(err, new(*BuriedError)):
		a.Moved = true
	default:
		return cmp.Or(err, a.Say(end.Said, end.Value, ErrNoResult))
	}
	return nil
}

func init() {
	ownership.Refuse = func(x any, id string) error { return x.(*Executor).cfg.Splitter.refuse(id) }
}

// ErrNotOwned is returned for an id of another process, which [Splitter.OwnerOf] names.
var ErrNotOwned = errors.New("executor: id of another process")

// Splitter divides ids among processes, each with an executor and a journal of its own,
// numbered from 0. With the zero Splitter all ids belong to this process.
//
// Enqueue, EnqueueMany, Do and FollowUp refuse an id of another process, also in a
// handler, with [ErrNotOwned]; OwnerOf says whose it is. The program has to send it
// there. Let Owner go by what the ids of a chain have in common, as the customer in
// "customer/order". Or stage a follow-up of this process that sends the payload there, with
// an IdempotencyKey made of its position and this process.
//
// No other call asks the Splitter. When Nodes changes, jobs and dead letters of ids
// that now belong elsewhere still run here, and can be put back here. So an id may have
// jobs in two processes for a while, without an order between them: if that matters, let
// the old processes run dry first. Add a schedule of
// executor/cron in all processes: the one that its job's id belongs to fires the tick.
type Splitter struct {
	// Nodes is how many processes share the work. Default 0: all ids belong to this
	// process, and Self and Owner must be zero, too.
	Nodes int

	// Self is the number of this process, from 0 to Nodes − 1.
	Self int

	// Owner returns the number of the process that an id belongs to, from 0 to Nodes −
	// 1. It must return the same in each process, always. The goroutine of each call
	// calls it, for each id. If it returns another number, or panics, the call gets
	// ErrConfig and nothing is accepted. Default nil: a hash divides the ids evenly,
	// and stays the same in later versions; from n to n + 1 processes one id of n + 1
	// moves, to the new process.
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
