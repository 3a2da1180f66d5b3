package executor

import "time"

// JobState says what a job does, or why it does not run. [Executor.Explain] returns
// those below; lists use the states beside [JobRetrying].
type JobState string

const (
	// JobUnknown: the id has no job.
	JobUnknown JobState = "unknown"
	// JobRunning: a worker runs the job, or has been given it and comes to it next.
	JobRunning JobState = "running"
	// JobReady: the job is due. It waits for a worker, for its shard, or within
	// Config.Advanced.TimerSlack for others; see [Turn].
	JobReady JobState = "ready"
	// JobScheduled: the job is not due yet, and has not failed; see also JobRetrying.
	JobScheduled JobState = "scheduled"
	// JobBlocked: the job waits until keys of [Locks] are unlocked.
	JobBlocked JobState = "blocked"
	// JobWaiting: the job waits until an equal one has run, or for a slot.
	JobWaiting JobState = "waiting"
	// JobLimited: the job waits for a [Limit]: until another job of its key has ended, or
	// until a time.
	JobLimited JobState = "limited"
	// JobSuspected: the job ran at the last two crashes of the process, and waits for its
	// turn to run without the others that did; see Config.Crash.
	JobSuspected JobState = "suspected"
	// JobHalted: the id has stopped, until a person calls RunNow.
	JobHalted JobState = "halted"
	// JobPaused: a person has paused the id, a prefix of it, its queue or the executor, until Resume.
	JobPaused JobState = "paused"
	// JobDead: the id has no job, but dead letters.
	JobDead JobState = "dead"
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
	// whatever its State: some of "executor", "queue", "prefix …" with the quoted prefix,
	// and "id".
	Paused []string
	Dead   int `wire:",omit"` // dead letters, of an id without a job; LastError is of the one that died last
	// Keys are the keys that block the job, with the jobs that have locked them or
	// whose turn comes first.
	Keys []KeyLockStatus
	// Unique are the leases that the job waits for, with up to MaxListed waiters each.
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
	// [MergeSupersede]; nil: there was none with a score. Inspector.Delete with
	// SelectIDs makes the executor forget it.
	Newest *float64 `wire:",omit"`
	// Turn says why no worker has taken the job, when it is ready; nil: a worker is
	// about to, or the job waits within Config.Advanced.TimerSlack.
	Turn *Turn
	// More is how many keys, leases or slots there are beyond the MaxListed that are
	// shown.
	More int
}

// Holdings are what a job has that others may wait for, MaxListed of each kind at
// most.
type Holdings struct {
	Keys   []string   `wire:",each=key"` // locked by Locks; those that Locks.Service keeps are not known
	Leases []string   `wire:",each=key"` // keys of Unique
	Slots  []SlotHeld // of Slots
}

// LeaseStatus is a key of [Unique] that a job waits for. Jobs are named as
// queue/id.
type LeaseStatus struct {
	Key     string
	By      string        `wire:",owner"` // the job that has it; empty: it is free, and about to be granted, or kept for Called
	Called  string        `wire:",owner"` // the job whose turn it is: it waits for a worker, and none in Waiters overtakes it
	Token   uint64        // of its lease
	HeldFor time.Duration `wire:"held_seconds"` // so far
	// Remaining is how long the lease lasts if it is not extended; 0: it does not end by
	// itself.
	Remaining time.Duration `wire:",omit"`
	Waiters   []LeaseWaiter // in the order in which they will get it
	More      int           // waiters that are not in Waiters
}

// LeaseWaiter is a job that waits for a lease.
type LeaseWaiter struct {
	By  string        `wire:",owner"`         // as queue/id
	For time.Duration `wire:"waited_seconds"` // how long it has waited
}

// SlotHeld is a value of [Slots] that a job has.
type SlotHeld struct {
	Slot  string    // the name of the sequence, and the value
	By    string    `wire:",owner"` // the job, as queue/id
	Until time.Time // zero: it does not end by itself
}

// shownCondition is a condition as people see it, as [admit.List.Show] gets it.
type shownCondition interface {
	// explain says what a job waits for here; false: it does not.
	explain(by holder, e *Explanation) bool
	// holds adds what a job has of it.
	holds(by holder, h *Holdings)
}
