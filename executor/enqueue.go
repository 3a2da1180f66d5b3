package executor

import (
	"fmt"
	"time"
	"unsafe"

	"github.com/strandjobs/strand/executor/internal/submit"
	"github.com/strandjobs/strand/journal"
)

// Item is one payload of [Queue.EnqueueMany].
type Item[T any] struct {
	ID      string // may be left out if QueueConfig.Defaults.ID is set
	Payload T
	Score   *float64  // nil: [Score] of the call, else QueueConfig.Defaults.Score, else now
	Due     time.Time // zero: [At] or [In] of the call, else QueueConfig.Defaults.Due, else now

	Metadata map[string]string // nil: [Metadata] of the call; empty: none
}

// Option of one call. Of At and In, of Score, and of Metadata the last one counts.
type Option = submit.Option

// At makes the job due at t. A time in the past makes it due now, and the oldest
// due job of a shard runs first. It never starts before t; it may start late by
// Config.Advanced.TimerSlack. It has no effect on a job of the same id that waits already:
// that one's due time stays, unless FreshDue or Debounce of [Gather] says otherwise.
func At(t time.Time) Option { return submit.At(t) }

// In makes the job due d from now, as [At] does. Below zero means now.
func In(d time.Duration) Option { return submit.At(time.Now().Add(max(d, 0))) }

// Score gives the payload its place among the payloads of its id: lower runs first. It tells whole numbers
// apart up to 2^53; beyond, neighbours may be equal. Without it the score is the time of its acceptance, in
// Unix seconds, and never below an earlier one of its queue: payloads without a score run in the order of
// [Receipt].Position, also if many goroutines enqueue them at a time, if they waited for room or are
// follow-ups, and if the clock was set back meanwhile, or is behind in this process. After a restart the floor
// is the highest such score among the payloads that wait; see Time in the package comment for how it is told.
func Score(v float64) Option { return submit.Score(v) }

// Metadata goes with the payload, as strings by key: a trace context, a tenant, the request it came
// from. The handler finds it beside the payload, and it survives retries, restarts, dead-lettering
// and Requeue. It is not a part of the payload: payloads with equal bytes merge whatever their
// metadata, and the one that stays keeps its own. The map has at most 16 pairs, with keys that are
// not empty, and 1 KiB of keys and values together, or the call returns [ErrInvalidItem]. The call
// copies it. Item.Metadata takes its place as a whole. A [Queue.FollowUp] inherits those of its job.
func Metadata(pairs map[string]string) Option { return submit.Metadata(pairs) }

// IdempotencyKey makes a call safe to repeat. The key is any string of 1 to 512 bytes, for example
// the id of the request. If a call with the same key was accepted before in the same queue, within
// Config.Advanced.IdempotencyTTL, the call enqueues nothing and returns the receipts of the first
// one with Duplicate set. So a caller that got ErrUnknown can make the same call again, also from
// the next process: the key is in the commit of the payload. Calls with one key at the same time
// wait for each other, and one is accepted.
//
// What a handler enqueues with a key is enqueued again when the handler is retried
// after Config.Advanced.IdempotencyTTL: the default retries go on for 20 days. What
// follows the success of a job needs no key: see [Queue.FollowUp].
//
// A key belongs to the queue, whatever the id. Where several senders make up keys, put
// the sender into the key; otherwise a second sender with the same key is taken for the
// first. The payloads of the calls are not compared, except that [Queue.EnqueueMany]
// returns ErrInvalidKey for another number of items than the first call had.
func IdempotencyKey(key string) Option { return submit.IdempotencyKey(key) }

// FromSource accepts a call only if offset is greater than the last one that was
// accepted under name, by any queue of the executor; otherwise the call returns a
// [StaleError]. The offset is written in the commit of the payload. So what comes from
// a source that can be read again is accepted once, across crashes, too: the ticks of a
// clock, a partition with its offsets, numbered webhooks.
//
// An offset may be negative. A name has 1 to 512 bytes; choose one that does not begin with
// "cron/", because the schedules of executor/cron use those. Calls with the same name go one at a
// time: the next one waits until the outcome of the last is known, or its ctx ends. A refused call
// does not move the offset. A call with several names needs a new offset for each. The journal
// keeps an offset until [Executor.DeleteSourceOffset].
func FromSource(name string, offset int64) Option { return submit.FromSource(name, offset) }

// StaleError is returned by a call with [FromSource] whose offset is not above the last one,
// and says which one was there.
type StaleError struct {
	Source string
	Offset int64 // of the refused call
	Last   int64 // what was accepted before
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("executor: offset %d of %q is not above %d, which was accepted before", e.Offset, e.Source, e.Last)
}

func stale(source string, offset, last int64) error { return &StaleError{source, offset, last} }

// WaitingError says which payload keeps a call with [IfAbsent] from being accepted.
// To wait for that one: Receipt{ID: e.ID, Position: e.Position}.
type WaitingError struct {
	Queue, ID string
	Position  uint64    // of the one that is to run next
	Due       time.Time // when its job is due
}

func (e *WaitingError) Error() string {
	return fmt.Sprintf("executor: a payload of this id waits already: queue %q, id %q, position %d, due %s", e.Queue, e.ID, e.Position, e.Due.Format(time.RFC3339))
}

func waiting(queue, id string, next journal.Position, due int64) error {
	return &WaitingError{Queue: queue, ID: id, Position: uint64(next), Due: time.Unix(0, due)}
}

// IfAbsent refuses the payload, with a [WaitingError], while another payload of its id
// and queue waits: for its turn, its due time, a retry, a lock, or RunNow, whatever it
// carries. A payload that runs does not count, because its handler may have read what
// has changed since. It holds over a restart, and a refused call writes nothing.
//
// Of several calls with IfAbsent for one id one is accepted; they go one after the other. A call without it
// that is under way at the same time may be accepted, too. IfAbsent is for calls with one payload; EnqueueMany
// with several returns ErrState. With an [IdempotencyKey] that came before, the call is a Duplicate, whatever
// waits. Under DurabilityAsync the call waits for the commit.
func IfAbsent() Option { return submit.IfAbsent() }

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
