package inspect

import (
	"context"
	"errors"
	"iter"
)

// Errors of looking, and of acting.
var (
	// ErrInvalidQuery is returned for a query or a filter that makes no sense; the
	// text names the field, with its value.
	ErrInvalidQuery = errors.New("executor: invalid query")

	// ErrInvalidCursor is returned for a cursor that is none, or that comes from
	// another list, queue or order.
	ErrInvalidCursor = errors.New("executor: invalid cursor")

	// ErrUnknownJob is returned for an id that has neither a job nor dead letters.
	ErrUnknownJob = errors.New("executor: unknown job")

	// ErrTooManyPaused is returned when more than 100,000 ids of a queue, or 10,000 prefixes,
	// would be paused. Pause the queue.
	ErrTooManyPaused = errors.New("executor: too many ids are paused")
)

// Inspector shows what is in an executor while it runs, and acts on it: for people,
// dashboards and tools. Any goroutine may call its methods, at any time, also before Start. After
// Stop only Running, Limits and Paused answer; the others return ErrClosed.
type Inspector interface {
	// Jobs lists jobs of a queue, while they go on.
	//
	// The cursor is the place of the last row in the order: what comes and goes
	// meanwhile moves no row to another page. A job that is there all the time, and
	// whose place in the order stays, is on exactly one page; one that comes, goes or
	// changes meanwhile may be on any number of them. A cursor with an order stays good
	// after a restart; one with OrderNone gets ErrInvalidCursor then.
	//
	// With an order, each page looks at all jobs of the queue, except in shards that have
	// none in the wanted States: 10⁶ jobs take some 40 ms of a processor. If ids matter, for
	// the order, for equal due times or for a prefix in the filter, they are read, too, and
	// it takes some 150 ms. Ids that only the disk has are read from there, and stay there.
	// It takes no more memory than the page. With OrderNone the page ends when 100,000 jobs
	// were examined, with Truncated set, and Next goes on.
	//
	// The work is done in steps that keep no shard for longer than some tens of
	// microseconds. While handlers run, or payloads are accepted, all calls together get
	// a fiftieth of each processor, or half of what lies idle if that is more, beyond a
	// burst of 50 ms. So beside handlers that wait for something a page comes about as
	// soon as at rest. Beside those that compute on all processors a page of a long queue
	// may take ten seconds: ctx bounds the wait, and with a Patience the page comes by
	// then, perhaps Partial.
	//
	// It returns ErrUnknownQueue, ErrInvalidQuery, ErrInvalidCursor, ErrContext,
	// ErrClosed, ErrFailed, or the cause of ctx.
	Jobs(ctx context.Context, query JobQuery) (JobPage, error)

	// Job shows the job of an id, with its payloads, decoded by the codec of the queue,
	// and its dead letters. If the codec panics or ends its goroutine,
	// PayloadInfo.Decode says so; while it blocks, Job waits until ctx ends.
	//
	// What belongs to the job is of one moment; Holdings, Explanation and Dead are of later
	// ones. An id without a job is looked for among all dead letters; see
	// [Inspector.Dead] for what that takes.
	//
	// It returns ErrUnknownQueue, ErrInvalidID, ErrUnknownJob for an id with neither a job
	// nor dead letters, which tells the newest state that was done, as Explain does,
	// ErrContext, ErrClosed, ErrFailed, or the cause of ctx.
	Job(ctx context.Context, queue, id string) (JobDetail, error)

	// Explain says why the job of an id does not run: what it waits for, which job has
	// that, and for how much longer. For a job that is ready it says what keeps workers
	// from it. For an id without a job it tells of the id's dead letters; to find them it
	// scans all of the queue's, see [Inspector.Dead] for what that costs. If there are none
	// either, State is JobUnknown, and that is no error. It returns ErrUnknownQueue, ErrInvalidID
	// for an id that no job can have, ErrContext, ErrClosed, ErrFailed, or the cause of ctx.
	Explain(ctx context.Context, queue, id string) (Explanation, error)

	// JobsByID is Job for up to 25 ids of a queue, in their order, each once;
	// ids with neither a job nor dead letters are left out. It goes through the morgue once
	// for all of them, and the MiB of PayloadInfo.Raw is for all together. More ids are
	// ErrInvalidQuery; the other errors are those of Job, but for ErrUnknownJob.
	JobsByID(ctx context.Context, queue string, ids ...string) ([]JobDetail, error)

	// Dead lists dead letters of a queue, in pages. The pages, the cursor, the pauses
	// between steps of the work and the errors are as with [Inspector.Jobs]. A page in an
	// order looks at all of them: 10⁶ dead letters take a second or two. A page without one
	// ends when 100,000 were examined. A payload that died a moment ago is listed when its
	// death is on the disk.
	Dead(ctx context.Context, query JobQuery) (JobPage, error)

	// Running lists what runs now. It asks the workers themselves, and waits for no
	// shard, handler or disk. So it answers when all of these are stuck, and
	// after Stop with the handlers that were left behind. It returns ErrUnknownQueue,
	// ErrInvalidQuery or ErrContext.
	Running(ctx context.Context, query RunningQuery) (RunningList, error)

	// LockedKeys lists keys that [executor.Locks] of any queue, or people, have locked: in
	// order, from the first key behind after ("" for the first page), up to limit of them, as in
	// [JobQuery]. It also returns how many more there are. Of a cluster, a key is there once for
	// each partition that has it, on one page, which may be longer by that. It does not know the
	// keys of a Locks.Service. While the keys are gone through, jobs with Locks wait: about 1 ms
	// for 30,000. It returns ErrInvalidQuery, and ErrClosed when a Stop has ended.
	LockedKeys(after string, limit int) (page []KeyLockStatus, more int, err error)

	// Leases lists the keys of [executor.Unique] that jobs have or wait for, as LockedKeys does
	// those of Locks.
	Leases(after string, limit int) (page []LeaseStatus, more int, err error)

	// Slots lists which jobs have which value of the [executor.Slots] that the queues use: up to
	// limit of them, as in [JobQuery], and how many more there are. It returns ErrInvalidQuery,
	// and ErrClosed when a Stop has ended.
	Slots(limit int) (held []SlotHeld, more int, err error)

	// Limits shows each [executor.Limit], in the order in which they were made, with how it
	// stands with some keys: one that is not in use has no jobs. Without keys it shows those in
	// use, up to 100 for which most jobs wait. It answers after Stop, too. Of a cluster it
	// shows what this process knows.
	Limits(keys ...string) []LimitStats

	// RunNow makes the selected jobs that wait due now: those that are delayed, snoozed or
	// waiting for a retry. It gives all of their retries back, and lets halted ones go on. A job
	// that a pause, a lock or a limit keeps back still waits for that, and one that runs is left
	// alone. With [Selection.At], each job that has one of the payloads is selected as a whole.
	//
	// It returns how many jobs waited, also with an error. After ErrUnknownQueue,
	// ErrInvalidQuery and ErrInvalidID nothing was changed. After ErrClosed, ErrFailed,
	// ErrContext, and the cause of ctx when that ends first, the jobs of one more visit to
	// a shard, a hundred or two, may be due, too. When all was done, and ctx ends before that
	// is on disk, which may be full or slow, ErrUnknown is around the cause.
	RunNow(ctx context.Context, which Selection) (int, error)

	// RetryNow is RunNow that gives no retries back. A job whose second retry is due
	// tomorrow makes it now. A job that was halted after its last retry makes one more, and
	// its attempts count on. So a person can try whether the cause of the failures is gone,
	// without the jobs starting all over if it is not. It returns what RunNow does.
	RetryNow(ctx context.Context, which Selection) (int, error)

	// Cancel turns the selected payloads into dead letters, with their history. Their last
	// error is [executor.ErrCanceledByOperator], followed by the reason if there is one; 4 KiB of it
	// are kept. What they have locked stays locked unless Locks.UnlockOnBurial is set.
	//
	// If a job runs, the context of its handler ends with that error as its cause. When the
	// handler has returned, the selected payloads are dead-lettered, unless the handler
	// says that they are done or discarded. The job's other payloads, and the other jobs of
	// its batch, run again without spending a retry, unless they are done. If the process
	// dies before the handler has returned, the job was not canceled, and runs again.
	//
	// It returns how many payloads are affected, also with an error; those that a handler
	// has in hand count. Without an error, everything but those is on disk. The errors are
	// those of RunNow, and ErrFull when the disk has no room for the next dead letter; [Inspector.Delete]
	// needs none. After one, the changes that are counted may not be on disk yet, and
	// those of one more visit to a shard may have been made, too. When several calls select
	// the same payloads at the same time, a payload that waits is counted by one of them,
	// and one that runs by each.
	Cancel(ctx context.Context, which Selection, reason string) (int, error)

	// Delete ends the selected payloads for good, without dead letters; QueueStats.Deleted
	// counts them. What they have locked is unlocked, except for the keys of a
	// Locks.Service. If a job runs, the context of its handler ends with
	// [executor.ErrDeletedByOperator]. All else is as with Cancel, the results included.
	//
	// With [SelectIDs] the ids of a queue with [executor.MergeSupersede] begin anew: what is
	// accepted after that is newer, whatever the scores, than what was done (which counts as
	// one in the result), than what runs, and than a dead letter, which is then superseded.
	Delete(ctx context.Context, which Selection) (int, error)

	// KillFailed turns what waits for a retry, or is halted, into dead letters, for the
	// selected jobs. With [executor.Handle], and under Gather.Block, these are the payloads that
	// have failed, and those behind them go on; otherwise they are all payloads of the job.
	// Their last error names the cancellation and then the failure. A job that runs is left
	// alone. All else is as with Cancel.
	KillFailed(ctx context.Context, which Selection) (int, error)

	// DeleteFailed deletes what KillFailed would turn into dead letters, as Delete does.
	DeleteFailed(ctx context.Context, which Selection) (int, error)

	// Requeue puts the selected dead letters back in their place: with their old score
	// and position, due now, with all retries given back. They start again without Failures
	// and LastError. If a job of the same id waits, they join it, and it is due now, too, with
	// all of its retries given back, and goes on if it was halted.
	//
	// Later payloads of the id may have been done since, and do not run again: so an older
	// payload runs after them. That is right for payloads that don't depend on each other. If
	// they do, let none of the waiting payloads run first: Pause the queue, KillFailed,
	// Requeue all, Resume. Late and Unsure of the result say how many come too late all the
	// same. For state use [executor.HandleLatest]: there, no older state replaces a newer one.
	//
	// Requeue goes in the order in which the payloads were accepted, up to a thousand of
	// them or 4 MiB in a commit, so that it takes little memory and other work goes on; the
	// first ones may run before the last ones are back. It returns what became of them,
	// also with an error: ErrFull, ErrClosed, ErrFailed, ErrContext, ErrUnknownQueue,
	// ErrInvalidID, ErrInvalidQuery, also for a selection with states, because dead letters
	// have none, or the cause of ctx when that ends first. After an error, ErrUnknown
	// included, the payloads of one more commit may be back.
	//
	// Several calls that put back or delete dead letters of one queue take turns with each
	// other, and with Retention, commit by commit. One of them takes a payload and counts
	// it; the others skip it. So a call for a few payloads waits for one commit of each
	// other call, not for the end of it.
	Requeue(ctx context.Context, which Selection) (r Requeued, err error)

	// DeleteDead deletes dead letters for good, up to a thousand or 4 MiB of them in a
	// commit; QueueStats.Deleted counts them. What they had left locked is unlocked. It
	// returns how many it deleted, also with an error: the errors are those of Requeue,
	// except ErrFull. See [Inspector.Requeue] for what else may be gone after an error, and
	// for several calls at the same time. On a full disk it deletes them one by one, in the
	// room that is kept for results.
	DeleteDead(ctx context.Context, which Selection) (int, error)

	// Pause stops the jobs of a Selection from starting until Resume, also after a restart or a
	// crash: all of the executor ([SelectExecutor]), those of a queue ([SelectQueue]), of some
	// ids ([SelectIDs]), or of all ids with a prefix, of a tenant for example ([SelectPrefix]).
	// An id need not have a job: what is accepted later waits, too. Each of the four is paused
	// by itself, and a job runs when none of them keeps it. A renamed queue keeps its pauses;
	// see QueueConfig.RenamedFrom. At most 100,000 ids and 10,000 prefixes of a queue are
	// paused at a time.
	//
	// After Pause has returned no worker begins a paused job. A job that a worker has begun goes
	// on: its payload may still be decoded, its handler called, and a failed batch called again
	// in halves. Pause does not wait for it. Enqueue still accepts payloads, schedules go on,
	// and RunNow makes jobs due, which then wait like all others. What a paused job locked when
	// it was enqueued stays locked. The job gives up its place in the line for a key, and asks
	// again when it is resumed.
	//
	// Pause returns how many ids were not paused before, and for the executor, a queue or a
	// prefix 1 or 0; also with an error. Without an error the pause is on disk. On a full disk
	// it takes the room that is kept for results, and waits until ctx ends when even that is
	// used up. A pause of ids may take only a part of that room, and is ErrFull beyond that. The
	// errors are ErrClosed, ErrFailed, ErrContext, or the cause of ctx, with ErrUnknown if the
	// pause had begun and may hold or not; ErrUnknownQueue; ErrInvalidID, and then, as with
	// ErrFull, no id is paused; ErrTooManyPaused; ErrInvalidQuery for what those four do not return.
	Pause(ctx context.Context, which Selection) (int, error)

	// Resume ends a pause of the same Selection, and returns how many of it were paused, and
	// the errors of Pause. Another pause that holds the same jobs goes on.
	Resume(ctx context.Context, which Selection) (int, error)

	// Paused returns what is paused as a whole: the executor, and queues, registered or not.
	Paused() (all bool, queues []string)

	// PausedIDs lists the ids of a queue that are paused one by one, in order, as of the
	// last commit. It reads a page at a time. A read error is yielded once and ends the
	// list; a queue of which the journal knows no pause has none.
	PausedIDs(queue string) iter.Seq2[string, error]

	// PausedPrefixes lists the prefixes of ids of a queue that are paused, as PausedIDs does.
	PausedPrefixes(queue string) iter.Seq2[string, error]

	// Act calls a method by its name in the API: run, retry, cancel, delete, kill-failed, delete-failed,
	// requeue, delete-dead, pause or resume. The reason is for cancel. What the method counts is Back of
	// the result. Another name is ErrInvalidQuery; all else is as the method says.
	Act(ctx context.Context, name string, which Selection, reason string) (Requeued, error)
}
