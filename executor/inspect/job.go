package inspect

import (
	"fmt"
	"time"

	"github.com/strandjobs/strand/executor/internal/brief"
)

// JobInfo is a job in a list: what it was at a moment while the list was made. Those
// of different jobs are of different moments.
type JobInfo struct {
	Queue, ID string
	State     JobState  // one of the first six of JobQuery.States
	Due       time.Time // of one that runs, when what waits behind it is due
	Attempt   int       // that runs or comes next: 1, 2, 3, …
	LastError string    // its first KiB; "": it has not failed, or not since Requeue
	Payloads  int       // that wait, run, or failed and wait

	// PayloadInfo is of the payload that runs or comes next, without metadata; its Raw are
	// the first 256 bytes. Zero if it ended while the list was made.
	PayloadInfo
}

// JobDetail is all that there is to see of an id: its job, and its dead letters.
type JobDetail struct {
	// JobInfo of the job; LastError is all that is kept of it, see [Failure]. For an id with
	// only dead letters it has Queue, ID, the State JobDead, and Attempt and LastError of the
	// one that died last.
	JobInfo
	Failures []Failure // the last five of the job, oldest first

	// InHand are the payloads that a handler has, Waiting those behind them, in the
	// order in which they will run: 100 of each, and More is how many there are
	// beyond. One that ended while the detail was made is in neither.
	InHand, Waiting []PayloadInfo
	More            int

	Holdings
	Explanation Explanation // why it does not run, a moment later; see [Inspector.Explain]

	// Dead are the dead letters of the id, 100 at most, and MoreDead how many
	// there are beyond. If the id has a job, only the first 10,000 of the morgue are
	// searched: DeadUnread says that there are others.
	Dead       []DeadPayload
	MoreDead   int
	DeadUnread bool
}

// PayloadInfo is a payload as it is in the journal.
type PayloadInfo struct {
	Position   uint64
	Score      float64
	EnqueuedAt time.Time
	Restored   bool              `wire:",omit"` // it was a dead letter, and was put back
	Metadata   map[string]string // nil: none
	Bytes      int               // of the payload

	// Raw are its bytes. One call returns a MiB of them in all, or the first payload if that is
	// larger. Payloads behind that have no Raw, are Clipped, and are not decoded.
	Raw     []byte `wire:"payload,omit"`
	Clipped bool   `wire:",omit"` // Raw are not all of them

	// Value is what the codec of the queue makes of Raw, and Decode why there is none:
	// the codec's error, with the first 16 KiB of its text, or a [executor.PanicError]. Both are nil
	// when it was not decoded. In JSON, Decode is that text, and Value what its type says.
	Value  any
	Decode error `wire:"decode_error"`
}

// DeadPayload is a dead letter. One in a list has the first 256 bytes of Raw, no metadata
// and no Failures.
type DeadPayload struct {
	Queue, ID string
	PayloadInfo
	Attempt  int       // in which it died: 1, 2, 3, …
	Error    string    // why: the last failure, or the reason of a cancellation; in a list its first KiB
	At       time.Time // when it died
	Failures []Failure `wire:",omit"` // the last five, oldest first; the last one is Error
}

// Failure is one failed attempt of a job. Of the last failure of a job 4 KiB of the text are
// kept, see QueueConfig.DeadLetters.FormatError, of the older ones at least the first KiB. An
// attempt that a crash cut off is no failure: Job.Crashes counts it. After [Inspector.RunNow]
// the failures stay, though Attempt begins again; after [Inspector.Requeue] there are none.
type Failure struct {
	Attempt int       // 1, 2, 3, …; after RunNow and Requeue it begins again
	At      time.Time // when it failed
	Error   string
}

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

// Running is what one worker has in hand: one job, or with [executor.HandleBatch] several.
type Running struct {
	Queue  string
	Worker int // its number, from 0; one that takes the place of another has one of its own
	Jobs   []RunningJob
	More   int // jobs that are not in Jobs, which has 100 at most

	// Since is when the worker began with the run that these jobs are in: up to about a millisecond, and what
	// Slots or a Locks.Service took, before their handler was called first. Age is the time from then on.
	Since   time.Time
	Age     time.Duration
	Timeout time.Duration `wire:",omit"` // QueueConfig.Timeout; 0: none
	Stuck   bool          // the handler goes on although its time is over; see Config.Stuck.After

	// Progress is what the handler has said with [executor.Progress] or [executor.Heartbeat] last; nil:
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
	Payloads int    // that it was handed out with, also those that [executor.Handle] is through with
}

// ProgressReport is what a handler has said of its progress last.
type ProgressReport struct {
	Done, Total int64  // as the handler has said it
	Message     string // its first 256 bytes
	At          time.Time
}

// String is one line; its stack is not in it.
func (r Running) String() string {
	jobs := brief.Some(r.Jobs, r.More, func(j RunningJob) string {
		return fmt.Sprintf("%s (attempt %d)", brief.Clip(brief.Job(r.Queue, j.ID)), j.Attempt)
	})
	line := fmt.Sprintf("worker %d for %v: %s", r.Worker, r.Age.Round(time.Millisecond), jobs)
	if r.Stuck {
		line += fmt.Sprintf(", stuck after %v", r.Timeout)
	}
	if p := r.Progress; p != nil && (p.Total != 0 || p.Done != 0 || p.Message != "") {
		line += fmt.Sprintf(", progress %d of %d", p.Done, p.Total)
		if p.Message != "" {
			line += ": " + brief.Text(p.Message)
		}
	}
	return line
}
