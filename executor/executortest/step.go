package executortest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/backdoor"
	"github.com/strandjobs/strand/executor/internal/each"
)

// UntilIdle runs what is due now, and what this enqueues to be due now, until nothing is left to run. What is due later
// stays, and so does what waits for a lock, a limit, a pause or a person. No time passes, unless handlers take it.
func (x *Executor) UntilIdle() {
	x.t.Helper()
	defer x.release("UntilIdle")()
	x.settle()
}

// Advance lets d pass, and runs what is due or becomes due meanwhile, until then: a
// handler may be in the middle of its work afterwards. With 0, or less, no time passes.
func (x *Executor) Advance(d time.Duration) {
	x.t.Helper()
	defer x.release("Advance")()
	x.wait()
	time.Sleep(d)
	x.wait()
	x.checkRuns()
}

// UntilEmpty runs all jobs, with the time that their retries and due times take, until there is none: each payload has
// ended, or is in the morgue. Jobs that wait for something that does not come within Config.Patience fail the test.
func (x *Executor) UntilEmpty() {
	x.t.Helper()
	defer x.release("UntilEmpty")()
	for quiet := time.Now(); ; {
		x.settle()
		var next time.Time // when the first job is due that time alone keeps from running; zero: none is
		jobs := 0
		stats, _ := x.Executor.Stats(context.Background()) // nothing from one that has ended
		for _, q := range stats.Queues {
			if jobs += q.Jobs; q.Jobs == 0 || q.Paused {
				continue
			}
			page, err := x.Inspect().Jobs(context.Background(), inspect.JobQuery{
				Queue: q.Name, States: []inspect.JobState{inspect.JobScheduled, inspect.JobRetrying}, Order: inspect.OrderDue, Limit: 1,
			})
			if err == nil && len(page.Jobs) > 0 && (next.IsZero() || page.Jobs[0].Due.Before(next)) {
				next = page.Jobs[0].Due
			}
		}
		if jobs == 0 || x.over() {
			return
		}
		deadline := quiet.Add(x.cfg.Patience)
		if !next.IsZero() {
			deadline = next.Add(-time.Duration(x.cfg.Ahead.Load()))
		} else if !time.Now().Before(deadline) {
			x.t.Fatalf("executortest: UntilEmpty: %d jobs are left, and nothing has happened for %v:\n%s", jobs, x.cfg.Patience, whatWaits(x.Executor))
		}
		if x.record.pauseUntil(deadline) || !next.IsZero() {
			quiet = time.Now()
		}
	}
}

// Live runs jobs while f runs on this goroutine, and then until nothing is left to run,
// as UntilIdle does: for code that waits for its own job.
func (x *Executor) Live(f func()) {
	x.t.Helper()
	defer x.release("Live")()
	f()
	x.settle()
}

// release lets the workers go on, until the function that it returns is called.
func (x *Executor) release(call string) (hold func()) {
	x.t.Helper()
	x.wait()
	x.record.allow(x.cfg.MaxRuns)
	x.step = call
	life := x.present()
	if !life.dead.Load() {
		backdoor.Hold(life.x, false)
	}
	return life.hold
}

// settle waits until no handler runs, and what they have done is on disk.
func (x *Executor) settle() {
	x.t.Helper()
	for quiet, seen, flushed := time.Now(), -1, -1; ; {
		x.wait()
		x.checkRuns()
		n, busy := x.record.count(), backdoor.Busy(x.Executor) > 0
		if n != seen {
			quiet, seen = time.Now(), n
		}
		switch {
		case x.over(), n == flushed && !busy:
			return
		case time.Since(quiet) >= x.cfg.Patience:
			x.t.Fatalf("executortest: %s: nothing has happened for %v, and these have not returned:\n%s", x.step, x.cfg.Patience, stacks(x.Executor))
		case busy:
			x.record.pause(quiet, x.cfg.Patience)
		default:
			flushed = n
			x.flush()
		}
	}
}

// flush waits for the disk. While that is full it may be for long, and it is not waited for.
// Shards that are asked for their figures see what is due now, before Slack has passed.
func (x *Executor) flush() {
	patience := x.cfg.Patience
	if errors.Is(x.Executor.Err(), executor.ErrFull) {
		patience = min(patience, time.Second)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = backdoor.Settled(ctx, x.Executor) // a journal that has failed says so itself
	_, _ = x.Executor.Stats(ctx)
}

// over reports whether the executor can't go on, as the test has asked for.
func (x *Executor) over() bool {
	x.t.Helper()
	err := x.Executor.Err()
	if errors.Is(err, executor.ErrFailed) && !x.Disk.toFail() {
		x.t.Fatalf("executortest: %s: %v", x.step, err)
	}
	return errors.Is(err, executor.ErrFailed) || errors.Is(err, executor.ErrClosed) || x.Killed()
}

func (x *Executor) checkRuns() {
	x.t.Helper()
	var ranAway bool
	if locked(&x.record.mu, func() { ranAway = x.record.ran }); ranAway {
		x.t.Fatalf("executortest: %s: handlers were called more than %d times, and there is no end to it; the last calls:\n%s", x.step, x.cfg.MaxRuns, lines(x.Runs(), Ran.String))
	}
}

// wait returns when all goroutines of the bubble wait, the test's own but for this one.
func (x *Executor) wait() {
	x.guard.set(x.record.count)
	synctest.Wait()
	x.guard.set(nil)
}

// pause waits for something to happen, and not for much longer than it has waited so
// far: what ends a wait need not be an event.
func (r *record) pause(since time.Time, most time.Duration) {
	step := max(time.Since(since)/8, 10*time.Millisecond)
	r.pauseUntil(time.Now().Add(min(step, most)))
}

// pauseUntil waits until something happens, or until a time; false.
func (r *record) pauseUntil(deadline time.Time) bool {
	select {
	case <-r.changed:
		return true
	case <-time.After(time.Until(deadline)):
		return false
	}
}

func (r *record) count() (told int) {
	locked(&r.mu, func() { told = r.told })
	return told
}

// whatWaits explains the first jobs of each queue.
func whatWaits(x *executor.Executor) string {
	var lines []string
	stats, err := x.Stats(context.Background())
	if err != nil {
		return indent(err.Error())
	}
	for _, q := range stats.Queues {
		if !q.Registered || q.Jobs == 0 {
			continue
		}
		page, err := x.Inspect().Jobs(context.Background(), inspect.JobQuery{Queue: q.Name, Order: inspect.OrderDue, Limit: shownAtMost})
		if err != nil {
			lines = append(lines, q.Name+": "+err.Error())
		}
		lines = append(lines, each.Of(page.Jobs, func(job inspect.JobInfo) string { return explain(x, q.Name, job.ID) })...)
		if more := q.Jobs - len(page.Jobs); more > 0 {
			lines = append(lines, fmt.Sprintf("and %d more of %s", more, q.Name))
		}
	}
	return indent(lines...)
}

func explain(x *executor.Executor, queue, id string) string {
	e, err := x.Inspect().Explain(context.Background(), queue, id)
	if err != nil {
		return queue + "/" + id + ": " + err.Error()
	}
	if e.State == inspect.JobUnknown {
		return queue + "/" + id + " has no job"
	}
	return e.String()
}

// stacks says what the workers do, and where.
func stacks(x *executor.Executor) string {
	list, err := x.Inspect().Running(context.Background(), inspect.RunningQuery{Stacks: true, Limit: shownAtMost})
	if err != nil {
		return indent(err.Error())
	}
	var lines []string
	for _, r := range list.Running {
		lines = append(lines, r.String(), r.Stack)
	}
	if len(lines) == 0 {
		lines = append(lines, "(no handler: the disk, or a call that the test has made)")
	}
	return indent(lines...)
}

// Result is what came of a payload that Work has run once.
type Result struct {
	Ran       // the call of the handler
	Receipt   executor.Receipt
	FollowUps []Enqueued     // what it has enqueued; if it succeeded, also what it has staged
	Progress  []events.Event // what it has said of its progress: at most one event a second
}

// Work enqueues a payload and runs it once, with all that a handler can rely on: job, context, metadata, middleware,
// limits, FollowUp, Progress. What it enqueues waits. What is due before runs before, as with UntilIdle. A payload
// that is not run, because its queue is paused or its IdempotencyKey came before, for example, fails the test. Of a
// [executor.Caller] give its Queue.
func Work[T any](x *Executor, queue *executor.Queue[T], id string, payload T, options ...executor.Option) Result {
	x.t.Helper()
	x.UntilIdle()
	first := len(x.History())
	before := len(x.Enqueued())
	receipt, err := queue.Enqueue(x.t.Context(), id, payload, options...)
	if err != nil || receipt.Duplicate { // whose payload may have run before
		x.t.Fatalf("executortest: Work: %s/%s was not enqueued (a duplicate: %v): %v", queue.Name(), id, receipt.Duplicate, err)
	}
	position := cmp.Or(receipt.MergedInto, receipt.Position)
	x.record.holdAfter(position)
	x.UntilIdle()
	x.record.holdAfter(0)
	result := Result{Receipt: receipt, FollowUps: x.Enqueued()[before+1:]}
	if runs := slices.DeleteFunc(x.Runs(queue.Name()), func(r Ran) bool { return !r.has(position) }); len(runs) > 0 {
		result.Ran = runs[len(runs)-1]
	}
	if result.Outcome == "" {
		x.t.Fatalf("executortest: Work: %s/%s was not run: %s", queue.Name(), id, explain(x.Executor, queue.Name(), id))
	}
	result.Progress = append(result.Progress, slices.DeleteFunc(x.History()[first:], func(e events.Event) bool {
		return e.Kind != events.Progress || e.Queue != queue.Name() || e.ID != id
	})...) // nil: nothing
	return result
}
