package executor

import (
	"fmt"
	"time"
)

// EventKind says what an [Event] is about. Its text, also in JSON, is the constant's
// name without "Event", in lower case. The zero EventKind is "none", and no event has
// it.
type EventKind uint8

// Kinds of events. A run begins with EventStarted and ends with one of EventDone,
// EventFailed, EventSnoozed, EventDiscarded, EventCancelled, EventInterrupted and, if a
// person has deleted all of it, EventDeleted; some of its payloads may end otherwise,
// with an event of their own. A job that is refused what it needs, by [Locks] for
// example, may fail, be snoozed or be cancelled without having been started.
const (
	// EventAccepted: a payload was accepted. It is on disk, or in memory where everything
	// is, and has not run.
	EventAccepted EventKind = iota + 1
	// EventRequeued: a dead letter is back in its queue.
	EventRequeued
	// EventMerged: a payload has ended, because the one at Into runs in its stead.
	EventMerged
	// EventParked: a job whose turn has come is blocked: it waits for a lock, a lease, a
	// slot, a limit or its turn in a shared lane.
	EventParked
	// EventStarted: a run begins: the handler is called, or a middleware around it.
	EventStarted
	// EventProgress: the handler has called Progress; at most one a second of each call
	// of a handler.
	EventProgress
	// EventDone: the handler is done with the payloads.
	EventDone
	// EventFailed: the run has failed, also for the last time. Delay says when the
	// payloads run again.
	EventFailed
	// EventSnoozed: the payloads run again after Delay, and no retry is spent.
	EventSnoozed
	// EventDiscarded: the handler returned Discard.
	EventDiscarded
	// EventCancelled: the handler returned Cancel, a person canceled the payload, or its
	// codec refused it.
	EventCancelled
	// EventInterrupted: a stop, a lost lease, or a person who ended other payloads of the
	// run cut it short. The payloads run again as if they had not run.
	EventInterrupted
	// EventBuried: a payload becomes a dead letter; if it was running, after EventFailed
	// or EventCancelled of its run.
	EventBuried
	// EventHalted: an id stops until RunNow, after EventFailed.
	EventHalted
	// EventDeleted: a person has deleted a payload of a job. There is no event for a dead
	// letter that is deleted.
	EventDeleted
	// EventPaused: a person has paused what is named: an ID of a queue, those with a
	// Prefix, a Queue as a whole, or, without any, the executor.
	EventPaused
	// EventResumed: that pause is over. Another one that holds the job goes on.
	EventResumed
	// EventCommitted: the disk took Duration for a commit of the journal. Only readers
	// that name this kind get it.
	EventCommitted
)

// Event is something that happened to a job, or to what keeps jobs from running: a
// pause, or a commit of the journal. A field is zero where the kind has no use for it.
type Event struct {
	// Number grows from event to event. Numbers that a reader does not get belong to
	// events that it did not ask for.
	Number uint64
	Time   time.Time
	Kind   EventKind
	Queue  string
	ID     string
	Prefix string `wire:",omit"` // of ids, for EventPaused and EventResumed

	Position uint64 // of the payload, or the first of them
	// Payloads is how many payloads of ID the event is about: at least one, and 0 for
	// EventPaused, EventResumed and EventCommitted.
	Payloads int
	// Attempt of the run: 1, 2, 3, …
	Attempt int
	// Into is, for EventMerged, the position of the payload that runs in its stead.
	Into uint64

	// Duration is the time from the start of the run to its end; 0: there was no reader
	// when it started. For EventCommitted it is the time that the disk took.
	Duration time.Duration
	// Delay is, for EventFailed and EventSnoozed, the pause until the payloads run again.
	Delay time.Duration
	// Error says why. For EventProgress it is the message. It has the first 512 bytes.
	Error string

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
