package executor

import (
	"cmp"
	"context"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/tally"
)

// logStart is the one line about a start, with what the last process left behind when it died.
func (x *Executor) logStart() {
	s, _ := x.inspector.Stats(context.Background()) // an error: a shard has failed, and Start says so
	life := tally.Life{Dir: x.dir, Workers: x.cfg.Workers, Queues: len(x.registered()), Took: time.Since(x.opening)}
	if life.Death, _ = x.log.Crash(); life.Death != nil {
		life.Suspects = x.quarantine.Named()
	}
	for _, q := range x.registered() {
		life.Again += q.again
	}
	life.Started(x.handlers, x.cfg.Logger, s.Total())
}

// aMoment is how long a stop waits so that its line has what handlers have just enqueued.
const aMoment = 100 * time.Millisecond

// sum returns the figures of all queues together, for the line about a stop; nil
// for an executor that never began to run jobs.
func (x *Executor) sum() *inspect.QueueStats {
	ctx, cancel := context.WithTimeout(context.Background(), aMoment)
	defer cancel()
	_ = x.log.Settled(ctx)
	if x.began.IsZero() {
		return nil
	}
	s, err := x.inspector.Stats(context.Background())
	if err != nil {
		return nil
	}
	return new(s.Total())
}

// logStop is the one line about a stop.
func (x *Executor) logStop(all *inspect.QueueStats, stopping time.Time, stuck []string) {
	life := tally.Life{Dir: x.dir, Stuck: stuck, Err: x.failure(), RanFor: stopping.Sub(cmp.Or(x.began, stopping)), Took: time.Since(stopping)}
	for _, q := range x.queues { // no more are made
		life.LeftOut += q.Lines.Unsaid()
	}
	if !x.began.IsZero() || life.LeftOut > 0 {
		life.Stopped(x.handlers, x.cfg.Logger, all)
	}
}
