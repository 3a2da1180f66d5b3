package executor

import (
	"errors"
	"maps"
	"time"

	"github.com/strandjobs/strand/executor/internal/followup"
)

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
	from := originOf(job)
	part := from.partOf(t.q)
	if part != nil {
		t = &Queue[T]{q: part, cfg: t.cfg}
	}
	if err := followup.May(&t.q.Door, from.attempt, t.q.x); err != nil {
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
		err = f.Complete(options, from.metadata, it.Metadata)
	}
	if e := &f.Entry; err == nil && elsewhere {
		f.Elsewhere, err = t.q.x.front.cluster.followUp(t.q.Name, Item[[]byte]{it.ID, e.Payload, it.Score, it.Due, maps.Collect(e.Metadata.All())})
	}
	if err != nil {
		return err
	}
	return f.Stage(from.attempt, from.item, from.call)
}

// partOf returns a queue as the partition of the job has it; nil: it is not that of its cluster.
func (from origin) partOf(q *queue) *queue {
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
