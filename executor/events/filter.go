package events

import "fmt"

// Filter says which events a reader wants. The zero Filter means all but [Committed],
// from now on.
type Filter struct {
	// Queues are names of registered queues. Default: all queues, also those that are
	// registered later, and events that are about no queue.
	Queues []string

	// Kinds of events. Default: all but [Committed], of which there may be thousands a
	// second.
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
