package executor

import (
	"cmp"
	"unsafe"

	"github.com/strandjobs/strand/journal"
)

// Receipt says what became of an enqueued payload.
type Receipt struct {
	// ID is the id of the job. That of a Duplicate is the call's own, even if the
	// first call had another.
	ID string
	// Position is its number in the journal: unique in that for ever, and growing in
	// the order of acceptance. Payloads of an id without a score of their own run in
	// this order. A journal that goes on from a copy, or is begun anew, gives numbers
	// again that the other one gave: what is to be told apart over that, in a database
	// say, needs an id of its own in its payload.
	Position uint64
	// MergedInto is the position of an equal payload of the same id that it was
	// merged into: that one runs, this one is over. 0: it stands by itself, so far.
	// Under MergeSupersede it is that of the newer one which has superseded it as it
	// arrived, and which may have run before.
	// As QueueConfig.Merge says, an equal payload that is accepted later may take
	// its place: the other receipt does not say so, Replaced in [QueueStats] counts
	// it, and the handler sees which one runs in Payload.Position. It is 0 of what
	// QueueConfig.Fold folds later, of a Duplicate, and under DurabilityAsync without IdempotencyKey and FromSource.
	MergedInto uint64
	// Durable: it is on disk. False in memory, and under DurabilityAsync without
	// IdempotencyKey and FromSource.
	Durable bool
	// Duplicate: a call with the same [IdempotencyKey] was accepted before, in the
	// place of this one. Position is that of the first call's payload.
	Duplicate bool
}

// runs returns the position of the payload that runs, as far as the receipt says.
func (r Receipt) runs() journal.Position {
	return journal.Position(cmp.Or(r.MergedInto, r.Position))
}

// receipt says what became of the payload i of a submission that was accepted.
func (o *submission) receipt(i int) Receipt {
	onDisk, id := !o.q.x.volatile, unsafe.String(unsafe.SliceData(o.entries[i].ID), len(o.entries[i].ID)) // as fill got it
	switch {
	case o.earlier != 0:
		return Receipt{ID: id, Position: uint64(o.earlier) + uint64(i), Duplicate: true, Durable: onDisk}
	case o.posted():
		return Receipt{ID: id, Position: uint64(o.ticket.Position(i))}
	}
	return Receipt{ID: id, Position: uint64(o.ticket.Position(i)), MergedInto: uint64(o.ticket.Merged(i)), Durable: onDisk}
}

// receipts says what became of all of them.
func (o *submission) receipts() []Receipt {
	all := make([]Receipt, len(o.entries))
	for i := range all {
		all[i] = o.receipt(i)
	}
	return all
}
