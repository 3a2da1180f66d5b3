package events

import (
	"fmt"
	"time"
)

// Kind says what an [Event] is about. Its text is that of JSON and of the strand command.
type Kind string

// Kinds of events. A run begins with Started and ends with one of Done, Failed, Snoozed,
// Discarded, Cancelled, Interrupted and, if a person has deleted all of it, Deleted; some
// of its payloads may end otherwise, with an event of their own. A job that is refused
// what it needs, by Locks for example, may fail, be snoozed or be canceled without
// having been started.
const (
	// Accepted: a payload was accepted. It is on disk, or in memory where everything
	// is, and has not run.
	Accepted Kind = "accepted"
	// Requeued: a dead letter is back in its queue.
	Requeued Kind = "requeued"
	// Merged: a payload has ended, because the one at Into runs in its stead.
	Merged Kind = "merged"
	// Parked: a job whose turn has come is blocked: it waits for a lock, a lease, a
	// slot, a limit or its turn in a shared lane.
	Parked Kind = "parked"
	// Started: a run begins: the handler is called, or a middleware around it, or the payload does not decode.
	Started Kind = "started"
	// Progress: the handler has called Progress; at most one a second of each call
	// of a handler.
	Progress Kind = "progress"
	// Done: the handler is done with the payloads.
	Done Kind = "done"
	// Failed: the run has failed, also for the last time. Delay says when the
	// payloads run again.
	Failed Kind = "failed"
	// Snoozed: the payloads run again after Delay, and no retry is spent.
	Snoozed Kind = "snoozed"
	// Discarded: the handler returned Discard.
	Discarded Kind = "discarded"
	// Cancelled: the handler returned Cancel, a person canceled the payload while it ran, or
	// its codec refused it. What is canceled while it waits has [Buried] alone.
	Cancelled Kind = "cancelled"
	// Interrupted: a stop, a lost lease, or a person who ended other payloads of the
	// run cut it short. The payloads run again as if they had not run.
	Interrupted Kind = "interrupted"
	// Buried: a payload becomes a dead letter; if it was running, after Failed
	// or Cancelled of its run.
	Buried Kind = "buried"
	// Halted: an id stops, after Failed. RunNow, RetryNow, a Requeue of one of its dead letters, and ending its failed
	// payloads let it go on.
	Halted Kind = "halted"
	// Deleted: a person has deleted a payload of a job. There is no event for a dead
	// letter that is deleted.
	Deleted Kind = "deleted"
	// Paused: a person has paused what is named: an ID of a queue, those with a
	// Prefix, a Queue as a whole, or, without any, the executor.
	Paused Kind = "paused"
	// Resumed: that pause is over. Another one that holds the job goes on.
	Resumed Kind = "resumed"
	// Committed: the disk took Duration for a commit of the journal. Only readers
	// that name this kind get it.
	Committed Kind = "committed"
)

// Event is something that happened to a job, or to what keeps jobs from running: a
// pause, or a commit of the journal. A field is zero where the kind has no use for it.
type Event struct {
	// Number grows from event to event. Numbers that a reader does not get belong to
	// events that it did not ask for.
	Number uint64
	Time   time.Time
	Kind   Kind
	Queue  string
	ID     string
	Prefix string `wire:",omit"` // of ids, for [Paused] and [Resumed]

	Position uint64 // of the payload, or the first of them
	// Payloads is how many payloads of ID the event is about: at least one, and 0 for
	// [Paused], [Resumed] and [Committed]. What was folded counts in full until it ends; then it counts
	// as one, and the others have events [Merged].
	Payloads int
	// Attempt of the run: 1, 2, 3, …
	Attempt int
	// Into is, for [Merged], the position of the payload that runs in its stead.
	Into uint64

	// Duration is the time from the start of the run to its end; 0: there was no reader
	// when it started. For [Committed] it is the time that the disk took.
	Duration time.Duration
	// Delay is, for [Failed] and [Snoozed], the pause until the payloads run again.
	Delay time.Duration
	// Error says why, in its first 512 bytes. For [Progress] it is the message.
	Error string

	Done, Total int64 // of [Progress]

	// Token names the place of the event in the feed, for Filter.After.
	Token string
}

// Filter says which events a reader wants. The zero Filter means all but [Committed],
// from now on.
type Filter struct {
	// Queues are names of registered queues. Default: all queues, also those that are
	// registered later, and events that are about no queue.
	Queues []string

	// Kinds of events. None: all but [Committed], of which there may be thousands a second.
	Kinds []Kind

	// After is the [Event.Token] of the last event that the reader has seen; it goes on
	// behind that one. Default: the reader begins with the call of Events.
	After string
}

// MissedError says that a reader has missed events: it was too slow, was away for too
// long, or no reader wanted them when they happened. The reader goes on with the oldest
// event that is left.
type MissedError struct {
	// Events is how many were overwritten, of all kinds and queues that any reader
	// wanted.
	Events uint64
	// Uncounted: there may have been others beside them.
	Uncounted bool
	// Restarted: the token is of another executor, of an earlier process most
	// likely. The reader gets what happens from now on.
	Restarted bool
}

// Error says how many events were missed, or why it is not known.
func (e *MissedError) Error() string {
	switch {
	case e.Restarted:
		return "events: some were missed: the token is from before a restart"
	case e.Uncounted:
		return fmt.Sprintf("events: %d were missed, and maybe more that were not counted", e.Events)
	}
	return fmt.Sprintf("events: %d were missed", e.Events)
}
