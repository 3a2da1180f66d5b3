package inspect

import (
	"fmt"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/internal/brief"
)

// Explanation says what a job does, and why it does not run.
type Explanation struct {
	Queue, ID string
	State     JobState
	Due       time.Time // zero if unknown
	Attempt   int       // that runs or comes next, as in [executor.Job]: 1, 2, 3, …; a job that failed twice is at 3
	LastError string
	Payloads  int // that wait
	// Paused says what a person has paused, if that keeps the job from running,
	// whatever its State: some of "executor", "queue", "prefix …" with the quoted prefix,
	// and "id".
	Paused []string
	Dead   int `wire:",omit"` // dead letters, of an id without a job; LastError is of the one that died last
	// Keys are the keys that block the job, with the jobs that have locked them or
	// whose turn comes first.
	Keys []KeyLockStatus
	// Unique are the leases that the job waits for, with up to 100 waiters each.
	Unique []LeaseStatus `wire:"leases"`
	// Behind is the job, as queue/id, that the job waits for in lanes that its queue
	// shares with others: the one that runs or comes first there; see
	// QueueConfig.Conditions.SharedLanes. Ahead is how many payloads of other queues
	// stand before it, up to 65,536: those of Behind, and those in between.
	Behind string `wire:",owner"`
	Ahead  int
	// Slots are the values that other jobs hold, when the job waits for one to come
	// back.
	Slots []SlotHeld
	// Limit is the key of a limit that the job waits for; nil: it waits for none.
	Limit *LimitKey
	// Newest is the score of the newest payload of the id that was done, under
	// [executor.MergeSupersede]; nil: there was none with a score. Inspector.Delete with
	// SelectIDs makes the executor forget it.
	Newest *float64 `wire:",omit"`
	// Turn says why no worker has taken the job, when it is ready; nil: a worker is
	// about to, or the job waits within Config.Advanced.TimerSlack.
	Turn *Turn
	// More is how many keys, leases or slots there are beyond the 100 that are
	// shown.
	More int
	Text string // all of it in one line, as String returns it
}

// String is one line for people. It shows the first ten of each list, and says how
// many more there are; long names and errors are cut, and what does not print is
// quoted.
func (e Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is %s", brief.Clip(brief.Job(e.Queue, e.ID)), e.State)
	if when := map[JobState]string{JobScheduled: " for ", JobRetrying: " at "}[e.State]; when != "" {
		b.WriteString(when + e.Due.Format(time.RFC3339Nano))
	}
	if e.State != JobRunning && len(e.Paused) > 0 {
		fmt.Fprintf(&b, " (pause of the %s)", strings.Join(e.Paused, ", "))
	}
	if e.Attempt > 1 && e.State != JobDead {
		fmt.Fprintf(&b, ", failed %s: %s", brief.Count(e.Attempt-1, "time", "times"), brief.Text(e.LastError))
	} else if e.LastError != "" && (e.State == JobHalted || e.State == JobSuspected) { // it ended the process, and did not fail
		b.WriteString(": " + brief.Text(e.LastError))
	}
	if e.State == JobDead {
		fmt.Fprintf(&b, ", %s in the morgue: %s", brief.Count(e.Dead, "payload is", "payloads are"), brief.Text(e.LastError))
	}
	b.WriteString(brief.Newest(e.Newest))
	if e.Behind != "" {
		b.WriteString("; comes after " + brief.Text(e.Behind))
	}
	if e.Ahead > 1 {
		fmt.Fprintf(&b, ", behind %d payloads of other queues", e.Ahead)
	}
	// One of the three at most has anything in it.
	for _, k := range brief.First(e.Keys) {
		b.WriteString("; " + k.String())
	}
	for _, s := range brief.First(e.Unique) {
		b.WriteString("; " + s.String())
	}
	for _, s := range brief.First(e.Slots) {
		fmt.Fprintf(&b, "; slot %q is %s's%s", s.Slot, brief.Text(s.By), left(s.Until))
	}
	if e.Limit != nil {
		b.WriteString("; " + e.Limit.String())
	}
	if e.Turn != nil {
		b.WriteString("; " + e.Turn.String())
	}
	if more := e.More + max(len(e.Keys), len(e.Unique), len(e.Slots)) - brief.Listed; more > 0 {
		fmt.Fprintf(&b, "; and %d more of that kind", more)
	}
	return b.String()
}

// Holdings are what a job has that others may wait for, 100 of each kind at
// most.
type Holdings struct {
	Keys   []string   `wire:",each=key"` // locked by Locks; those that Locks.Service keeps are not known
	Leases []string   `wire:",each=key"` // keys of Unique
	Slots  []SlotHeld // of Slots
}

// JobState says what a job does, or why it does not run. [Inspector.Explain] returns those
// below and [JobRetrying]; lists use those in the table at [JobRetrying].
type JobState string

const (
	// JobUnknown: the id has neither a job nor dead letters. Explain says so without an error.
	JobUnknown JobState = "unknown"
	// JobRunning: a worker runs the job, or has been given it and comes to it next.
	JobRunning JobState = "running"
	// JobReady: the job is due. It waits for a worker, for its shard, or within
	// Config.Advanced.TimerSlack for others; see [Turn].
	JobReady JobState = "ready"
	// JobScheduled: the job is not due yet, and has not failed; see also JobRetrying.
	JobScheduled JobState = "scheduled"
	// JobBlocked: the job waits until keys of [executor.Locks] are unlocked.
	JobBlocked JobState = "blocked"
	// JobWaiting: the job waits for a key of [executor.Unique], for a slot, or for its turn in shared lanes.
	JobWaiting JobState = "waiting"
	// JobLimited: the job waits for a [executor.Limit]: until another job of its key has ended, or
	// until a time.
	JobLimited JobState = "limited"
	// JobSuspected: the job ran at the last two crashes of the process, and waits for its turn to
	// run without the others that did, or for room on a full disk to be given up; see Config.Crash.
	JobSuspected JobState = "suspected"
	// JobHalted: the id has stopped, until a person calls RunNow or RetryNow, puts a dead letter of it back, or ends
	// its failed payloads.
	JobHalted JobState = "halted"
	// JobPaused: a person has paused the id, a prefix of it, its queue or the executor, until Resume.
	JobPaused JobState = "paused"
	// JobDead: the id has no job, but dead letters.
	JobDead JobState = "dead"
)

// The states of jobs in lists. Each job is in one of six at any moment:
//
//	in a list        it                                      [Inspector.Explain] says
//	────────────────────────────────────────────────────────────────────────────────
//	[JobReady]       is due and waits for a worker, also     JobReady
//	                 one that has failed
//	[JobScheduled]   is due later, and has not failed        JobScheduled, Attempt 1
//	[JobRetrying]    is due later, and has failed            JobRetrying, Attempt above 1
//	[JobParked]      waits for a key, lease, slot, limit or  JobBlocked, JobWaiting,
//	                 turn, or a person has paused its id,    JobLimited, JobSuspected,
//	                 or a prefix of it                       JobPaused
//	[JobHalted]      has stopped until a person acts         JobHalted
//	[JobRunning]     is handed to a worker                   JobRunning
//
// Where several fit, the first of these counts: JobRunning, JobHalted, JobParked, and
// then the three that only time decides. Jobs that wait are those in all states but
// JobRunning. Dead letters are payloads in the morgue and no jobs: see
// [Inspector.Dead]. A pause of the queue or the executor changes no state here:
// [QueueStats] and Explain say so.
const (
	// JobRetrying: it has used up a retry, and waits for its next run, also after a snooze.
	JobRetrying JobState = "retrying"
	// JobParked: it waits for a key, lease, slot, limit or turn, or a person has paused its id or a prefix of the id.
	JobParked JobState = "parked"
	// JobFresh: it has used up no retry, whatever it does now; these jobs are those that
	// QueueStats.Fresh counts. Queries take it like a state, and no job shows it.
	JobFresh JobState = "fresh"
)

// Turn says why no worker has taken a job that is ready to run, as [Explanation] shows
// it.
type Turn struct {
	// Reason is the first of these that is true:
	//
	//	not started      there are no workers before [executor.Executor.Start]
	//	max concurrent   the queue runs as many handlers as QueueConfig.MaxConcurrent allows
	//	concurrency      the shard of the id runs as many jobs as QueueConfig.Share.Concurrency allows
	//	priority         all workers are busy, and under [executor.Fair] queues of a higher priority come first
	//	weight           all workers are busy, and under [executor.Fair] queues that have had less of their share come first
	//	workers          all workers are busy
	Reason string

	// Running is how many are at work, and Of how many may be: handlers of the queue
	// for max concurrent, jobs of the shard for concurrency, otherwise all workers; 0 before
	// Start. Running may be above Of for a while after [executor.Queue.Tune].
	Running, Of int

	// Before names the queues with a job due that workers serve first, 100 at
	// most. It is set for priority and weight only.
	Before []string `wire:",each=queue"`
	More   int      // queues that are not in Before
}

// String is a part of a line, as that of [Explanation].
func (t Turn) String() string {
	busy := fmt.Sprintf("all %d workers are busy", t.Of)
	before := func() string { return brief.Some(t.Before, t.More, brief.Text) }
	switch t.Reason {
	case "not started":
		return "the executor has not started"
	case "max concurrent":
		return fmt.Sprintf("the queue runs %d of %d", t.Running, t.Of)
	case "concurrency":
		return fmt.Sprintf("its shard runs %d of %d", t.Running, t.Of)
	case "priority":
		return busy + ", and queues of a higher priority come first: " + before()
	case "weight":
		return busy + ", and queues that have had less of their share come first: " + before()
	}
	return busy
}
