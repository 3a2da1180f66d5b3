package executor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/strandjobs/strand/lock"
	"github.com/strandjobs/strand/shard"
)

// JobState says why a job does not run, or that it does.
type JobState string

const (
	JobUnknown   JobState = "unknown"   // the id has nothing to do
	JobRunning   JobState = "running"   // or handed to a worker that comes to it next
	JobReady     JobState = "ready"     // due: it waits for a worker, for its shard, or within Config.TimerSlack for others
	JobScheduled JobState = "scheduled" // not due yet; a retry, if Retry is not −1
	JobBlocked   JobState = "blocked"   // waits until keys are unlocked
	JobWaiting   JobState = "waiting"   // waits until an equal one has run, or for a slot
	JobSuspected JobState = "suspected" // ran at the last two deaths of the process, and waits for its turn to run without others that did
	JobHalted    JobState = "halted"    // until RunNow
)

// Explanation says what a job does, and why it does not run.
type Explanation struct {
	Queue, ID string
	State     JobState
	Due       time.Time // zero if unknown
	Retry     int       // −1: has not failed
	LastError string
	Payloads  int // that wait
	// Keys are what blocks it, with those who have locked them.
	Keys []KeyStatus
	// Unique are the leases that it waits for.
	Unique []lock.Status
	// Slots are the slots that are out, when it waits for one to come back.
	Slots []lock.Held
}

// Explain says why the job of an id does not run: who has locked what it waits
// for and for how much longer. It returns ErrUnknownQueue, ErrClosed, or the
// cause of ctx.
func (x *Executor) Explain(ctx context.Context, queue, id string) (Explanation, error) {
	q, err := x.lookup(queue)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{Queue: queue, ID: id, State: JobUnknown, Retry: -1}
	var s shard.Status
	if err := q.actors[q.route([]byte(id))-q.first].Do(ctx, func(c *shard.Core) { s = c.Status(id) }); err != nil {
		return Explanation{}, border(err)
	}
	if !s.Known {
		return e, nil
	}
	e.Due, e.Retry, e.LastError, e.Payloads = time.Unix(0, s.Due), s.Retry, s.LastError, s.Payloads
	switch {
	case s.Running:
		e.State = JobRunning
	case s.Halted:
		e.State = JobHalted
	case s.Parked:
		x.locks.explain(q, &e)
	case e.Due.After(time.Now()):
		e.State = JobScheduled
	default:
		e.State = JobReady
	}
	return e, nil
}

// explain says what a parked job waits for.
func (l *locks) explain(q *queue, e *Explanation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	by := holder{e.Queue, e.ID}
	if w := l.barrier.waits[by]; w != nil {
		e.State = JobBlocked
		for _, key := range w.blockedBy {
			if k := l.barrier.keys[key]; k != nil && k.blocks(by) {
				e.Keys = append(e.Keys, l.barrier.status(key))
			}
		}
		return
	}
	e.State = JobWaiting
	if place := l.places[by]; place != nil {
		for _, key := range place.Keys() {
			e.Unique = append(e.Unique, l.unique.Status(key))
		}
		return
	}
	if l.x.quarantine.holds(e.Queue, e.ID) {
		e.State = JobSuspected
		return
	}
	for _, s := range q.locking.slots {
		e.Slots = append(e.Slots, s.holders()...)
	}
}

// String is one line for people.
func (e Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s is %s", e.Queue, e.ID, e.State)
	if e.State == JobScheduled {
		fmt.Fprintf(&b, " for %s", e.Due.Format(time.RFC3339Nano))
	}
	if e.Retry >= 0 {
		fmt.Fprintf(&b, ", failed %d times: %s", e.Retry+1, e.LastError)
	}
	for _, k := range e.Keys {
		b.WriteString("; " + k.String())
	}
	for _, s := range e.Unique {
		b.WriteString("; " + s.String())
	}
	for _, s := range e.Slots {
		fmt.Fprintf(&b, "; slot %q is %s's (%v left)", s.Keys, s.Owner, max(time.Until(s.Until), 0).Round(time.Millisecond))
	}
	return b.String()
}
