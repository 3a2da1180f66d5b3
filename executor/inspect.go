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

// Stats returns the figures of all queues, by name. It asks every shard, and
// returns ErrClosed after Stop, and the cause of ctx when that ends first.
func (x *Executor) Stats(ctx context.Context) (inspect.Stats, error) { return x.inspector.Stats(ctx) }

// ErrTooManyPaused is returned when more than 100,000 ids of a queue, or 10,000 prefixes,
// would be paused. Pause the queue.
var ErrTooManyPaused = pause.ErrTooMany
