package executor

import (
	"context"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/act"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/look"
	"github.com/strandjobs/strand/executor/internal/pause"
)

// Inspect returns what shows the executor to people, and lets them act on it; see package
// [inspect]. It may be called at any time, also before Start and after Stop.
func (x *Executor) Inspect() inspect.Inspector { return x.inspector }

// newInspector shows those two what there is.
func (x *Executor) newInspector() inspector {
	e := &engine.Engine{
		Log: x.log, Backlog: x.backlog, Dispatcher: x.dispatcher, Keys: x.keys, Leases: &x.leases, Ledger: x.ledger, Pauses: &x.pauses,
		Quarantine: &x.quarantine, Watchdog: x.watchdog, Stopped: x.stopped, Now: func() int64 { return x.clock().UnixNano() },
		Registered: func() (all []*engine.Queue) {
			for _, q := range x.registered() {
				all = append(all, &q.Queue)
			}
			return all
		},
		Lookup: func(name string) (*engine.Queue, error) {
			q, err := x.lookup(name)
			if err != nil {
				return nil, err
			}
			return &q.Queue, nil
		},
		Hands: x.hands, EndRemoved: x.endRemoved, MayChange: x.mayChange, Border: border,
	}
	return inspector{look.New(e), &act.Operator{Engine: e}}
}

// hands are what workers have in hand. What a worker writes without mu, it writes while that is
// nothing.
func (x *Executor) hands(now time.Time) (all []engine.Hand) {
	for _, w := range x.crew() {
		w.hand.Lock()
		h := engine.Hand{Goroutine: w.hand.Goroutine}
		if h.More = max(len(w.batch)-inspect.MaxListed, 0); len(w.batch) > 0 {
			h.Queue, h.Worker, h.Since, h.Age, h.Timeout, h.Stuck = w.queue.Name, w.place, w.start, now.Sub(w.start), w.queue.timeout, w.hand.IsStuck()
		}
		for _, it := range w.batch[:len(w.batch)-h.More] {
			p, retry := it.InHand()
			h.Jobs = append(h.Jobs, inspect.RunningJob{ID: it.ID, Attempt: retry + firstAttempt, Position: uint64(p.Ref.Position()), Payloads: len(it.Payloads)})
		}
		w.hand.Unlock()
		if p, said := w.progress(); said {
			h.Progress = &p
		}
		if len(h.Jobs) > 0 {
			all = append(all, h)
		}
	}
	return all
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
// restart or a crash. When it has returned, no handler is called any more. Handlers that
// run go on, with the decoding before them and the halves of their batch, and Pause does
// not wait for them. Enqueue still accepts payloads, schedules go on, and RunNow makes
// jobs due, which then wait like all others.
//
// The executor, and what [inspect.Inspector.Pause] pauses, queues, prefixes of ids and single ids,
// are paused independently: a job runs when none of them is. What a paused job locked when
// it was enqueued stays locked. When its turn comes in the line of a key, the next job
// gets it.
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
