package executor

import (
	"context"
	"fmt"
	"iter"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/act"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/look"
	"github.com/strandjobs/strand/executor/internal/pause"
	"github.com/strandjobs/strand/executor/internal/tell"
)

// Inspect returns the inspector, which lists jobs and dead letters, and cancels, requeues,
// pauses and so on; see package [inspect]. It may be called at any time, also before Start and after Stop.
func (x *Executor) Inspect() inspect.Inspector { return x.view }

// open shows what there is to those who look, act and work.
func (x *Executor) open() {
	e := x.crew.Engine
	e.Log, e.Backlog, e.Keys, e.Leases, e.Ledger = x.log, x.backlog, x.keys, &x.leases, x.ledger
	e.Pauses, e.Quarantine, e.Graph, e.MayChange, e.Border = &x.pauses, &x.quarantine, &x.graph, x.mayChange, border
	e.Failed, e.Stopped, e.Closing, e.Failure, e.Closed = x.failed, x.stopped, x.starting.Done(), x.failure, ErrClosed
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
	c.Logger, c.Handlers, c.Starting, c.Volatile, c.Crashes = x.cfg.Logger, x.handlers, x.starting, x.volatile, x.cfg.Crash.Limit
	c.Fail, c.End = x.fail, x.endWith
	c.Open(x.cfg.Stuck.After)
	x.inspector = inspector{look.New(e), act.New(e)}
	x.view = x.inspector
}

// Stats returns the figures of all queues, by name. It asks every shard in its turn, so
// that a follow-up may be in none of them yet, and its job not any more. It returns
// ErrClosed after Stop, and the cause of ctx when that ends first.
func (x *Executor) Stats(ctx context.Context) (inspect.Stats, error) { return x.view.Stats(ctx) }

// ErrTooManyPaused is returned when more than 100,000 ids of a queue, or 10,000 prefixes,
// would be paused. Pause the queue.
var ErrTooManyPaused = pause.ErrTooMany

// Events yields what happens to jobs, from a buffer in memory, as it happens. It yields
// what happens after the call, also if the loop begins later. A slow loop holds up
// neither jobs nor other readers, of which there may be any number. The loop ends when
// ctx does, and after [Executor.Stop] with the last event.
//
// The buffer keeps Config.Advanced.EventBuffer events. A reader that falls further
// behind gets a [*events.MissedError] once, and then the oldest event that is left. While no
// loop reads, the feed is switched off after so many events, to save the cost: a loop
// that begins after that has missed all of those, and others that were not counted. Any
// other error is yielded once and ends the loop: ErrConfig for an unknown kind, an
// invalid token, or an EventBuffer below zero; ErrUnknownQueue; and ErrContext.
//
// Package [events] says what is promised, and what not. A log that lasts is made otherwise:
// see "Events" in the guide (README.md). Without a reader, events cost an atomic load for
// each call of a handler; with one, about 0.2 µs each.
func (x *Executor) Events(ctx context.Context, f events.Filter) iter.Seq2[events.Event, error] {
	r, err := x.reader(ctx, f)
	return func(yield func(events.Event, error) bool) {
		if err != nil {
			yield(events.Event{}, err)
			return
		}
		again := *r // each loop begins where the call was
		again.Each(yield)
	}
}

func (x *Executor) reader(ctx context.Context, f events.Filter) (*tell.Reader, error) {
	ctx, err := guard.Context(ctx)
	if err != nil {
		return nil, err
	}
	if x == nil {
		return nil, fmt.Errorf("%w: there are no events without an executor; Open makes one", ErrConfig)
	}
	if x.cluster != nil {
		return nil, fmt.Errorf("%w: events are of the executors of partitions", ErrConfig)
	}
	var queues []*tell.Source
	for _, name := range f.Queues {
		q, err := x.lookup(name)
		if err != nil {
			return nil, err
		}
		queues = append(queues, &q.Events)
	}
	r, err := x.events.Read(ctx, f, queues)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return r, nil
}
