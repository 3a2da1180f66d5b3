package executor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/strandjobs/strand/shard"
)

// JobState says why a job does not run, or that it does.
type JobState string

const (
	JobUnknown   JobState = "unknown"   // the id has no job
	JobRunning   JobState = "running"   // or handed to a worker that comes to it next
	JobReady     JobState = "ready"     // due: it waits for a worker, for its shard, or within Config.TimerSlack for others
	JobScheduled JobState = "scheduled" // not due yet; a retry, if Attempt is above 1
	JobBlocked   JobState = "blocked"   // waits until keys are unlocked
	JobWaiting   JobState = "waiting"   // waits until an equal one has run, or for a slot
	JobLimited   JobState = "limited"   // waits for a [Limit]: until a job of its key has ended, or until a time
	JobSuspected JobState = "suspected" // ran at the last two deaths of the process, and waits for its turn to run without others that did
	JobHalted    JobState = "halted"    // until RunNow
	JobPaused    JobState = "paused"    // a person has paused it, its queue, or the executor: until Resume
	JobDead      JobState = "dead"      // the id has no job, but payloads in the morgue
)

// Explanation says what a job does, and why it does not run.
type Explanation struct {
	Queue, ID string
	State     JobState
	Due       time.Time // zero if unknown
	Attempt   int       // that runs or comes next, as in [Job]: 1, 2, 3, …; a job that failed twice is at 3
	LastError string
	Payloads  int // that wait
	// Paused says what a person has paused, if that keeps the job from running,
	// whatever its State: some of "executor", "queue" and "id".
	Paused []string
	Dead   int // payloads in the morgue, of an id without a job; LastError is of the one that died last
	// Keys are the keys that block it, with the jobs that have locked them or were
	// called before it.
	Keys []KeyLockStatus
	// Unique are the leases that it waits for, with up to MaxListed waiters each.
	Unique []LeaseStatus
	// Behind is the job, as queue/id, that comes before it in lanes that queues
	// share; see QueueConfig.SharedLanes.
	Behind string
	// Slots are the slots that are out, when it waits for one to come back.
	Slots []SlotHeld
	// Limit is the key of a limit that it waits for; nil: it does not.
	Limit *LimitKey
	// More is how many keys, leases or slots there are beyond the MaxListed of
	// which it tells.
	More int
}

// LeaseStatus is a key of [Unique] that a job waits for. Jobs are named as
// queue/id.
type LeaseStatus struct {
	Key       string
	By        string        // the job that has it; empty: it is free, and about to be granted, or kept for Called
	Called    string        // the job whose turn it is: it waits for a worker, and none in Waiters overtakes it
	Token     uint64        // of its lease
	HeldFor   time.Duration // so far
	Remaining time.Duration // until the lease ends if it is not extended; 0: it does not end by itself
	Waiters   []LeaseWaiter // in the order in which they will get it
	More      int           // waiters that are not in Waiters
}

// LeaseWaiter is a job that waits for a lease.
type LeaseWaiter struct {
	By  string        // as queue/id
	For time.Duration // how long it has waited
}

// SlotHeld is a value of [Slots] that a job has.
type SlotHeld struct {
	Slot  string    // the name of the sequence, and the value
	By    string    // the job, as queue/id
	Until time.Time // zero: it does not end by itself
}

func (l *locks) leaseStatus(key string) LeaseStatus {
	s := l.unique.Status(key).Cut(MaxListed)
	status := LeaseStatus{Key: s.Key, HeldFor: s.HeldFor, Remaining: s.Remaining, More: s.More}
	switch {
	case s.Holder.Token == 0:
	case s.Holder.TTL == 0 && l.called(s.Holder.Token):
		status.Called, status.HeldFor = s.Holder.Owner, 0
	default:
		status.By, status.Token = s.Holder.Owner, s.Holder.Token
	}
	for _, w := range s.Waiters {
		status.Waiters = append(status.Waiters, LeaseWaiter{w.Owner, w.For})
	}
	return status
}

// called reports whether the lease with a token is kept for a job that waits for a
// worker. Only such a one, and one of a TTL of centuries, has no end. mu is held.
func (l *locks) called(token uint64) bool {
	for _, p := range l.places {
		if lease, granted := p.Lease(); granted && lease.Token() == token {
			return true
		}
	}
	return false
}

// Explain says why the job of an id does not run: what it waits for, which job has
// that, and for how much longer. Of an id without a job it tells the dead payloads,
// for which it goes through the morgue of the queue; see [Inspector.Dead] for what
// that takes. It returns ErrUnknownQueue, ErrClosed, ErrFailed, or the cause of ctx.
func (x *Executor) Explain(ctx context.Context, queue, id string) (Explanation, error) {
	ctx, err := usable(ctx)
	if err != nil {
		return Explanation{}, err
	}
	q, err := x.lookup(queue)
	if err != nil {
		return Explanation{}, err
	}
	return q.explain(ctx, id)
}

func (q *queue) explain(ctx context.Context, id string) (Explanation, error) {
	e := Explanation{Queue: q.name, ID: id, State: JobUnknown, Attempt: 1}
	var s shard.Status
	if err := q.actors[q.route([]byte(id))-q.first].Do(ctx, func(c *shard.Core) { s = c.Status(id) }); err != nil {
		return Explanation{}, border(err)
	}
	if !s.Known {
		return e, q.explainDead(ctx, &e)
	}
	e.Due, e.Attempt, e.LastError, e.Payloads = time.Unix(0, s.Due), s.Retry+firstAttempt, s.LastError, s.Payloads
	e.Paused = q.x.pauses.over(q.name, s.Paused)
	switch {
	case s.Running:
		e.State = JobRunning
	case s.Halted:
		e.State = JobHalted
	case e.Paused != nil:
		e.State = JobPaused
	case s.Parked:
		if !q.x.limits.explain(&e) {
			q.x.locks.explain(q, &e)
		}
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
	by := holder{Queue: e.Queue, ID: e.ID}
	keys, called := l.keys.Waits(by)
	if called {
		e.State = JobReady // its shard is about to hear of it
		return
	}
	if len(keys) > 0 {
		e.State = JobBlocked
		e.More = max(len(keys)-MaxListed, 0)
		for _, key := range keys[:len(keys)-e.More] {
			e.Keys = append(e.Keys, l.status(key))
		}
		return
	}
	e.State = JobWaiting
	if e.Behind = q.behind(e.ID); e.Behind != "" {
		return
	}
	if place := l.places[by]; place != nil {
		keys := place.Keys()
		e.More = max(len(keys)-MaxListed, 0)
		for _, key := range keys[:len(keys)-e.More] {
			e.Unique = append(e.Unique, l.leaseStatus(key))
		}
		return
	}
	if l.x.quarantine.Holds(e.Queue, e.ID) {
		e.State = JobSuspected
		return
	}
	for _, s := range q.locking.slots {
		for _, h := range s.holders() {
			e.Slots = append(e.Slots, SlotHeld{strings.Join(h.Keys, " "), h.Owner, h.Until})
		}
	}
	e.More = max(len(e.Slots)-MaxListed, 0)
	e.Slots = e.Slots[:len(e.Slots)-e.More]
}

// String is one line for people. It shows the first ten of each list, and says how
// many more there are; long names and errors are cut, and what does not print is
// quoted.
func (e Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is %s", brief(holder{Queue: e.Queue, ID: e.ID}.String()), e.State)
	if e.State == JobScheduled {
		fmt.Fprintf(&b, " for %s", e.Due.Format(time.RFC3339Nano))
	}
	if e.State != JobRunning && len(e.Paused) > 0 {
		fmt.Fprintf(&b, " (pause of the %s)", strings.Join(e.Paused, ", "))
	}
	if e.Attempt > 1 && e.State != JobDead {
		fmt.Fprintf(&b, ", failed %d times: %s", e.Attempt-1, brief(e.LastError))
	}
	if e.State == JobDead {
		fmt.Fprintf(&b, ", %d payloads are in the morgue: %s", e.Dead, brief(e.LastError))
	}
	if e.Behind != "" {
		b.WriteString("; comes after " + brief(e.Behind))
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
	if more := e.More + max(len(e.Keys), len(e.Unique), len(e.Slots)) - shownAtMost; more > 0 {
		fmt.Fprintf(&b, "; and %d more of that kind", more)
	}
	return b.String()
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
