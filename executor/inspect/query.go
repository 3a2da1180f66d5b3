package inspect

import (
	"fmt"
	"time"

	"github.com/strandjobs/strand/executor/internal/brief"
)

// Order says by what a list is sorted. One that is not for that list is ErrInvalidQuery.
type Order string

const (
	// OrderNone: jobs shard by shard, in no order that is promised, dead letters in the order in
	// which they were accepted. A page costs no more than what is on it, however
	// many there are. The default.
	OrderNone Order = ""
	// OrderID: by id, byte by byte; dead letters of one id by position.
	OrderID Order = "id"
	// OrderDue: jobs by due time, the earliest first; by id where these are equal.
	OrderDue Order = "due"
	// OrderAttempt: jobs by the attempt that runs or comes next, the lowest first; then by
	// due time and id.
	OrderAttempt Order = "attempts"
	// OrderPayloads: jobs by how many payloads they have, the fewest first; with
	// Descending the busiest ids come first. Where these are equal, by Position, and by
	// id if that is not known.
	OrderPayloads Order = "payloads"
	// OrderDied: dead letters by the time of death, then by position.
	OrderDied Order = "died"
)

// JobFilter picks jobs, or dead letters, by what they are: those for which all
// that is set is true. The zero JobFilter picks all.
type JobFilter struct {
	// IDPrefix is how the id begins, byte by byte. At most MaxIDBytes.
	IDPrefix string

	// ErrorContains is a part of the last error, as it is written. At most 1 KiB. A
	// job that has not failed has none.
	ErrorContains string

	// OlderThan picks jobs whose running or next payload was enqueued longer ago than this,
	// and dead letters that were. 0: whenever; below zero is refused.
	OlderThan time.Duration

	// Failed: the job has used up a retry, whatever it does now: those that
	// QueueStats.Retrying counts. It is true of every dead letter.
	Failed bool
}

// JobQuery says which jobs of a queue, or which of its dead letters, to list, in which order,
// and how many.
type JobQuery struct {
	Queue string // by name; it must be registered

	// States are those that are wanted: JobReady, JobScheduled, JobRetrying, JobParked,
	// JobHalted and JobRunning; or JobFresh, for jobs in any of them that have used up
	// no retry. Default: all. Dead letters have none.
	States []JobState

	Order      Order
	Descending bool // the other way round; not with OrderNone, which has no other way
	Filter     JobFilter
	// DiedBefore: a dead letter died at least so long ago. 0: whenever; below zero, and for
	// jobs, it is refused.
	DiedBefore time.Duration

	// Limit is how many rows the page has at most. 0: 25; above 1000 and
	// below zero it is refused.
	Limit int

	// Cursor is JobPage.Next of the page before; "": the first page. Queue, Order and
	// Descending must be the same, the others may change. A cursor of dead letters stays
	// good after a restart.
	Cursor string

	// Patience is how long the page may take while the executor has other work to do.
	// When it is over, the page has what was found until then; see Partial and
	// Truncated. 0: as long as ctx lets it; below zero is refused.
	Patience time.Duration
}

// JobPage is a part of a list: of jobs, or of dead letters. The other one is nil.
type JobPage struct {
	Jobs []JobInfo     `wire:",omit"`
	Dead []DeadPayload `wire:",omit"`
	Next string        `wire:",omit"` // the cursor of the next page; "": this is the last one

	Examined int // jobs, or dead letters, that were looked at for it
	// Truncated: without an order, the page ends before Limit because so many jobs were
	// examined, or because Patience is over. Next goes on there.
	Truncated bool
	// Partial: with an order, Patience was over before all jobs were examined. Jobs are
	// the first of those that were; others may belong before or between them, and Next,
	// which goes on behind the last one, does not come back to them. A longer Patience
	// shows them.
	Partial bool
}

// Selection says which jobs of a queue, or which of its dead letters, a person means: those
// for which all that is set is true. [SelectIDs], [SelectPrefix], [SelectJobs], [SelectQueue]
// and [SelectExecutor] make one. An action leaves alone what is accepted after its call began;
// only [Inspector.Pause] holds for later payloads, too. A call that is given the zero
// Selection returns ErrUnknownQueue.
type Selection struct {
	Queue     string
	IDs       []string // nil: any; empty: none
	Positions []uint64 // see At; nil: any; empty: none
	Filter    JobFilter
	States    []JobState // none: any
	Whole     bool       // the executor; all else is zero
}

// SelectIDs selects all that some ids of a queue have. Without an id it selects
// nothing.
func SelectIDs(queue string, ids ...string) Selection {
	return Selection{Queue: queue, IDs: append([]string{}, ids...)}
}

// At narrows a selection to the payloads that were accepted at some positions, as Receipt,
// Payload and Dead have them; no two payloads of a journal have one. Without a position it
// selects nothing. A second At takes the place of the first. In a cluster, where each partition has
// positions of its own, it takes SelectIDs with one id; all else is ErrInvalidQuery.
func (s Selection) At(positions ...uint64) Selection {
	s.Positions = append([]uint64{}, positions...)
	return s
}

// SelectJobs selects the jobs of a queue that a filter picks and that are in one of some
// states: those of lists, or [JobFresh]; see [JobRetrying]. Without states, any.
func SelectJobs(queue string, filter JobFilter, states ...JobState) Selection {
	return Selection{Queue: queue, Filter: filter, States: states}
}

// SelectPrefix selects the ids of a queue that begin with prefix, byte by byte: those of
// a tenant, for example. A prefix has at most MaxIDBytes; an empty one is [SelectQueue].
func SelectPrefix(queue, prefix string) Selection {
	return Selection{Queue: queue, Filter: JobFilter{IDPrefix: prefix}}
}

// SelectQueue selects all that a queue has.
func SelectQueue(queue string) Selection { return Selection{Queue: queue} }

// SelectExecutor selects the executor as a whole, all queues and those to come: for
// [Inspector.Pause] and Resume. Other calls return ErrUnknownQueue for it.
func SelectExecutor() Selection { return Selection{Whole: true} }

// Requeued says what became of the dead letters that a call was to put back.
type Requeued struct {
	// Back is how many payloads are back in their place; of [Inspector.Act] with another action, how many it affected.
	Back int `wire:"affected"`

	// Superseded is how many are not, because a newer payload of their id has come, in
	// a queue with [executor.MergeSupersede]. A dead letter is deleted when the newer payload is
	// accepted, so these are only the few whose deletion was still on its way.
	// SupersededDead in [QueueStats] counts all.
	Superseded int `wire:",omit"`

	// Late is how many of Back run after a later payload of their id, which was done
	// since they died, runs, or has failed and goes first: then an old event is applied
	// after newer ones, and an old state replaces a newer one. 0 with MergeSupersede,
	// which does not let that happen.
	Late int `wire:",omit"`

	// Unsure is how many of Back died before the queue was registered in this process,
	// so that the executor does not know whether later payloads have been done since. 0
	// with MergeSupersede.
	Unsure int `wire:",omit"`
}

// Plus returns the sum of both.
func (r Requeued) Plus(q Requeued) Requeued {
	return Requeued{r.Back + q.Back, r.Superseded + q.Superseded, r.Late + q.Late, r.Unsure + q.Unsure}
}

// String says it in a sentence for a person: "3 payloads are back; 2 of them after
// later payloads of their ids have run".
func (r Requeued) String() string {
	said := brief.Count(r.Back, "payload is back", "payloads are back")
	if r.Late > 0 {
		said += fmt.Sprintf("; %d of them after later payloads of their ids have run", r.Late)
	}
	if r.Unsure > 0 {
		said += fmt.Sprintf("; of %d it is not known whether later payloads of their ids have run: they died in an earlier process", r.Unsure)
	}
	if r.Superseded > 0 {
		said += "; " + brief.Count(r.Superseded, "is not, because a newer one has superseded it", "are not, because newer ones have superseded them")
	}
	return said
}
