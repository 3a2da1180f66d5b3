package executor

import (
	"context"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/act"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/look"
	"github.com/strandjobs/strand/executor/internal/pause"
)

// Inspect returns the inspector, which lists jobs and dead letters, and cancels, requeues,
// pauses and so on; see package [inspect]. It may be called at any time, also before Start and after Stop.
func (x *Executor) Inspect() inspect.Inspector { return x.inspector }

// open shows what there is to those who look, act and work.
func (x *Executor) open() {
	e := x.crew.Engine
	e.Log, e.Backlog, e.Keys, e.Leases, e.Ledger = x.log, x.backlog, x.keys, &x.leases, x.ledger
	e.Pauses, e.Quarantine, e.Stopped, e.MayChange, e.Border = &x.pauses, &x.quarantine, x.stopped, x.mayChange, border
	e.Now = func() int64 { return x.clock().UnixNano() }
	e.Registered = func() (all []*engine.Queue) {
		for _, q := range x.registered() {
			all = append(all, q.To)
		}
		return all
	}
	e.Lookup = func(name string) (*engine.Queue, error) {
		q, err := x.lookup(name)
		if err != nil {
			return nil, err
		}
		return q.To, nil
	}
	c := &x.crew
	c.Logger, c.Handlers, c.Volatile, c.Crashes = x.cfg.Logger, x.handlers, x.volatile, x.cfg.Crash.Limit
	c.Fail, c.End, c.Closed = x.fail, x.endWith, ErrClosed
	c.Open(x.cfg.Stuck.After)
	x.inspector = inspector{look.New(e), &act.Operator{Engine: e}}
}

// Explain says why the job of an id does not run: what it waits for, which job has
// that, and for how much longer. For a job that is ready it says what keeps workers
// from it. For an id without a job it tells the dead letters, which it looks for among
// all of the queue; see [inspect.Inspector.Dead] for what that costs. It returns
// ErrUnknownQueue, ErrInvalidID for an id that no job can have, ErrClosed, ErrFailed,
// or the cause of ctx.
func (x *Executor) Explain(ctx context.Context, queue, id string) (inspect.Explanation, error) {
	return x.inspector.Explain(ctx, queue, id)
}

// Stats returns the figures of all queues, by name. It asks every shard, and
// returns ErrClosed after Stop, and the cause of ctx when that ends first.
func (x *Executor) Stats(ctx context.Context) (inspect.Stats, error) { return x.inspector.Stats(ctx) }

// ErrTooManyPaused is returned when more than 100,000 ids of a queue, or 10,000 prefixes,
// would be paused. Pause the queue.
var ErrTooManyPaused = pause.ErrTooMany

// Pause keeps all queues from running jobs until [Executor.Resume], also after a
// restart or a crash. After it has returned no worker begins with a job. A job that a worker
// has begun with goes on: its payload may still be decoded and its handler called, and the
// halves of a failed batch. Pause does not wait for it. Enqueue still accepts payloads,
// schedules go on, and RunNow makes jobs due, which then wait like all others.
//
// The executor, and what [inspect.Inspector.Pause] pauses, queues, prefixes of ids and single ids,
// are paused independently: a job runs when none of them is. What a paused job locked when
// it was enqueued stays locked. It gives up its place in the line for a key, and asks again
// when it is resumed.
//
// It returns nil when the pause is on disk. To pause what is paused is no error. A full
// disk does not refuse it: it takes the room that is kept for results, and waits for
// ctx when even that is used up. It returns ErrClosed, ErrFailed or ErrContext. When
// ctx ends first, it returns the cause, with ErrUnknown if it had begun: then the
// executor may be paused or not.
func (x *Executor) Pause(ctx context.Context) error {
	_, err := x.inspector.PauseAll(ctx, "", true)
	return err
}

// Resume ends a Pause of the executor. Queues, prefixes and ids that are paused by
// themselves stay so. It returns what Pause does.
func (x *Executor) Resume(ctx context.Context) error {
	_, err := x.inspector.PauseAll(ctx, "", false)
	return err
}
