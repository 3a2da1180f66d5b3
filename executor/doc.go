// Package executor runs background jobs inside one process, in order: the front
// door of Strand. This is its contract. README.md, beside it, is the guide: a section
// for each capability, with code.
//
// # Which shape is mine?
//
//   - Events, each of which has to be applied, in order: [Handle]. A call gets one payload of an
//     id. A bad one is retried, dead-lettered or cancelled alone; what was before it stays done.
//   - State, of which the newest counts, as in mirrors, indexes and caches: [HandleLatest]. A call
//     gets the newest payload of an id.
//   - What is seen together, or adds up: [HandleMerged]. A call gets all payloads of an id that
//     wait, or with Gather.Fold one for all of them. A bad one fails its job, unless
//     [PayloadErrors] name it.
//   - What is cheaper by the dozen: [HandleBatch]. A call gets up to BatchSize ids with their
//     payloads. A bad one fails its id, if [BatchErrors] name it, or else when it is alone: the
//     batch is halved.
//
// Equal payloads each count, unless QueueConfig.Merge says that one is enough.
//
// # Which lock is mine?
//
//   - One at a time of the jobs of an id: it is so anyway. Of all jobs of a queue: MaxConcurrent: 1.
//   - One at a time of the jobs of a key, in several queues: [Unique] with a Key. Of equal
//     payloads: UniqueWhileRunning. It is held while the job runs, whatever comes of it.
//   - To wait until other jobs have succeeded: [Locks], with OnEnqueue or OnRun, and Unlock, of
//     those, and BlockedBy of the waiter. It is held until then: in back-off and after a burial, too.
//   - So many of a key, in several queues, while handlers run: [Limit], Concurrent.
//   - A number of its own for each job while it runs, which its success keeps: [Slots].
//
// # What is promised
//
//  1. Order. Two runs of one (queue, id) never overlap, and payloads reach the
//     handler in score order, equal scores in the order they were accepted. A retry
//     never lets a later payload of the id overtake an earlier one. There is no
//     order between ids.
//  2. Nothing accepted is lost. When Enqueue returns nil under [DurabilitySync],
//     the payload is on disk (fsynced). It runs at least once; after a crash only
//     jobs that were running, or whose result was not yet committed, run again, in
//     their old order.
//  3. Nothing is dropped silently. A payload ends as done, discarded by its
//     handler, in the morgue with the other dead letters (also by [Cancel]), from
//     where a person can put it back in its place, or merged: an equal one of its
//     id, or one that it was folded into, runs in its stead. The [Receipt] says so
//     when that is known as the payload is accepted; when it is replaced later,
//     [inspect.QueueStats] counts it (Replaced), as it does what a person deletes, and dead
//     letters beyond a [Retention].
//  4. A bad job hurts only its own id, and with [Handle] a bad payload only those
//     behind it: what was done before it stays done, and its retries, its burial
//     and its reason are its own. Errors, panics and Goexit of a handler, a codec
//     or a hook are contained; Goexit in code that runs for a call, as Encode, a Key
//     or a [Middleware] around an enqueue do, ends the goroutine of its caller. A
//     job that kills the process is given up after Config.Crash.Limit times, and every
//     other job completes; after a kill from outside what was running runs again at
//     once, unless it was running at the one before, too.
//  5. No polling for jobs inside the executor. A job that can run, runs: a due
//     time, an unlock, a slot that comes back or a free worker wakes it directly.
//     What cannot notify is polled: a Locks.Service that is no [lock.Watcher] every
//     second, and a full disk ten times a second, for a control socket once;
//     executor/cron looks at the clock once a minute. A due time may do so a little later
//     if Config.Advanced.TimerSlack says so, never earlier.
//  6. A job ends when it ends. Its result, what it has locked and the next payload
//     of its id wait for no other job: a result waits for nothing but its own
//     batch, and is written within a few milliseconds.
//
// Jobs may wait for each other, over [Locks], [Unique] and [Slots]. What belongs to
// a job changes in the commit of the job: after a crash, what is locked and
// reserved is what the surviving jobs explain, without what has expired meanwhile.
// A job that waits keeps its place in its id and in the line of the locks that it
// waits for, takes no worker and spends no retry. It holds nothing but what its
// enqueue has locked, or a run that failed, until it runs: when its turn comes
// while all workers are busy, the jobs in that line never overtake it, its keys are
// locked when a worker comes to it, and the time of its lease counts from then on.
// Slots have no line: all jobs that wait for one are woken when one comes back, and
// any of them may get it. A job that would close a cycle of waiting jobs fails
// instead, with the names of all in it. [inspect.Inspector.Explain] says what a job waits for, and
// [Executor.Inspect] shows and does all else that a person may ask: see package [inspect].
//
// A caller who can't know whether a payload was accepted, because the process died
// or the outcome was unknown, repeats the call: with [IdempotencyKey] the payload
// is accepted once all the same, and with [FromSource] what comes from a numbered
// source is. Both are written down in the commit of the payload.
//
// # What is not promised
//
//   - Exactly-once side effects outside the journal. A handler that was running
//     when the process died runs again.
//   - Order between ids.
//   - More than one process on one journal: the second one gets
//     [journal.LockedError], or waits in [OpenContext] until the first has stopped. Over
//     a log of [OpenLog] it is as whoever opens that says.
//   - That a lock is unlocked on disk before the job that waited for it begins:
//     after a crash in between, the one that had locked it runs again, later.
//   - That a job keeps its turn among others over a crash, when a person has removed
//     payloads of it that a worker had in hand: it may be that of another of them.
//   - That a handler which ignores its context ends. Its id waits for it, even when
//     QueueConfig.Timeout is over. Stop returns without it, with [ErrStuck], and
//     keeps the journal locked until it ends.
//
// # What is refused on purpose
//
//   - To enqueue in the transaction of another database. Either of the two commits
//     comes first, and a crash in between loses the other, whatever is promised.
//     Write the event to a table in that transaction, an outbox, read the table in
//     the order of its numbers, and enqueue with [FromSource]: what was read twice
//     is accepted once.
//   - To do a side effect exactly once. A handler over SQL keeps an id of the
//     event, from its payload, in the transaction that it makes, and skips what is
//     there already. Job.Position does for that until the journal is restored from
//     a copy or begun anew: such a one gives positions again.
//   - Several processes on one journal, priorities of jobs inside an id, and
//     dependencies between jobs but for [Locks]: they would cost the promises
//     above.
//
// # The shape of v1
//
// What is exported here and in [inspect] stays, and so do journals: a later version opens those of
// an earlier one. A few types of lower rooms have to be looked up: [lock.Decision],
// [lock.Service], [lock.Lease], [lock.ErrLockLost], [lock.Election] for
// executor/cron, and [journal.LockedError]. Other errors of package journal and of
// package lock that come through say what they mean themselves. Settings are
// structs whose zero value works, and may get fields; zero and below mean what
// [Config] says. Calls take options, and may get more. Attempts count from 1.
// Positions, scores and fences are plain numbers. Of the packages below executor,
// lock stays compatible; the others promise no compatibility.
//
// # How it works
//
//	 you ── Enqueue ──► executor ──(1) Append──► journal ──(2) Deliver, in commit order──► shard
//	handler ◄──(4) run── worker ◄──(3) grant── scheduler ◄── offer ──────────────────────┘   ▲
//	                        └──────────── finish ─────────────────────────────────────────────┘
//	                             journal ◄──(5) Record, next group commit ──┘
//
// Enqueue waits until the payload is on disk and its shard has taken it in, so the
// receipt can say what it was merged into. A shard with a job due offers itself;
// the scheduler gives it a worker, and it hands over a run: as many due ids as are
// likely to be done within a millisecond, or payloads with [Handle]. A worker goes
// through the payloads of an id one call at a time, and what became of them is in
// one commit. A payload that arrives for an id in a run that has not started takes
// the id back and merges into it. A run that is not over after that millisecond is
// taken apart: what has ended is settled, what has not begun is another worker's,
// and the worker keeps what it has in hand.
//
// A shard that is idle works on the goroutine of its caller: the committer, in
// memory the caller of Enqueue, or the worker with its results. So in memory a job
// wakes one other goroutine on its way, its worker's, and none while the workers
// are busy.
//
// A restart enters the same picture at (2): shards only ever apply committed
// entries in position order.
//
// # Memory
//
// A job that waits takes about 80 bytes, and its payload and id as long as those of
// all jobs are within Config.Advanced.MemoryBudget. Above it the oldest are on disk only,
// and are read back when their jobs run or something arrives for their ids. When
// the disk can't give them back unchanged, the executor fails with [ErrFailed], and
// no handler is called with anything else.
//
// # Time
//
// Due times are on the wall clock. When that clock is set while the executor runs, by
// a second or more, what was due stays due, and pauses before retries, Throttle and
// Debounce take as long as they were to; it takes a minute at most to notice. So it is after
// a restart, for steps of a minute or more, but for a payload with a time of its own behind a
// retry. [At], [In] and [Snooze] name a moment on that clock. Timeouts are on the monotonic one.
// A clock that was wrong in an earlier process can't be told from one that was right:
// what is due in more than 50 years is logged when its queue is registered.
//
// The score of a payload that came without one is its time on that clock, too,
// except that it never goes down from one position to the next: a call that another
// one of the queue has overtaken on its way to the journal is taken for one that was
// made as it came there, its due time and EnqueuedAt included. While the clock is
// behind the highest of these scores, of the queue in this process or among what waited
// at its start, that one is the score of all that come. So they keep the order in which
// they were accepted, whoever enqueued them, and however long a call was under way. What
// is in the morgue is not asked. The journal does not say which of what waited came
// without a score: one that is the due time, or a time in seconds with a fraction,
// is taken for that.
//
// # Census
//
//   - the journal's committer: 1, from Open to Stop
//   - workers: Config.Workers, from Start to Stop; one that a handler ended with
//     Goexit is replaced; up to Config.Stuck.SpareWorkers more in the place of stuck ones
//   - shards: actors, no goroutine while idle or while others do their work
//   - a queue that is registered: 1 for each processor, until its shards have taken
//     in what was pending
//   - a stop: 1, until it is over and the handlers it left behind have returned
//   - a failure, or a handler that returned [Fatal]: 1, until OnFatal has returned,
//     which Run waits for
//   - a crash recorder whose file was cut: 1, until that is logged; jobs go on
//     without it, and one that kills the process is not found out
//   - a disk that becomes full, or has room again: 1, until that is logged
//   - a call whose context ended while its payloads were on their way to the disk, if it
//     has a condition as [IfAbsent] is one, locks something, or there is a limit of the
//     backlog: 1, until the outcome is known or the executor has stopped; so it is with a
//     call whose dead letters were on their way out of the morgue
//   - a watched key of [Executor.KeyLocks] that was unlocked: 1, until the function
//     has returned
//   - Fold: 1 for each call of it for a run, until that is over; for a queue up to 4
//     while what waits is folded, and one more for each that has been at it for a second
//   - retention of a morgue: 1 for a queue that has one, until Stop; one timer while
//     what is dead will be too old. Limits of a cluster: 1, until Stop
//   - an Inspector.Job that has something to decode: 1, until the codec has returned
//   - all else has timers at most: one each for the watchdog while a job with a timeout
//     runs, the crash recorder, the next suspect, a backlog that has refused a call, the
//     next lock and the next lease that end by themselves, each lease and slot of a
//     running job, and the next job that a limit lets run
//
// No user code runs on a shard or under a lock; the methods of a context are user
// code, too. A call with one that is nil, or panics, returns [ErrContext].
package executor
