package executor

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/followup"
	"github.com/strandjobs/strand/executor/internal/submit"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Parent is a job as its handler got it, a [Job] or a [Merged] of any type: what a
// follow-up is staged on, and what has [Slots].
type Parent interface{ origin() origin }

// origin is which job of which call of a handler it is.
type origin struct {
	attempt *attempt.Attempt
	item    *shard.Item // of several in one attempt; nil: there is one
	call    int         // of the handler, in its attempt
	claim   *admit.Claim

	metadata map[string]string // that follow-ups inherit
}

func (j Job[T]) origin() origin {
	return origin{attempt: j.attempt, claim: j.claim, call: j.call, metadata: j.Metadata}
}

func (j Merged[T]) origin() origin {
	from := j.from
	from.claim = j.claim
	if n := len(j.Payloads); n > 0 {
		from.metadata = j.Payloads[n-1].Metadata
	}
	return from
}

// FollowUp stages a payload on a job whose handler runs. The payload is accepted in the
// commit of that job's success, and not without it: both are on disk, or neither. So
// each job that succeeds has its follow-up once, even if the process dies at any
// moment, and needs no [IdempotencyKey]. The queue may be any of the same executor,
// also the job's own, and in a cluster the id may be of any partition. With the job's own id
// the follow-up runs when the job is over. Any goroutine of the handler may call it, until
// the handler has returned.
//
// A job succeeds when its handler returns nil, and in a batch when [BatchErrors] have no
// error for it. After any other outcome, [Discard] and [PayloadErrors] included, the
// follow-ups of that run are dropped, and the next run stages its own. With [Handle] each
// payload is a job of its own here. When the handler is called again in one run, because a
// batch is halved or a [Middleware] calls next again, the last call of each job counts.
//
// Give it an id of its own, unless it has to wait for its turn: with the id of the job it
// runs behind all that was accepted for that id, including what has failed or is put off.
// [In] counts from its call, not from the job's success, and has no effect on a job that waits.
//
// It inherits the metadata that its Job has at the call, for example a trace context, or
// those of a Merged's last payload. A pair of its own [Metadata] replaces an inherited one,
// and Metadata without pairs inherits none. Together they have the bounds of Metadata.
//
// The call checks id, payload and options as [Queue.Enqueue] does, with the same errors
// ([Splitter] says what to do about ErrNotOwned), and calls the functions of
// QueueConfig.Defaults. A score, due time and EnqueuedAt that are still open are filled in
// when the handler has returned. Locks.OnEnqueue is locked from the commit on. There is no
// receipt, because it may still merge. Follow-ups count in the backlog, which does not
// refuse them. One for another partition waits, from the commit on, for the owner of that
// partition, who then fills it in, locks its keys, and takes it in once the backlog has room.
//
// Other errors are ErrReturned when the call of the handler that got the job has returned;
// ErrState with [IdempotencyKey], [FromSource] or [IfAbsent], for a queue of another
// executor, for one with OnEnqueue and a Locks.Service, and for a job that no executor has
// made; and ErrTooLarge beyond 1000 follow-ups or 4 MiB for one job; a single follow-up may
// be larger. A job that has succeeded, and whose follow-ups find no room on a full disk
// within 100 ms, is tried again as one that returned a [FullError].
func (t *Queue[T]) FollowUp(job Parent, id string, payload T, options ...Option) error {
	if t == nil || t.q == nil {
		return errNoQueue
	}
	var from origin
	if job != nil {
		from = job.origin()
	}
	part := t.q.inPartition(from)
	if part != nil {
		t = &Queue[T]{q: part, cfg: t.cfg}
	}
	if err := t.q.takesAfter(from); err != nil {
		return err
	}
	it, err := t.complete(Item[T]{ID: id, Payload: payload}, options)
	if err != nil {
		return err
	}
	if part != nil && !it.Due.IsZero() { // by the clock of this process
		it.Due = part.x.clock().Add(time.Until(it.Due))
	}
	f := &followup.FollowUp{Queue: &t.q.Door}
	err = t.q.Fill(&f.Entry, &it, followup.Unstamped)
	elsewhere := t.q.x.front != nil && errors.Is(err, ErrNotOwned)
	if err == nil || elsewhere {
		err = applyTo(f, options, from.metadata, it.Metadata)
	}
	if e := &f.Entry; err == nil && elsewhere {
		f.Elsewhere, err = t.q.x.front.cluster.followUp(t.q.Name, Item[[]byte]{it.ID, e.Payload, it.Score, it.Due, maps.Collect(e.Metadata.All())})
	}
	if err != nil {
		return err
	}
	size := shard.Announced(&f.Entry).Bytes
	switch err = from.attempt.Stage(from.item, from.call, f, size); err {
	case attempt.ErrTooMany:
		return fmt.Errorf("%w: a job may have %d follow-ups", ErrTooLarge, attempt.MaxCount)
	case attempt.ErrTooLarge:
		return fmt.Errorf("%w: %d bytes for id %q: the follow-ups of a job may have %d together", ErrTooLarge, size, f.Entry.ID, attempt.MaxBytes)
	}
	return err
}

// inPartition returns the queue as the partition of a job has it; nil: q is not that of its cluster.
func (q *queue) inPartition(from origin) *queue {
	if q.x.cluster == nil || from.attempt == nil {
		return nil
	}
	part, _ := from.attempt.Executor().(*Executor)
	if part == nil || part.front != q.x {
		return nil
	}
	if own := part.queues.Named(q.Name); own != nil {
		return own.Front.(*queue)
	}
	return nil
}

// takesAfter returns why a queue can't have follow-ups of a job.
func (q *queue) takesAfter(from origin) error {
	switch {
	case from.attempt == nil:
		return fmt.Errorf("%w: no follow-up for queue %q: the job was not made by an executor", ErrState, q.Name)
	case from.attempt.Executor() != q.x:
		return fmt.Errorf("%w: no follow-up for queue %q: it is of another executor than the job, and they have no commit in common", ErrState, q.Name)
	case q.Locks != nil && q.Locks.Service != nil && q.Locks.OnEnqueue != nil:
		return fmt.Errorf("%w: no follow-up for queue %q: its Locks.OnEnqueue is kept by a Service, which has no part in a commit; use Enqueue", ErrState, q.Name)
	}
	return nil
}

func applyTo(f *followup.FollowUp, options []Option, inherited, own map[string]string) error {
	if condition := submit.Condition(options); condition != "" {
		return fmt.Errorf("%w: no follow-up with %s: what is in the commit of its job is there once, and takes no condition", ErrState, condition)
	}
	if len(inherited) > 0 && (own == nil || len(own) > 0) { // own is nil unless the call has some, or asks for none
		all := maps.Clone(inherited)
		maps.Copy(all, own)
		if err := submit.SetMetadata(&f.Entry, all); err != nil {
			return fmt.Errorf("%w, together with what it inherits from its job; Metadata without pairs inherits none", err)
		}
	}
	f.Entry.Payload = bytes.Clone(f.Entry.Payload) // the codec may use it again
	keys, err := f.Queue.KeysOf([]journal.Entry{f.Entry})
	if keys != nil {
		f.Keys = keys[0]
	}
	return err
}
