// Package executor runs background jobs inside one process, in order: the front
// door of Strand. This is its contract. README.md, beside it, is the guide: a section
// for each capability, with code.
//
// # Which shape is mine?
//
//   - Events, each of which has to be applied, in order: [Handle]. A call gets one payload of an
//     id. A bad one is retried, dead-lettered or canceled alone; what was before it stays done.
//   - State, of which the newest counts, as in mirrors, indexes and caches: [HandleLatest]. A call
//     gets the newest payload of an id.
//   - What is seen together, or adds up: [HandleMerged]. A call gets all payloads of an id that
//     wait, or with Gather.Fold one for all of them. A bad one fails its job, unless
//     [PayloadErrors] name it.
//   - What is cheaper by the dozen: [HandleBatch]. A call gets up to BatchSize ids with their
//     payloads. A bad one fails its id, if [BatchErrors] name that; otherwise the batch is
//     halved until the id is alone.
//
// Equal payloads each count, unless QueueConfig.Merge says that one is enough.
//
// # Which lock is mine?
//
//   - One job of an id at a time: always so. One job of a queue at a time: MaxConcurrent: 1.
//   - One job of a key at a time, in several queues: [Unique] with a Key. One of equal payloads:
//     UniqueWhileRunning. The job has the lock while it runs, whatever its outcome.
//   - To wait until other jobs have succeeded: [Locks]. The others set OnEnqueue or OnRun, Unlock,
//     and Counted if several lock a key; the waiter sets BlockedBy. A key stays locked until a
//     success or [Discard] unlocks it, in back-off and after a burial, too. A job is never blocked
//     by a lock that a job of its own queue and id has set.
//   - At most n running jobs of a key, in several queues: [Limit], Concurrent.
//   - A number of its own for each job while it runs, kept if it succeeds: [Slots].
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
//  3. Nothing is dropped silently. A payload ends as done, discarded by its handler,
//     merged, or as a dead letter in the morgue (also by [Cancel]), from where a person can
//     put it back in its place. Merged means that an equal payload of its id, or one that
//     it was folded into, runs in its stead. The [Receipt] says so if that is known when
//     the payload is accepted; [inspect.QueueStats] counts a payload that is replaced later
//     (Replaced). It also counts what a person or a [Retention] deletes.
//  4. A bad job hurts only its own id, and with [Handle] a bad payload only those
//     behind it: what was done before it stays done, and its retries, its burial
//     and its reason are its own. Errors, panics and Goexit of a handler, a codec
//     or a hook are contained. But code that runs for a call, such as Encode, a Key or a
//     [Middleware] around an enqueue, is on the goroutine of the caller, which a Goexit
//     ends. A job that kills the process is given up after Config.Crash.Limit times, and
//     every other job completes. After a kill from outside, what was running runs again at
//     once, unless it was also running at the crash before.
//  5. No polling for jobs inside the executor. A job that can run, runs: a due
//     time, an unlock, a slot that comes back or a free worker wakes it directly.
//     Under Config.Advanced.TimerSlack a due time may wake it a little later, never
//     earlier. What cannot notify is polled: a Locks.Service that is no [lock.Watcher] every
//     second; a full disk ten times a second, and once a second for the control socket;
//     executor/cron looks at the clock once a minute.
//  6. The end of a job waits for no other job. Its result, its locks and the next payload
//     of its id wait for nothing but its own batch, and the result is written within a
//     few milliseconds.
//
// Jobs may wait for each other, over [Locks], [Unique] and [Slots]. What a job locks and reserves
// changes in the commit of the job: after a crash, locks and slots agree with the jobs that the
// journal has, except that some have expired meanwhile. A job that waits keeps its place in its id
// and in the line of the locks that it waits for, takes no worker and spends no retry. Before it
// runs it holds only keys of OnEnqueue, and what a run that failed has left it: OnRun keys, and its
// slot under KeepOnFailure. When its turn comes and all workers are busy, it keeps the first place.
// It locks its keys, and its lease starts, only when a worker takes it. Slots are not first come,
// first served: one that is given back goes to any waiting job. A job that would close a cycle of
// waiting jobs fails instead, with the names of all in it. [inspect.Inspector.Explain] says what a
// job waits for. [Executor.Inspect] shows all else, and acts for a person: see package [inspect].
//
// A caller who can't know whether a payload was accepted, because the process died or the
// outcome was unknown, repeats the call. With [IdempotencyKey], or for a numbered source
// with [FromSource], the payload is accepted once all the same. The key or the offset is
// written in the commit of the payload.
//
// # What is not promised
//
//   - Exactly-once side effects outside the journal. A handler that was running
//     when the process died runs again.
//   - Order between ids.
//   - More than one process on one journal: the second one gets
//     [journal.LockedError], or waits in [OpenContext] until the first has stopped. For
//     a log of [OpenLog], ask whoever opens it.
//   - That an unlock is on disk before the job that waited for it begins. After a crash in
//     between, the job that had the lock runs again, although the other one has begun.
//   - That a job keeps its place among other ids over a crash, when a person has removed
//     its oldest payloads while they ran: it may get the place of its next one.
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
//   - To do a side effect exactly once. A handler over SQL writes an id of the event,
//     from its payload, in its own transaction, and skips an id that is there already.
//     Job.Position serves as that id until the journal is restored from a copy or begun
//     anew, which gives positions a second time.
//   - Several processes on one journal, priorities of jobs inside an id, and
//     dependencies between jobs but for [Locks]: they would cost the promises
//     above.
//
// # The shape of v1
//
// What is exported here and in [inspect] stays, and so do journals: a later version opens those of
// an earlier one. A program may need a few names of other packages: [lock.Decision],
// [lock.Service], [lock.Lease], [lock.ErrLockLost], [lock.Election] for
// executor/cron, and [journal.LockedError]. Any other error of package journal or lock
// explains itself by its text. Settings are structs whose zero value works, and may get
// fields; zero and below mean what [Config] says. Calls take options, and may get more.
// Attempts count from 1. Positions, scores and fences are plain numbers. Of the packages
// below executor, lock stays compatible; the others promise no compatibility.
//
// # How it works
//
//	 you ── Enqueue ──► executor ──(1) Append──► journal ──(2) Deliver, in commit order──► shard
//	handler ◄──(4) run── worker ◄──(3) grant── scheduler ◄── offer ──────────────────────┘   ▲
//	                        └──────────── finish ─────────────────────────────────────────────┘
//	                             journal ◄──(5) Record, next group commit ──┘
//
// Enqueue waits until the payload is on disk and its shard has taken it in, so the
// receipt can say what it was merged into. A shard with a job due offers itself. The
// scheduler gives it a worker, and the shard hands over a run: as many due ids, or with
// [Handle] payloads, as are likely to be done within a millisecond. A worker goes
// through the payloads of an id one call at a time, and what became of them is in
// one commit. When a payload arrives for an id that the worker has not begun, the id
// leaves the run, and the payload joins it. A run that is not over after that
// millisecond is taken apart: what has ended is settled, what has not begun goes to
// another worker, and the worker keeps what it has in hand.
//
// An idle shard borrows the goroutine of its caller: of the committer, of a worker with
// results, or in memory of the caller of Enqueue. So in memory a job wakes one other
// goroutine, that of its worker, and none while the workers are busy.
//
// A restart enters the same picture at (2): shards only ever apply committed
// entries in position order.
//
// # Memory
//
// A job that waits takes about 80 bytes. Its payload and id stay in memory, too, as long as
// those of all jobs fit into Config.Advanced.MemoryBudget. Above it the oldest are on disk
// only, and are read back when their jobs run or something arrives for their ids. When
// the disk can't give them back unchanged, the executor fails with [ErrFailed], and
// no handler is called with anything else.
//
// # Time
//
// Due times are on the wall clock. When that clock is set by a second or more while the
// executor runs, the executor notices within a minute: what was due stays due, and pauses
// before retries, of Throttle and of Debounce keep their length. For steps of a minute or more
// that holds after a restart, too, except for a payload that has a due time of its own and
// waits behind a retry. [At], [In] and [Snooze] name a moment on the wall clock. Timeouts are
// on the monotonic clock. The executor can't tell whether the clock was wrong in an earlier
// process, so it logs what is due in more than 50 years when its queue is registered.
//
// A payload without a score gets the time of its call on the wall clock as its score. Such
// scores never fall from one position of a queue to the next. If a later call overtakes this
// one on the way to the journal, the payload gets the time of its arrival there, also as its
// EnqueuedAt and, unless it was put off, as its due time. While the clock is behind the highest
// such score that the queue has had in this process, or that waited at its start, new payloads
// get that score. So payloads without a score keep the order in which they were accepted,
// whoever enqueued them, and however long a call was under way. Dead letters do not count.
// The journal does not record which scores were given: after a restart the executor takes one
// for its own if it equals the due time, or is a Unix time in seconds with a fraction.
//
// # Census
//
//   - the journal's committer: 1, from Open to Stop
//   - workers: Config.Workers, from Start to Stop; one that a handler ended with
//     Goexit is replaced; up to Config.Stuck.SpareWorkers more in the place of stuck ones
//   - shards: actors, which have none while others do their work; up to 1 for each processor waits for them, until Stop
//   - a queue that is registered: 1 for each processor, until its shards have taken
//     in what was pending
//   - a stop: 1, until it and the handlers it left behind are over; 1 more until no Fold runs
//   - a failure, or a handler that returned [Fatal]: 1, until OnFatal returns; 1, until it is logged, as
//     a start, a stop, and a disk that becomes full or has room again are. Copy, Compact: 1, until it has ended
//   - a crash recorder whose file was cut: 1, until that is logged; jobs go on
//     without it, and a job that kills the process is not found out
//   - a call whose context ended while its payloads were on their way to the disk: 1, until
//     the outcome is known or the executor has stopped; only if the call has a condition
//     such as [IfAbsent], locks something, or a backlog has a limit. Also a call whose
//     context ended while its dead letters were on their way out of the morgue: 1
//   - a watched key of [Executor.KeyLocks] that was unlocked, an OnEnd of a lease: 1, until the
//     function has returned; a Watch of a Locks.Service that is canceled: 1, until that has
//   - Fold: 1 for each call of it for a run, until it returns; for what waits in a queue
//     up to 4, and one more in the place of each that has folded for a second
//   - retention of dead letters: 1 for a queue that has it, until Stop; one timer while
//     a dead letter is going to be too old. Limits of a cluster: 1, until Stop
//   - an Inspector.Job that has something to decode: 1, until the codec has returned. A pause of
//     a prefix: 1, until it has gone through the jobs. A control socket: 1, and its connections'
//   - all else has timers at most: one each for the watchdog while a job with a timeout
//     runs, the crash recorder, the next suspect, a backlog that has refused a call, the
//     next lock and the next lease that end by themselves, each lease and slot of a
//     running job, and the next job that a limit lets run
//
// No user code runs on a shard or under a lock; the methods of a context are user
// code, too. A call with one that is nil, or panics, returns [ErrContext].
package executor
