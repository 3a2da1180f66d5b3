package executor

import (
	"fmt"
	"time"
)

// EventKind says what an [Event] is about. Its text is a word, in JSON, too: "none" of
// the zero EventKind, which no event has.
type EventKind uint8

// Kinds of events. A run begins with EventStarted and ends with one of EventDone,
// EventFailed, EventSnoozed, EventDiscarded, EventCancelled, EventInterrupted and, if a
// person has deleted all of it, EventDeleted; some of its payloads may end otherwise,
// with an event of their own. A job that is refused what it needs, by [Locks] for
// example, may fail, be snoozed or be cancelled without having been started.
const (
	EventAccepted    EventKind = iota + 1 // a payload is on disk, or in memory if all is, and its shard is about to get it
	EventRequeued                         // a payload is back from the morgue
	EventMerged                           // a payload is over: the one at Into runs in its stead
	EventParked                           // a job whose turn has come waits for a lock, a lease, a slot, a limit or its turn in a shared lane
	EventStarted                          // the handler is called, or a middleware around it
	EventProgress                         // the handler called Progress: at most one a second of a call
	EventDone                             // the handler is done with the payloads
	EventFailed                           // a failure, also the last one; Delay says when they run again
	EventSnoozed                          // they run again after Delay
	EventDiscarded                        // Discard
	EventCancelled                        // Cancel, also by a person, or the codec refused the payload
	EventInterrupted                      // a stop, a lease that was lost, or a person who ends others of its run; they run again as if they had not run
	EventBuried                           // a payload goes to the morgue, after EventFailed or EventCancelled of its run, if it was running
	EventHalted                           // an id stops until RunNow, after EventFailed
	EventDeleted                          // a person has deleted a payload of a job; one of the morgue is not told
	EventPaused                           // an id, without ID a queue, without Queue the executor
	EventResumed                          // the same; what pauses it beside that goes on
	EventCommitted                        // the disk took Duration for a commit of the journal; for readers that name it
)

// Event is something that has happened to a job, or to what keeps jobs from running. Fields that a kind has no use for
// are zero.
type Event struct {
	Number uint64 // ascending; numbers that a reader does not get were for others
	Time   time.Time
	Kind   EventKind
	Queue  string
	ID     string

	Position uint64 // of the payload, or the first of them
	Payloads int    // how many of ID it is about; one at least, 0 of EventPaused, EventResumed and EventCommitted
	Attempt  int    // of the run: 1, 2, 3, …
	Into     uint64 // of EventMerged

	Duration time.Duration // from the start of the run to its end; 0: there was no reader when it started; of EventCommitted the disk's
	Delay    time.Duration // of EventFailed and EventSnoozed: the pause until they run again
	Error    string        // why; of EventProgress its message: the first 512 bytes

	Done, Total int64 // of EventProgress

	life uint64 // of the executor
}

// Token names the place of the event in the feed, for EventFilter.After.
func (e Event) Token() string { return fmt.Sprintf("%016x-%d", e.life, e.Number) }

// maxEventError is how much an event has of an error.
const maxEventError = 512

// fact is an event as the ring has it.
type fact struct {
	id, text        string
	at              int64 // Unix ns
	position, into  uint64
	payloads        int
	attempt         int
	duration, delay time.Duration
	done, total     int64
}
