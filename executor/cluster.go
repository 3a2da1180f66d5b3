package executor

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/backdoor"
	"github.com/strandjobs/strand/executor/internal/dispatch"
	"github.com/strandjobs/strand/executor/internal/fleet"
	"github.com/strandjobs/strand/executor/internal/quota"
	"github.com/strandjobs/strand/executor/internal/submit"
	"github.com/strandjobs/strand/journal"
)

func init() {
	backdoor.Open = openElsewhere
	backdoor.OpenCluster = func(cfg Config, of any, all *fleet.Inspector, enqueue func(context.Context, string, []Item[[]byte], []byte) ([]Receipt, error),
		followUp func(string, Item[[]byte]) (journal.Set, error), start, stop func(context.Context) error, failing func() error, with quota.Processes,
	) (*Executor, openPartition, error) {
		return openCluster(&cluster{Inspector: all, of: of, enqueue: enqueue, followUp: followUp, failing: failing, all: with}, cfg, start, stop)
	}
	backdoor.Carry = func(queue, items any, options []Option) ([]Item[[]byte], []byte, error) {
		return queue.(interface {
			carryAny(any, []Option) ([]Item[[]byte], []byte, error)
		}).carryAny(items, options)
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
		q, err := x.(*Executor).queues.Lookup(queue)
		if err != nil {
			return nil, err
		}
		return q.Decode(payload)
	}
}

type openPartition = func(name string, log func(journal.Config) (*journal.Log, error), cfg Config) (*Executor, error)

// openCluster opens the executor of a cluster, and returns what opens those of its partitions. See
// package cluster, which is its door.
func openCluster(c *cluster, cfg Config, start, stop func(context.Context) error) (x *Executor, partition openPartition, err error) {
	if x, err = Open("", cfg); err != nil {
		return nil, nil, err
	}
	c.Actor, c.Probe, c.Decode, c.Handler, c.Workers, c.Here = c.Act, asked{x, x.inspector}, x.inspector.Decode, x.owns, x.cfg.Workers, func(n int) (here bool) {
		c.Do(func(part *Executor) { here = here || part.cfg.Splitter.Self == n })
		return here
	}
	x.cluster, c.room = c, dispatch.NewRoom(x.cfg.Workers)
	x.view = x.cluster.Inspector
	x.life.StartAll, x.life.StopAll, x.life.Dir, x.queues.Cluster = start, stop, "a cluster", true
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

func (a asked) Names() (queues, lanes map[string]string) { return a.queues.Names() }

// Queue returns a queue, also by a name that it had before: who asks may be of an earlier build.
func (a asked) Queue(name string) (fleet.Queue, error) {
	t, err := a.Executor.Lookup(name)
	if err != nil {
		queues, _ := a.Names()
		t, err = a.Executor.Lookup(cmp.Or(queues[name], name))
	}
	return askedQueue{t}, err
}

// askedQueue is a queue of such an executor.
type askedQueue struct{ *Queue[[]byte] }

func (t askedQueue) Letters(from uint64, yield func(inspect.DeadPayload, error) bool) {
	t.q.letters(journal.Position(from), yield)
}

// Wait waits for a payload, whose handler may have returned a result.
func (t askedQueue) Wait(ctx context.Context, id string, q *fleet.Question, a *fleet.Answer) error {
	end, err := t.q.wait(ctx, Receipt{ID: id, Position: q.Position, MergedInto: q.MergedInto, Durable: true, Duplicate: q.Duplicate})
	_ = a.Say(end.Said && err == nil, end.Value, ErrNoResult) // Do misses a result that can't be written, and Wait does not
	return err
}

// Enqueue is Do. What a caller waits for no longer is in the answer, for the next one to be asked.
func (t askedQueue) Enqueue(ctx context.Context, id string, q *fleet.Question, a *fleet.Answer) error {
	options, err := submit.Carried(q.Conditions)
	if err != nil {
		return err
	}
	entries := submit.Borrow(1)
	defer submit.GiveBack(entries)
	it := &submit.Item{ID: id, Payload: q.Payload, Score: q.Score, Metadata: q.Metadata}
	if q.Scored && q.Score == nil {
		it.Score = new(float64)
	}
	if q.Delay > 0 {
		it.Due = time.Unix(0, t.q.Crew.Now()).Add(q.Delay)
	}
	if err := t.q.Fill(&(*entries)[0], it, t.q.Crew.Now()); err != nil {
		return err
	}
	end, err := t.q.do(ctx, *entries, options)
	pending, ok := err.(*PendingError) // and not that of a call which the handler made
	switch {
	case ok:
		a.Position, a.MergedInto, a.Duplicate = pending.Receipt.Position, pending.Receipt.MergedInto, pending.Receipt.Duplicate
	case (errors.Is(err, ErrClosed) && t.q.x.life.Stopping.Load() || errors.Is(err, ErrFailed) && t.q.x.life.Failure() != nil) &&
		!errors.Is(err, ErrUnknown) && !errors.As(err, new(*BuriedError)):
		a.Moved = true
	default:
		return cmp.Or(err, a.Say(end.Said, end.Value, ErrNoResult))
	}
	return nil
}
