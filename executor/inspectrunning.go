package executor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/internal/goroutine"
)

// RunningQuery says which running jobs to list.
type RunningQuery struct {
	Queue string // by name; "": all queues
	// Stacks asks for the stacks of their handlers. All goroutines of the process
	// stand still while they are taken: some milliseconds for a thousand.
	Stacks bool
	Limit  int // as in JobQuery; those that have run the longest come first
}

// RunningList is what workers have in hand.
type RunningList struct {
	Running []Running
	More    int // workers at work that are not in Running
}

// Running is what one worker has in hand: one job, or with [HandleBatch] several.
type Running struct {
	Queue  string
	Worker int // its number, from 0; one that takes the place of another has one of its own
	Jobs   []RunningJob
	More   int // jobs that are not in Jobs, which has MaxListed at most

	// Since is when the worker began with what the jobs were handed out with: up to
	// about a millisecond before their handler was called. Age is the time from then
	// on.
	Since   time.Time
	Age     time.Duration
	Timeout time.Duration `wire:",omit"` // QueueConfig.Timeout; 0: none
	Stuck   bool          // the handler goes on although its time is over; see Config.Stuck.After

	// Progress is what the handler has said with [Progress] or [Heartbeat] last; nil:
	// it has not.
	Progress *ProgressReport

	// Stack is that of the handler, if it was asked for: the first 16 KiB. It is of
	// a moment later, and empty if the goroutine ended before.
	Stack string `wire:",omit"`
}

// RunningJob is a job that a worker has in hand.
type RunningJob struct {
	ID       string
	Attempt  int    // 1, 2, 3, …
	Position uint64 // of the payload in hand, the first of them if there are several
	Payloads int    // that it was handed out with
}

// stackBytes is how much of a stack is shown.
const stackBytes = 16 << 10

// Running lists what runs now. It asks the workers themselves, and waits for no
// shard, handler or disk. So it answers when all of these are stuck, and
// after Stop with the handlers that were left behind. It returns ErrUnknownQueue,
// ErrInvalidQuery or ErrContext.
func (i *Inspector) Running(ctx context.Context, query RunningQuery) (RunningList, error) {
	if i == nil || i.x == nil {
		return RunningList{}, errNoInspector
	}
	if _, err := usable(ctx); err != nil {
		return RunningList{}, err
	}
	if query.Queue != "" {
		if _, err := i.x.lookup(query.Queue); err != nil {
			return RunningList{}, err
		}
	}
	limit, err := listLimit(query.Limit)
	if err != nil {
		return RunningList{}, err
	}
	var at []atWork
	now := time.Now()
	for _, w := range i.x.crew() {
		if a, ok := w.atWork(now); ok && (query.Queue == "" || query.Queue == a.Queue) {
			if p, said := w.progress(); said {
				a.Progress = &p
			}
			at = append(at, a)
		}
	}
	slices.SortStableFunc(at, func(a, b atWork) int { return a.Since.Compare(b.Since) })
	list := RunningList{More: max(len(at)-limit, 0)}
	at = at[:len(at)-list.More]
	if query.Stacks && len(at) > 0 {
		dump := goroutine.All()
		for i := range at {
			at[i].Stack = cut(dump.Of(at[i].goroutine), stackBytes)
		}
	}
	for _, a := range at {
		list.Running = append(list.Running, a.Running)
	}
	return list, nil
}

// atWork is a worker that has something in hand, and its goroutine.
type atWork struct {
	Running
	goroutine goroutine.Header
}

// atWork says what the worker has in hand. Any goroutine may call it: what the
// worker writes without mu, it writes while nothing is in hand.
func (w *worker) atWork(now time.Time) (a atWork, ok bool) {
	w.hand.Lock()
	defer w.hand.Unlock()
	if len(w.batch) == 0 {
		return atWork{}, false
	}
	a = atWork{Running{
		Queue: w.queue.name, Worker: w.place, Since: w.start, Age: now.Sub(w.start), Timeout: w.queue.timeout, Stuck: w.hand.IsStuck(),
		More: max(len(w.batch)-MaxListed, 0),
	}, w.hand.Goroutine}
	for _, it := range w.batch[:len(w.batch)-a.More] {
		p, retry := it.InHand()
		a.Jobs = append(a.Jobs, RunningJob{it.ID, retry + firstAttempt, uint64(p.Ref.Position()), len(it.Payloads)})
	}
	return a, true
}

// String is one line; its stack is not in it.
func (r Running) String() string {
	jobs := some(r.Jobs, r.More, func(j RunningJob) string {
		return fmt.Sprintf("%s (attempt %d)", brief(holder{Queue: r.Queue, ID: j.ID}.String()), j.Attempt)
	})
	line := fmt.Sprintf("worker %d for %v: %s", r.Worker, r.Age.Round(time.Millisecond), jobs)
	if r.Stuck {
		line += fmt.Sprintf(", stuck after %v", r.Timeout)
	}
	if p := r.Progress; p != nil && (p.Total != 0 || p.Done != 0 || p.Message != "") {
		line += fmt.Sprintf(", progress %d of %d", p.Done, p.Total)
		if p.Message != "" {
			line += ": " + brief(p.Message)
		}
	}
	return line
}
