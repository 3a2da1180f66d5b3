package executor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/internal/dispatch"
	"github.com/strandjobs/strand/shard"
)

// Explain says why the job of an id does not run: what it waits for, which job has
// that, and for how much longer. For a job that is ready it says what keeps workers
// from it. For an id without a job it tells the dead letters, which it looks for among
// all of the queue; see [Inspector.Dead] for what that costs. It returns
// ErrUnknownQueue, ErrInvalidID for an id that no job can have, ErrClosed, ErrFailed,
// or the cause of ctx.
func (x *Executor) Explain(ctx context.Context, queue, id string) (Explanation, error) {
	ctx, err := usable(ctx)
	if err != nil {
		return Explanation{}, err
	}
	q, err := x.lookup(queue)
	if err == nil {
		err = checkID(id)
	}
	if err != nil {
		return Explanation{}, err
	}
	return q.explain(ctx, id)
}

func (q *queue) explain(ctx context.Context, id string) (Explanation, error) {
	e := Explanation{Queue: q.name, ID: id, State: JobUnknown, Attempt: 1}
	s, err := q.status(ctx, id)
	if err != nil {
		return Explanation{}, err
	}
	if e.Newest = s.Newest; !s.Known {
		return e, q.explainDead(ctx, &e)
	}
	e.Due, e.Attempt, e.LastError, e.Payloads = time.Unix(0, s.Due), s.Retry+firstAttempt, s.LastError, s.Payloads
	e.Paused = q.pauses.Over(id, s.Paused)
	switch {
	case s.Running:
		e.State = JobRunning
	case s.Halted:
		e.State = JobHalted
	case e.Paused != nil:
		e.State = JobPaused
	case s.Parked:
		q.explainWait(&e)
	case e.Due.After(q.x.clock()) && s.Retry >= 0:
		e.State = JobRetrying
	case e.Due.After(q.x.clock()):
		e.State = JobScheduled
	default:
		e.State = JobReady
	}
	if e.State == JobReady {
		e.Turn = q.turn(s.Runs, s.Concurrency)
	}
	return e, nil
}

func (q *queue) status(ctx context.Context, id string) (shard.Status, error) {
	var s shard.Status
	if err := q.shards.Of(id).Do(ctx, func(c *shard.Core) { s = c.Status(id) }); err != nil {
		return shard.Status{}, border(err) // the shard may still write to s
	}
	return s, nil
}

// explainWait says what a parked job waits for: the first of its conditions that has it in
// its line.
func (q *queue) explainWait(e *Explanation) {
	by := holder{Queue: e.Queue, ID: e.ID}
	e.State = JobWaiting
	for _, c := range q.admission.Shown() {
		if c.(shownCondition).explain(by, e) {
			return
		}
	}
	if q.x.quarantine.Holds(e.Queue, e.ID) {
		e.State = JobSuspected
	}
}

// newestDone tells the score of the newest state that was done; nil: none that had one.
func newestDone(score *float64) string {
	if score == nil {
		return ""
	}
	return "; newest done: score " + strconv.FormatFloat(*score, 'f', -1, 64)
}

// String is one line for people. It shows the first ten of each list, and says how
// many more there are; long names and errors are cut, and what does not print is
// quoted.
func (e Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is %s", brief(holder{Queue: e.Queue, ID: e.ID}.String()), e.State)
	switch e.State {
	case JobScheduled:
		fmt.Fprintf(&b, " for %s", e.Due.Format(time.RFC3339Nano))
	case JobRetrying:
		fmt.Fprintf(&b, " at %s", e.Due.Format(time.RFC3339Nano))
	}
	if e.State != JobRunning && len(e.Paused) > 0 {
		fmt.Fprintf(&b, " (pause of the %s)", strings.Join(e.Paused, ", "))
	}
	if e.Attempt > 1 && e.State != JobDead {
		fmt.Fprintf(&b, ", failed %s: %s", counted(e.Attempt-1, "time", "times"), brief(e.LastError))
	}
	if e.State == JobDead {
		fmt.Fprintf(&b, ", %s in the morgue: %s", counted(e.Dead, "payload is", "payloads are"), brief(e.LastError))
	}
	b.WriteString(newestDone(e.Newest))
	if e.Behind != "" {
		b.WriteString("; comes after " + brief(e.Behind))
	}
	if e.Ahead > 1 {
		fmt.Fprintf(&b, ", behind %d payloads of other queues", e.Ahead)
	}
	// One of the three at most has anything in it.
	for _, k := range first(e.Keys) {
		b.WriteString("; " + k.String())
	}
	for _, s := range first(e.Unique) {
		b.WriteString("; " + s.String())
	}
	for _, s := range first(e.Slots) {
		fmt.Fprintf(&b, "; slot %q is %s's (%v left)", s.Slot, brief(s.By), max(time.Until(s.Until), 0).Round(time.Millisecond))
	}
	if e.Limit != nil {
		b.WriteString("; " + e.Limit.String())
	}
	if e.Turn != nil {
		b.WriteString("; " + e.Turn.String())
	}
	if more := e.More + max(len(e.Keys), len(e.Unique), len(e.Slots)) - shownAtMost; more > 0 {
		fmt.Fprintf(&b, "; and %d more of that kind", more)
	}
	return b.String()
}

// counted is a number of things.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// String is one line, as that of [Explanation].
func (s LeaseStatus) String() string {
	var b strings.Builder
	b.WriteString(brief(s.Key) + ": ")
	switch {
	case s.Called != "":
		b.WriteString("kept for " + brief(s.Called) + ", which waits for a worker")
	case s.By == "":
		b.WriteString("free")
	default:
		fmt.Fprintf(&b, "held by %s (token %d) for %v", brief(s.By), s.Token, s.HeldFor)
	}
	if s.Remaining > 0 {
		fmt.Fprintf(&b, ", %v left", s.Remaining)
	}
	if len(s.Waiters) > 0 {
		b.WriteString("; waiting: " + some(s.Waiters, s.More, func(w LeaseWaiter) string {
			return fmt.Sprintf("%s for %v", brief(w.By), w.For)
		}))
	}
	return b.String()
}

// TurnReason says why no worker has taken a job that is ready to run: which bound its
// queue or shard has reached, or which queues come first. [Turn] has the figures.
type TurnReason string

// Reasons for which a ready job still waits. When several are true, [Turn] names the
// first of this list.
const (
	// TurnNotStarted: there are no workers before [Executor.Start].
	TurnNotStarted TurnReason = "not started"
	// TurnMaxConcurrent: the queue already runs as many handlers as
	// QueueConfig.MaxConcurrent allows.
	TurnMaxConcurrent TurnReason = "max concurrent"
	// TurnConcurrency: the shard of the id already runs as many jobs as
	// QueueConfig.Share.Concurrency allows.
	TurnConcurrency TurnReason = "concurrency"
	// TurnPriority: all workers are busy, and under [Fair] queues of a higher priority
	// come first.
	TurnPriority TurnReason = "priority"
	// TurnWeight: all workers are busy, and under [Fair] queues that have had less of
	// their share come first.
	TurnWeight TurnReason = "weight"
	// TurnWorkers: all workers are busy.
	TurnWorkers TurnReason = "workers"
)

// Turn says why no worker has taken a job that is ready to run, as [Explanation] shows
// it.
type Turn struct {
	Reason TurnReason

	// Running is how many are at work, and Of how many may be: handlers of the queue
	// for TurnMaxConcurrent, jobs of the shard for TurnConcurrency, otherwise all
	// workers. Running may be above Of for a while after [Queue.Tune].
	Running, Of int

	// Before names the queues with a job due that workers serve first, MaxListed at
	// most. It is set for TurnPriority and TurnWeight only.
	Before []string `wire:",each=queue"`
	More   int      // queues that are not in Before
}

// String is a part of a line, as that of [Explanation].
func (t Turn) String() string {
	busy := fmt.Sprintf("all %d workers are busy", t.Of)
	before := func() string { return some(t.Before, t.More, brief) }
	switch t.Reason {
	case TurnNotStarted:
		return "the executor has not started"
	case TurnMaxConcurrent:
		return fmt.Sprintf("the queue runs %d of %d", t.Running, t.Of)
	case TurnConcurrency:
		return fmt.Sprintf("its shard runs %d of %d", t.Running, t.Of)
	case TurnPriority:
		return busy + ", and queues of a higher priority come first: " + before()
	case TurnWeight:
		return busy + ", and queues that have had less of their share come first: " + before()
	}
	return busy
}

// turn says why no worker comes to a shard of the queue with a job due, which runs so many
// of as many as it may; nil: one is about to come.
func (q *queue) turn(runs, most int) *Turn {
	t := q.x.dispatcher.Turn(q.share, runs, most)
	if t.Reason == dispatch.Coming {
		return nil
	}
	reason := [...]TurnReason{
		dispatch.NotStarted: TurnNotStarted, dispatch.MaxConcurrent: TurnMaxConcurrent, dispatch.Concurrency: TurnConcurrency,
		dispatch.Priority: TurnPriority, dispatch.Weight: TurnWeight, dispatch.Workers: TurnWorkers,
	}[t.Reason]
	more := max(len(t.Before)-MaxListed, 0)
	return &Turn{reason, t.Running, t.Of, t.Before[:len(t.Before)-more], more}
}
