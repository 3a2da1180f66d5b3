package executor

import (
	"time"
	"unsafe"

	"github.com/strandjobs/strand/executor/internal/submit"
)

// Item is one payload of [Queue.EnqueueMany].
type Item[T any] struct {
	ID      string // may be left out if QueueConfig.Defaults.ID is set
	Payload T
	Score   *float64  // nil: QueueConfig.Defaults.Score, or now
	Due     time.Time // zero: QueueConfig.Defaults.Due, or now

	Metadata map[string]string // see [Metadata]; nil: none
}

// Receipt says what became of an enqueued payload.
type Receipt struct {
	// ID is the id of the job. For a Duplicate it is that of this call, even if the
	// first call had another.
	ID string
	// Position is the number of the payload in its journal: never given twice there,
	// and growing in the order of acceptance. Payloads of an id that were enqueued
	// without a score run in this order. A journal that goes on from a copy, or is
	// begun anew, gives numbers again that the other one gave. If a database has to
	// tell payloads apart over that, put an id of your own into the payload.
	Position uint64
	// MergedInto is the position of an equal payload of the same id that this one was
	// merged into: that one runs, and this one has ended. Under MergeSupersede it is
	// the position of the newer payload that superseded this one as it arrived, and
	// that may have run before. 0: the payload stands by itself so far.
	//
	// It is also 0 for a payload that Gather.Fold folds later, for a Duplicate, and
	// under DurabilityAsync without IdempotencyKey, FromSource or IfAbsent. An equal
	// payload that is accepted later may take the place of this one, as QueueConfig.Merge
	// says: no receipt tells that. Then Replaced in [inspect.QueueStats] counts it, and the
	// handler sees in Payload.Position which one runs.
	MergedInto uint64
	// Durable is true when the payload is on disk. It is false in memory, and under
	// DurabilityAsync without IdempotencyKey, FromSource or IfAbsent.
	Durable bool
	// Duplicate is true when a call with the same [IdempotencyKey] was accepted before,
	// so that this one enqueued nothing. Position is that of the first call's payload.
	Duplicate bool
}

// receipt says what became of the payload i of a submission that was accepted.
func receipt(q *queue, o *submit.Submission, i int) Receipt {
	onDisk, id := !q.x.crew.Volatile, unsafe.String(unsafe.SliceData(o.Entries[i].ID), len(o.Entries[i].ID)) // as fill got it
	switch {
	case o.Earlier != 0:
		return Receipt{ID: id, Position: uint64(o.Earlier) + uint64(i), Duplicate: true, Durable: onDisk}
	case o.Posted():
		return Receipt{ID: id, Position: uint64(o.Ticket.Position(i))}
	}
	return Receipt{ID: id, Position: uint64(o.Ticket.Position(i)), MergedInto: uint64(o.Ticket.Merged(i)), Durable: onDisk}
}

// receipts says what became of all of them.
func receipts(q *queue, o *submit.Submission) []Receipt {
	all := make([]Receipt, len(o.Entries))
	for i := range all {
		all[i] = receipt(q, o, i)
	}
	return all
}
