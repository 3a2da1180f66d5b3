package control

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
	VerbPause   = "pause"
	VerbCopy    = "copy"
	VerbCompact = "compact"
	VerbEvents  = "events"
)

// In a request, a field without omitempty has to be there.

// None is a request, or an answer, that says nothing.
type None struct{}

// Hello says who is there.
type Hello struct {
	PID int    `json:"pid"`
	Dir string `json:"dir"` // as the process has opened it
}

// Inspection are the figures of the journal and of its queues.
type Inspection struct {
	Format    int    `json:"format"`
	UUID      string `json:"uuid"`
	Epoch     uint64 `json:"epoch"`
	Next      uint64 `json:"next"`
	Oldest    uint64 `json:"oldest"`
	Newest    uint64 `json:"newest"`
	Blocks    int    `json:"blocks"`
	Entries   int    `json:"entries"`
	Live      int    `json:"live"`
	Bytes     int    `json:"bytes"`
	LiveBytes int    `json:"live_bytes"`
	Buried    int    `json:"buried"`
	QueueN    int    `json:"queue_n"`
	FileBytes int64  `json:"file_bytes"`

	Queues []Queue `json:"queues"` // all that the journal knows
}

// Queue are the figures of a queue. Of one that is not registered only Name, Number,
// Unclaimed, Dead and Age are set.
type Queue struct {
	Name       []byte `json:"name"`
	Number     uint32 `json:"number"` // in the journal; it orders the morgue
	Registered bool   `json:"registered"`
	Unclaimed  int    `json:"unclaimed"` // payloads
	Dead       int    `json:"dead"`
	Jobs       int    `json:"jobs"`
	Payloads   int    `json:"payloads"`
	Retrying   int    `json:"retrying"` // not those that are halted
	Halted     int    `json:"halted"`
	Due        int    `json:"due"` // of those that are not halted; only of VerbInspect

	Running int   `json:"running"`
	Parked  int   `json:"parked"`
	Paused  bool  `json:"paused"` // the queue, or the executor
	Lag     int64 `json:"lag"`    // ns
	Age     int64 `json:"age"`    // ns; 0, too, of a process that does not know it
}

// Status says how the executor is.
type Status struct {
	Trouble   string  `json:"trouble"` // what Executor.Err says
	Workers   int     `json:"workers"`
	Busy      int     `json:"busy"`
	Stuck     int     `json:"stuck"`
	Paused    bool    `json:"paused"` // the executor
	Payloads  int     `json:"payloads"`
	CommitAge int64   `json:"commit_age"` // ns
	Silent    string  `json:"silent"`     // why shards did not say how the queues are; "": they did
	Queues    []Queue `json:"queues"`
}

// JobsQuery asks for jobs of a queue by due time: first those that are not halted, or
// only those that are.
type JobsQuery struct {
	Queue  []byte `json:"queue"`
	Halted bool   `json:"halted,omitempty"`
	Limit  int    `json:"limit"` // at most MaxRows
	Cursor string `json:"cursor,omitempty"`
}

// MaxRows is how many jobs are in an answer at most, and MaxDead how many dead payloads.
const (
	MaxRows = 10_000
	MaxDead = 1000
)

// JobsPage is a part of a list.
type JobsPage struct {
	Jobs []Job  `json:"jobs"`
	Next string `json:"next"` // "": this was the last
}

// Job is a job in a list.
type Job struct {
	ID        []byte `json:"id"`
	State     string `json:"state"` // executor.JobState
	Due       int64  `json:"due"`   // Unix ns
	Attempt   int    `json:"attempt"`
	LastError []byte `json:"last_error"`
	Payloads  int    `json:"payloads"`
	Bytes     int64  `json:"bytes"`
	AtLeast   bool   `json:"at_least"` // it has more bytes, which were not counted
}

// One asks for an id.
type One struct {
	Queue []byte `json:"queue"`
	ID    []byte `json:"id"`
}

// Detail is everything about a job; State is "" when there is none. Its dead payloads are
// asked for by VerbDead.
type Detail struct {
	Job
	History []byte    `json:"history"` // of failures, as in the journal
	List    []Payload `json:"list"`    // in the order in which they run
	Why     string    `json:"why"`     // it does not run, or that it does
}

// Payload is one that waits, or runs. Score has the bits of a float64, which JSON can't
// always have.
type Payload struct {
	Position uint64 `json:"position"`
	Score    uint64 `json:"score"`
	Accepted int64  `json:"accepted"`
	Restored bool   `json:"restored"`
	Metadata []byte `json:"metadata"` // as in the journal
	Size     int    `json:"size"`
	Payload  []byte `json:"payload"`
	Unsent   bool   `json:"unsent"` // Payload is missing: those before it have filled the answer
}

// DeadQuery asks for the dead payloads of a queue, in the order in which they were
// accepted.
type DeadQuery struct {
	Queue []byte   `json:"queue"`
	IDs   [][]byte `json:"ids,omitempty"`  // none: all
	From  uint64   `json:"from,omitempty"` // the first position
}

// DeadPage is a part of the morgue.
type DeadPage struct {
	Dead []Dead `json:"dead"`
	Next uint64 `json:"next"` // From of the next page; 0: this was the last
}

// Dead is a dead payload.
type Dead struct {
	Payload
	ID      []byte `json:"id"`
	Due     int64  `json:"due"`
	Retry   int    `json:"retry"`
	Reason  []byte `json:"reason"`
	At      int64  `json:"at"`
	History []byte `json:"history"` // as in the journal
}

// Explanation says why a job does not run.
type Explanation struct {
	State     string   `json:"state"`
	Due       int64    `json:"due"` // 0: unknown
	Attempt   int      `json:"attempt"`
	LastError []byte   `json:"last_error"`
	Payloads  int      `json:"payloads"`
	Dead      int      `json:"dead"`
	Paused    []string `json:"paused"`
	Behind    []byte   `json:"behind"`
	Waits     []string `json:"waits"` // for what, one a line
	More      int      `json:"more"`  // of these
	Text      string   `json:"text"`  // all of it in one line
}

// RunningQuery asks for what runs.
type RunningQuery struct {
	Queue  []byte `json:"queue,omitempty"` // none: all
	Stacks bool   `json:"stacks,omitempty"`
	Limit  int    `json:"limit,omitempty"`
}

// RunningList is what workers have in hand, the oldest first.
type RunningList struct {
	Running []Running `json:"running"`
	More    int       `json:"more"`
}

// Running is what a worker has in hand.
type Running struct {
	Queue    []byte    `json:"queue"`
	Worker   int       `json:"worker"`
	Jobs     []InHand  `json:"jobs"`
	More     int       `json:"more"`
	Since    int64     `json:"since"`
	Age      int64     `json:"age"` // ns
	Stuck    bool      `json:"stuck"`
	Progress *[2]int64 `json:"progress"` // done, total
	Message  []byte    `json:"message"`
	Stack    string    `json:"stack"`
}

// InHand is a job that a worker has in hand.
type InHand struct {
	ID       []byte `json:"id"`
	Attempt  int    `json:"attempt"`
	Position uint64 `json:"position"`
	Payloads int    `json:"payloads"`
}

// What may be done.
const (
	DoRun          = "run"
	DoCancel       = "cancel"
	DoDelete       = "delete"
	DoKillFailed   = "kill-failed"
	DoDeleteFailed = "delete-failed"
	DoRequeue      = "requeue"
	DoDeleteDead   = "delete-dead"
)

// Act does something with what is meant of a queue: All, or IDs, or of dead payloads
// Positions. One of the three has to be there.
type Act struct {
	Do        string   `json:"do"`
	Queue     []byte   `json:"queue"`
	All       bool     `json:"all,omitempty"`
	IDs       [][]byte `json:"ids,omitempty"`
	Positions []uint64 `json:"positions,omitempty"`
	Reason    string   `json:"reason,omitempty"` // of DoCancel
}

// Pause pauses All, which is the executor, a queue, or IDs of it; or it lets them go on.
type Pause struct {
	On    bool     `json:"on"`
	All   bool     `json:"all,omitempty"`
	Queue []byte   `json:"queue,omitempty"`
	IDs   [][]byte `json:"ids,omitempty"` // nil: the queue
}

// Affected is how many were, also when it went wrong after them.
type Affected struct {
	N       int    `json:"n"`
	Trouble string `json:"trouble"`

	// Of DoRequeue, as of executor.Requeued.
	Superseded int `json:"superseded,omitempty"`
	Late       int `json:"late,omitempty"`
	Unsure     int `json:"unsure,omitempty"`
}

// Copy makes a hot copy in a new directory.
type Copy struct {
	To string `json:"to"` // absolute
}

// Compacted are the bytes of the file before and after.
type Compacted struct {
	Before int64 `json:"before"`
	After  int64 `json:"after"`
}

// EventsQuery asks for events from now on, or after a token.
type EventsQuery struct {
	Queues [][]byte `json:"queues,omitempty"`
	Kinds  []string `json:"kinds,omitempty"`
	After  string   `json:"after,omitempty"`
}

// Event is one line of a stream: an event, or how many were missed before it.
type Event struct {
	Missed   string `json:"missed"` // in words
	Token    string `json:"token"`
	Time     int64  `json:"time"`
	Kind     string `json:"kind"`
	Queue    []byte `json:"queue"`
	ID       []byte `json:"id"`
	Position uint64 `json:"position"`
	Payloads int    `json:"payloads"`
	Attempt  int    `json:"attempt"`
	Took     int64  `json:"took"`  // ns
	Delay    int64  `json:"delay"` // ns
	Error    []byte `json:"error"`
	Done     int64  `json:"done"`
	Total    int64  `json:"total"`
}

// failure is why there is no answer.
type failure struct {
	Message string `json:"error"`
}

func (f *failure) Error() string { return f.Message }
