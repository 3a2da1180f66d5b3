package executortest

import (
	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
)

// Result is what came of a payload that Work has run once.
type Result struct {
	Ran       // the call of the handler
	Receipt   executor.Receipt
	FollowUps []Enqueued     // what it has enqueued; if it succeeded, also what it has staged
	Progress  []events.Event // what it has said of its progress: at most one event a second
}

// Work enqueues a payload and runs it once, with all that a handler can rely on: job,
// context, metadata, middleware, limits, FollowUp, Progress. What it enqueues waits. What
// is due before runs before, as with UntilIdle. A payload that does not come to its
// turn, because its queue is paused for example, fails the test. Of a [executor.Caller]
// give its Queue.
func Work[T any](x *Executor, queue *executor.Queue[T], id string, payload T, options ...executor.Option) Result {
	x.t.Helper()
	x.UntilIdle()
	first := len(x.History())
	before := len(x.Enqueued())
	receipt, err := queue.Enqueue(x.t.Context(), id, payload, options...)
	if err != nil {
		x.t.Fatalf("executortest: Work: %s/%s: %v", queue.Name(), id, err)
	}
	position := receipt.Position
	if receipt.MergedInto != 0 {
		position = receipt.MergedInto
	}
	x.record.holdAfter(position)
	x.UntilIdle()
	x.record.holdAfter(0)
	result := Result{Receipt: receipt, FollowUps: x.Enqueued()[before+1:]}
	for _, r := range x.Runs(queue.Name()) {
		if r.has(position) {
			result.Ran = r
		}
	}
	if result.Outcome == "" {
		x.t.Fatalf("executortest: Work: %s/%s was not run: %s", queue.Name(), id, x.explain(queue.Name(), id))
	}
	for _, e := range x.History()[first:] {
		if e.Kind == events.Progress && e.Queue == queue.Name() && e.ID == id {
			result.Progress = append(result.Progress, e)
		}
	}
	return result
}
