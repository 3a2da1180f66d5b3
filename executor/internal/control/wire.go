package control

import (
	"errors"
	"path/filepath"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// errNoSocket says why there can't be a socket; the text has the path or the system.
var errNoSocket = errors.New("it can't be made")

// path is that of the socket in the directory of a journal.
func path(dir string) string { return filepath.Join(dir, "control.sock") }

// version is the first part of a path. It changes when an answer comes to mean something
// else.
const version = "v1"

// The verbs.
const (
	VerbHello   = "hello"
	VerbInspect = "inspect"
	VerbStatus  = "status"
	VerbJobs    = "jobs"
	VerbJob     = "job"
	VerbDead    = "dead"
	VerbExplain = "explain"
	VerbRunning = "running"
	VerbAct     = "act"
	VerbCopy    = "copy"
	VerbCompact = "compact"
	VerbEvents  = "events"
)

// None is a request, or an answer, that says nothing.
type None struct{}

// Hello says who is there.
type Hello struct {
	PID int
	Dir string // as the process has opened it
}

// Figures are those of the journal and of its queues.
type Figures struct {
	Journal journal.Info
	Queues  []Census // all that the journal knows
}

// Census are the figures of a queue, also of one at rest, in which none of its jobs runs.
// Fresh, Retrying and Halted add up to Jobs, so do Due, Delayed and Halted.
type Census struct {
	inspect.QueueStats
	Due, Delayed int
	Bytes        *int64 // of its payloads; nil: a process does not count them
}

// Health is how the executor is.
type Health struct {
	inspect.Stats
	Trouble string // what Executor.Err says
	Silent  string `wire:",omit"` // why shards did not say how the queues are
}

// Job is a job as the command shows it.
type Job struct {
	inspect.JobInfo
	TotalBytes   int64 // of all its payloads
	BytesAtLeast bool  `wire:",omit"` // there are more, which were not counted
	Crashes      int   `wire:",omit"` // how often the process died while it ran, and may have died of it: at rest
	Partition    *int  `wire:",omit"` // of several: at rest

	Failures        []inspect.Failure     `wire:",omit"` // the last five, oldest first
	InHand, Waiting []inspect.PayloadInfo `wire:",omit"`
}

// Jobs are a page of them, with the cursor of the next.
type Jobs struct {
	Jobs []Job
	Next string // "": this was the last
}

// Whole is all about a job that waits or runs. State is "" when there is none.
type Whole struct {
	Job
	Why string // it does not run, or that it does
}

// DeadLetters are a page of them.
type DeadLetters struct {
	Dead []inspect.DeadPayload
	Next uint64 // From of the next page; 0: this was the last
}

// Event is one line of a stream: an event, or how many were missed before it, in words.
type Event struct {
	events.Event
	Missed string `wire:",omit"`
}

// One asks for an id.
type One struct {
	Queue string `wire:",must"`
	ID    string `wire:",must"`
}

// DeadQuery asks for the dead payloads of a queue, in the order in which they were
// accepted.
type DeadQuery struct {
	Queue string   `wire:",must"`
	IDs   []string // none: all
	From  uint64   // the first position
}

// MaxRows is how many jobs are in an answer at most, and MaxDead how many dead payloads.
const (
	MaxRows = 10_000
	MaxDead = 1000
)

// Copy makes a hot copy in a new directory.
type Copy struct {
	To string `wire:",must"` // absolute
}

// Compacted are the bytes of the file before and after.
type Compacted struct {
	Before int64 `wire:"before_bytes"`
	After  int64 `wire:"after_bytes"`
}

// failure is why there is no answer.
type failure struct {
	Message string `wire:"error"`
	status  int    // of a server's
}

func (f *failure) Error() string { return f.Message }
