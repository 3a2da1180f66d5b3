// Package executor runs background jobs inside one process, in order: the front
// door of Strand.
//
// # Which shape is mine?
//
//	my payloads are      register with    a call gets             a bad one
//	───────────────────────────────────────────────────────────────────────────────────
//	events: each has     [Handle]         one payload of an id    is retried, buried or
//	to be applied,                                                cancelled alone; what was
//	in order                                                      before it stays done
//
//	state: the newest    [HandleLatest]   the newest payload of   is retried or buried until
//	counts (mirrors,                      an id                   a newer one of its id comes
//	indexes, caches)
//
//	seen together        [HandleMerged]   all payloads of an      fails its job, unless
//	                                      id that wait            [PayloadErrors] name it
//
//	updates that add up  [HandleMerged]   one payload for all     fails its job
//	                     with Fold        that wait
//
//	cheaper by the       [HandleBatch]    up to BatchSize ids     fails its id, if
//	dozen                                 with their payloads     [BatchErrors] name it, or
//	                                                              else when it is alone: the
//	                                                              batch is halved
//
// Equal payloads each count, unless QueueConfig.Merge says that one is enough.
//
// # Which lock is mine?
//
//	one at a time of     say                           a key is held
//	───────────────────────────────────────────────────────────────────────────────────
//	the jobs of an id    (it is so anyway)
//
//	all jobs of a queue  MaxConcurrent: 1              while the job runs
//
//	the jobs of a key,   [Unique] with a Key           while the job runs, whatever
//	in several queues                                  comes of it
//
//	equal payloads       [Unique] UniqueWhileRunning   the same
//
//	to wait until other  [Locks]: OnEnqueue or OnRun,  until the job has succeeded: in
//	jobs have succeeded  and Unlock, of those;         back-off and after its burial,
//	                     BlockedBy of the waiter       too
//
//	so many of a key,    [Limit], Concurrent           while its handler runs
//	in several queues
//
//	a number of its own  [Slots]                       while the job runs; its success
//	for each job                                       keeps the number
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
//     [QueueStats] counts it (Replaced), as it does what a person deletes, and dead
//     letters beyond a [MorgueRetention].
//  4. A bad job hurts only its own id, and with [Handle] a bad payload only those
//     behind it: what was done before it stays done, and its retries, its burial
//     and its reason are its own. Errors, panics and Goexit of a handler, a codec
//     or a hook are contained; Goexit in code that runs for a call, as Encode, a Key
//     or a [Middleware] around an enqueue do, ends the goroutine of its caller. A job that kills the process is given up after
//     Config.CrashLimit times, and every other job completes; after a kill from
//     outside what was running runs again at once, unless it was running at the one
//     before, too.
//  5. No polling for jobs inside the executor. A job that can run, runs: a due
//     time, an unlock, a slot that comes back or a free worker wakes it directly.
//     What can't tell is asked: a Locks.Service that is no [lock.Watcher] every
//     second, and a full disk ten times a second; executor/cron looks at the clock
//     once a minute. A due time may do so a little later if Config.TimerSlack says
//     so, never earlier.
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
// instead, with the names of all in it. [Executor.Explain] says what a job waits
// for.
//
// A caller who can't know whether a payload was accepted, because the process died
// or the outcome was unknown, repeats the call: with [IdempotencyKey] the payload
// is accepted once all the same, and with [FromSource] what comes from a numbered
// source is. Both are written down in the commit of the payload.
//
// # The backlog
//
// MaxBacklog and MaxBacklogBytes, of [Config] over all queues and of [QueueConfig]
// for one, bound what is accepted and not over. A payload counts once, from the
// call of Enqueue to its end: done, discarded, merged, or in the morgue, also by
// [Cancel]. That it runs, is retried, put off or halted, or comes through a
// restart, makes no difference.
//
// The limits are for calls from outside. What is enqueued with the context of a
// handler is counted and let in, because the job that does so may be what the
// backlog waits for: work in hand can end, however the queues feed each other. So
// the limit plus what handlers enqueue is the bound, and calls from outside come in
// again when it is below the limit. Handlers that enqueue more than one payload for
// each that ends make a backlog grow, with a limit as without one.
//
// A call that finds no room gets a [FullError], with a hint when to come back, or
// waits under [OverflowWait]: in the order of the calls, and for its own limits
// only. A backlog that is full is no trouble: work goes on, and Err is nil, so that a
// probe says ready beside calls that are refused. When nothing has ended for a minute
// although calls were refused or wait, Err returns [ErrStalled], and one line in the log
// says so.
//
// # One order over several kinds
//
// Queues with the same QueueConfig.SharedLanes have one order for each id: created,
// paid and canceled of an order run in the order in which they were accepted, one at
// a time, each with the payload type and the handler of its queue.
//
//   - A payload waits until those that were accepted before it, for its id and in
//     any of these queues, have ended: while they are put off, retried, held back or
//     halted, too. It takes no worker meanwhile and spends no retry; Explain says
//     what it comes after. A payload that is buried, merged, discarded or cancelled
//     has ended, and those behind it go on; Halt keeps them.
//   - Retries, merging, limits, Weight and the morgue are each queue's own. What comes
//     back from the morgue has its old place before what waits, unless that runs.
//   - Inside a queue its scores count: the queue of the earliest payload is next, with
//     the one of its own that has the lowest score.
//   - Jobs of a queue that is not registered hold up no other: register all queues of
//     the lanes in each process. The journal knows no lanes: they may be named anew,
//     or given up, from one start to the next.
//   - A job that waits for its turn and a lock may wait for each other: what has to
//     be unlocked by a later payload of the same lanes is not found out as a cycle.
//
// A payload that waits takes about 100 bytes more than in a queue of its own, and
// jobs of such queues come to a worker one at a time.
//
// # Awaiting
//
// [HandleResult] and [HandleMergedResult] register handlers that return a result
// beside their error, and [Caller.Do] is a call to one: it enqueues a payload, which
// has its place in the order of its id, and returns what the handler returned for it,
// or how else the payload ended. Callers whose payloads run together, or were merged
// into one, share its result. [Queue.Wait] waits for the end of any payload by its
// [Receipt], without a result, and in a later process, too.
//
// An end counts when it is on disk, under [DurabilitySync], which on a full disk is when
// there is room for it: what a caller was told is done does not run again after a crash. Results are in memory, and only while
// somebody waits. The end of a caller's ctx ends its wait alone: the payload goes on,
// and the handler has a context of its own.
//
// A handler may wait for other payloads, and keeps its worker meanwhile. One that
// would wait for a payload of its own id, for one whose handler waits for it, over
// any number of others, or while those of all other workers wait, too, gets
// [ErrDeadlock]. What is not seen are waits over locks, slots and limits, such as
// MaxConcurrent, and over channels of the program's own: ctx or QueueConfig.Timeout
// ends those.
//
// # What operators do
//
// What a person sees in an executor that runs, a person can act on, by the names of
// queues, whatever their payload types: [Executor.Inspect] returns the [Inspector].
//
//	pause, resume         the executor, a queue, single ids; see [Executor.Pause]
//	run now               [Inspector.RunNow]; it overrides no pause, lock or limit, and
//	                      gives back the retries: [Inspector.RetryNow] does not
//	cancel                to the morgue: what waits, and what runs when its handler returns
//	delete                for good, and what it has locked is unlocked
//	kill, delete failed   the same for what waits for a retry, or is halted
//	requeue               from the morgue to its old place
//	delete the dead       by hand, or by QueueConfig.MorgueRetention
//
// Each is about a [Selection]: ids, payloads, what a filter picks, or a whole queue.
// It says how many it has affected, which are on disk then unless it has failed, and
// visits shards for a hundred or two jobs at a time, between which others go on; to end the payloads of
// one id is one visit, however many they are. What is accepted after the call is not
// meant.
//
// A pause survives a restart and a crash. It stops runs only: payloads are
// accepted, schedules fire, clocks go on, and what is due waits, so that Lag and Age grow. A
// shard that is paused asks for no worker and sets no timer, and an id that is paused
// is parked. What it has locked when it was enqueued stays locked; a turn in the line
// of a key that comes to it goes to the next one, and it asks again when it goes on.
//
// A handler hears of a Cancel or Delete by the end of its context, with a cause of its
// own: [ErrCanceledByOperator], [ErrDeletedByOperator]. One that goes on all the same
// holds up its id, as after a timeout. A process that dies before it has returned has
// not canceled anything: the job runs again.
//
// # Limits
//
// A [Limit] bounds, for each key that a queue computes from a payload, how many jobs
// run at a time and how many start in a span of time: a customer, a host, or one for
// all. [NewLimit] makes it, QueueConfig.Limits says which jobs run under it, and it
// may be shared. MaxConcurrent bounds a queue without keys, and costs less.
//
//   - No key has more jobs running than Concurrent says, and in no span as long as
//     Per do more than Rate + Burst − 1 of them start. While jobs of a key wait, no
//     more than 1 % fewer start, as far as there are workers for them.
//   - A job that has to wait is parked: it keeps its place in its id, takes no
//     worker, spends no retry, and is woken when it may run, by the job that ends or
//     by one timer over all keys. It holds nothing of any limit, and no lock,
//     meanwhile; it takes all that it needs in one step, after its locks and slots.
//     So limits can't make jobs wait for each other in a circle.
//   - Jobs of a queue begin in the order in which workers came to them, queues that
//     wait for one key in turns: one with little to do hardly waits for the flood of
//     another. One that is called and not there within 10 ms, because the workers
//     are busy, lets the next one go before it, and keeps its number.
//   - What changes a limit, [Limit.Set], [Limit.SetKey] and [Limit.Pause], holds for
//     what waits already. A handler that was told to come back later returns
//     [Throttled]: that pauses its key, spends no retry, and leaves other keys alone.
//   - Keys that are not in use are forgotten. A restart forgets all: pauses, changes
//     and starts. The job itself that was throttled waits all the same.
//
// A job with several limits runs when all of them let it: where each has more than
// enough to do with other queues, that may take long.
//
// # Follow-ups
//
// What a handler stages on its job with [Queue.FollowUp], for any queue of the same
// executor, is in the commit that ends the job, if the handler returns nil: both are on
// disk, or neither. So each step of a chain is accepted exactly as often as the one
// before it has ended, without a key, whatever dies in between; that a handler runs
// again does not double what follows it. It is so with all shapes, durabilities and in
// memory:
//
//   - With [Handle] a follow-up belongs to its payload, also when several payloads of
//     an id run one after the other.
//   - With [HandleBatch] it belongs to the job of the batch that it was staged on, and
//     is dropped if that one fails. When the batch is halved, the last call counts.
//   - When a [Middleware] calls next again, the last call counts, whatever came of
//     those before it.
//   - After every outcome but success it is dropped: an error, [PayloadErrors] for any
//     payload, [Cancel], [Discard], [Snooze], a panic, and an interruption by Stop.
//
// It is accepted when the end of its job comes to the journal, behind all that was
// accepted for its id until then, and counts in the backlog from then on. With Locks.OnEnqueue it locks its keys after
// what its job unlocks and before another job can come between. On a disk that is full
// it takes a part of the room that is kept for results; a job whose follow-ups find none
// for 100 ms has not succeeded, and is tried again as one that returned a [FullError],
// at no retry: it waits together with them. A disk that is full of jobs with large
// follow-ups, and of little else, may stand like that until there is room: what ended
// beside live entries leaves the file late. What is staged for a success and found room,
// although the disk has none when it comes to be written, waits there, in order, with
// the results behind it.
//
// A follow-up inherits the [Metadata] of its job, so that a trace goes through a chain,
// unless it says otherwise. Give it an id of its own unless it is to wait for its turn
// behind what else there is for the job's id.
//
// Enqueue in a handler is for what is to be accepted whatever becomes of the job, and
// again when the handler runs again.
//
// # Which payloads become one run
//
// What waits for an id is one job, and QueueConfig says how payloads gather in it:
// Merge which of several equal ones stays; [Debounce] that it waits until no more
// come, with a bound; Throttle that it rests between two runs; FreshDue that a
// fresh payload pulls it to an earlier due time, or pushes it to a later one;
// OnFresh the same for one that waits for a retry; Fold that payloads are made one.
// All of it is decided in the order of acceptance, and by what is in the journal, over
// restarts, too: a run that a crash or Stop interrupts is as if it had not begun, with
// all that came meanwhile. When a person removes payloads, the others of the id stay
// due when they were, and begin anew where those that had failed are gone. [IfAbsent]
// refuses a payload while another one of its id waits, and says which.
//
// # The newest state
//
// A queue of [HandleLatest], and any other with Merge [MergeSupersede], keeps the newest
// payload of an id: the one with the highest score, say the version of a row, and of equal
// scores, or without, the one that was accepted last. Give all payloads of an id a score,
// or none. The others are superseded: they end as merged into the newer one, whatever their
// bytes, and [QueueStats] counts them (Superseded, of Merged).
//
//   - A newer payload takes the place of the one that waits, is snoozed, is retried or is
//     halted, as a new job: with all retries, without Failures, and with its own due time.
//     When that is over it keeps the place in line of the one before, so that an id which
//     changes all the time has its turn.
//   - While one runs, the newest waits behind it. One that is not done, because it fails,
//     is snoozed, cancelled, interrupted or out of retries, gives way to that: it is not
//     tried again, and leaves no dead letter. A failure counts as one all the same, and
//     RetriesExhausted is called if it was the last.
//   - What is older than the one that waits or runs, or with scores than the newest that was
//     done or discarded, is superseded as it arrives: Receipt.MergedInto is the newer one,
//     which may be over. For that an id with scores keeps its last version, over restarts:
//     about 150 bytes of memory, and 50 and the id on disk, as long as the journal lives.
//     Ids without scores leave no trace. What a person has deleted, and a dead letter, is no
//     version that was done.
//   - An id has one dead letter at most. It is superseded, and gone, when a newer payload of
//     its id is accepted (SupersededDead), in the commit after that one and before the newer
//     one can end; so a crash leaves one of the two. After a restart that holds as soon as
//     the queue is registered: that reads its dead letters, and keeps about 100 bytes for
//     each. [Queue.Requeue] puts no older payload over a newer one.
//   - So what waits is one payload of an id, and as much counts in the backlog. A call that
//     MaxBacklog has no room for is refused or waits as any other, also if it would
//     supersede: whether it does is known when it has its place in the journal.
//   - [Queue.Wait] and [Caller.Do] of one that is superseded wait for the newer one, whose
//     result all of them share. If that had ended before, Wait says how: nil if it is done;
//     Do returns ErrNoResult.
//   - Follow-ups of a job that gave way are dropped, as those of each that does not
//     succeed. A follow-up into such a queue supersedes as any other payload.
//   - Under [Debounce] a newer payload puts the job off, and MaxWait counts from the first
//     of those that took each other's place; after a retry or a snooze it counts anew. Under
//     Throttle it waits for the end of the rest. OnFailure, OnFresh, FreshDue and Fold make
//     no sense with it, and are ErrConfig; MaxPayloads is 1.
//   - What a superseded payload had locked is unlocked, by its enqueue and by its runs; a
//     job that waits for a lock, a slot or a limit is asked again with the newer payload,
//     which may not need it. A lease and slots are the job's, so the newer one goes on with
//     those. In lanes that queues share it has left its place, and the newer one has its own.
//   - [IfAbsent] and [IdempotencyKey] come before it: a call that they answer supersedes
//     no payload. Under MemoryBudget no payload is read to compare it.
//
// # Folding
//
// With QueueConfig.Fold the handler gets one payload for all that wait for an id: a
// function of the program makes one of two, so that a million updates of a counter, or
// of a document, are one, and take the room of one. They are accepted, and on disk, as
// they came.
//
//   - What waits is folded in the order of acceptance, whatever the scores, each payload
//     once. A crash between any two commits leaves that as it was: what was accepted is
//     in what waits, or over, and in no other place.
//   - The function is called by the worker that runs the job, before the handler. When
//     256 payloads more than after the last time wait for an id, and twice the bytes
//     that were left then, they are folded while they wait, on goroutines of the queue,
//     and written down as one, with the ends of the others in the same commit. So an
//     update of u bytes costs at most about 1.5 u on disk, however large what it goes
//     into is. What waits for an id is bounded by twice the bytes of the one payload,
//     by what one commit brings, which under DurabilityAsync may be MiB, and by some
//     thousands of payloads: calls to Enqueue for an id wait, for a second at most,
//     when more than 2048 have come while what waits for it is folded.
//   - The one payload has position, score, due time, age and metadata of the first: so
//     it is due when that is, as without Fold. The others have ended as merged into it
//     when it is written down, or is over: [QueueStats] counts them (Replaced),
//     EventMerged tells it, and who waits for them waits for it; a Wait that begins
//     later takes them for done. Receipt.MergedInto is 0, because that is decided
//     later.
//   - What runs is left alone. After a failure or a snooze, payloads come back before
//     what came meanwhile, and are one with it; under [OnFailureBlock] they stay by
//     themselves. After the last retry, and after [Cancel], what the handler got is one
//     dead payload, which comes back as that, to its place. One that the codec refuses is
//     buried alone, and a job that Config.CrashLimit gives up as the payloads that were
//     accepted.
//   - Payloads that do not go together run one after the other, each with all behind it
//     that goes with it: an error of the function, a panic, Goexit, or too large a result
//     loses none of them, and no call is refused for it. A function that does not return holds up
//     the id as a handler would; Timeout counts it.
//   - Locks, Unique and Limits see the one payload. On a disk that is short of room
//     payloads are folded when they run only.
//
// The position of a folded payload is no key for an idempotent handler: when it runs
// again, more may have become a part of it.
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
// # What a handler knows, and says
//
// A [Job], and a [Merged], says which attempt it is, what the last failures were,
// and since when the payload has been waiting; it carries what its producer gave it
// as [Metadata], a trace context for example; and its Logger names it. A dead
// letter in [Queue.Morgue] has the same.
//
// A handler answers with the error that it returns: nil is done, [Cancel],
// [Discard], [Snooze], [Throttled] and [RetryAfter] are wishes, and another error is a
// failure, which spends a retry. [Fatal] around any of them ends the executor in order,
// too. What stands around handlers, for metrics say, can tell
// them apart with errors.As: they are a *[CancelError], a *[DiscardError], a
// *[SnoozeError], a *[ThrottledError], a *[RetryError] and a *[FatalError], wrapped or not.
//
// # Middleware
//
// A [Middleware] stands around the calls of handlers, around the calls that
// enqueue, or around both. There is one list, the first of it outermost: what
// Config.Middleware has is outside of what QueueConfig.Middleware has.
//
//	Config.Middleware[0] ( Config.Middleware[1] ( QueueConfig.Middleware[0] ( handler ) ) )
//
// A [Run] is one call of a handler, with its jobs, their payloads and Metadata; of a
// batch that is halved each half is one. A payload that does not decode is not run,
// so no middleware hears of it: [Executor.Events] does. What the outermost one
// returns is what the handler is taken to have returned, a panic included: also
// after the handler has succeeded the jobs have failed then, and run again. A
// middleware is under the Timeout of its queue, and one that blocks is stuck, as a
// handler is. One that calls next again makes a retry that is not counted, and drops
// what the call before has staged; next
// runs no two of them at a time, and is over when the middleware is, which waits
// for a call that goes on.
//
// Around an enqueue it is the other way: what has happened can't be taken back, so
// the caller is told what is true. A middleware may refuse before next, and may
// change Metadata, due time and score; after the commit of next its error is logged
// and the receipts are returned. One that blocks holds its caller only.
//
// # Events
//
// [Executor.Events] yields what happens to jobs, from a ring in memory that no
// reader holds up: who is too slow is told how many events were overwritten. An
// [Event.Token] lets a reader go on where it was. While there is no reader there is
// no ring, and one atomic load for each call of a handler is what is left of it;
// with one, an event costs about 0.2 µs, clock and reader included. When the last
// reader has gone, the ring stays for as many events as it holds. Filters for
// queues and kinds are where the events come from: what no reader wants is not
// made.
//
// Events of one id of a queue are in the order in which they happened; those of
// different ids are in an order that agrees with it. EventAccepted is told after the
// commit, and before the payload can run. All others are told when they are decided
// and on their way to the journal, within a few milliseconds: who must know that
// something is on disk asks [Queue.Morgue], or waits for what comes of it.
//
// So the feed is no audit log: the ring has an end, and a crash takes it along. A log that
// lasts is made where the work is. What has succeeded is a [Queue.FollowUp] to a queue that
// writes the log: it is on disk if and only if the end of its job is, once for each.
// What each call of a handler returned, failures included, a [Middleware] sees, which may
// enqueue a line to such a queue, with an id for each job if lines are to be in order: that
// is on disk before the outcome is, and there again if a crash comes between. What a person
// does is in the feed alone: write it down where it is called.
//
// # Progress and heartbeats
//
// A long handler may say how far it is, with [Progress]: people see it, and events
// tell it. That is a sign of life, too, as is [Heartbeat]: with
// QueueConfig.HeartbeatTimeout the context of a handler that gives none ends, with
// [ErrNoHeartbeat]. So a handler may take hours, and one that hangs is found out in
// a minute, which a Timeout can't have both of. What is said is in memory only, and
// gone when the handler has returned.
//
// # Contexts
//
// The context of a call is for that call: it bounds how long Enqueue, Stop and the
// like wait. That of [Executor.Start] gives its values to all handlers, a logger or
// a tracer for example, and its end means no more once Start has returned.
// [Executor.Run] is Start that stops when its context ends: it stops granting
// workers, and gives the handlers that run Config.StopTimeout before it ends their
// contexts with [ErrStopping]. What is enqueued with the context of a handler
// counts as a follow-up: see The backlog.
//
// # Looking inside
//
// [Executor.Inspect] shows what is in a running executor, by the names of queues and
// whatever their payload types:
//
//	Jobs      the jobs of a queue, by state and filter, in pages: by id, due time,
//	          attempt or payloads, both ways, or as they come
//	Job       one id: its payloads, decoded by the codec of the queue, what it
//	          holds, why it does not run, and its dead payloads; JobsByID, several
//	Running   what workers have in hand, since when, and on demand the stacks
//	Dead      the morgue of a queue, in pages: by position, id or time of death
//	Queues    the figures of queues, and of their shards
//	Slots     who has which; LockedKeys and Leases say so of keys, in pages
//
// A page is the first rows behind the last one of the page before, so that what is
// there all the time is on one page and no other, however much comes and goes
// meanwhile. A row is what it was when the list came by: there is no moment of which
// all rows are.
//
// What is returned can be written as JSON, under the names of the fields: durations are
// nanoseconds, as all of type time.Duration, times are those of RFC 3339, "0001-01-01…"
// where there is none, bytes base64, and constants words, such as "parked" or "KeepLast".
// Queries and filters can be read from it, too. The HTTP API of executor/dashboard and the
// strand command have forms of their own.
//
// Who looks does not disturb who works. What a call does on a shard takes some tens
// of microseconds at a time; all else happens on the goroutine of the caller. While
// there is work, all who look together get a fiftieth of each processor, or half of
// what lies idle, so that pages of long queues come later instead of jobs; those with a
// Patience come in time, with a part. What is returned is bounded:
// rows, and the bytes of ids, errors, payloads and stacks in them. A disk that does
// not give something back to one who looks fails that call, and not the executor.
//
// # Looking from outside
//
// With Config.ControlSocket the executor listens on a unix socket in the journal's
// directory, control.sock, from Open until Stop has waited for the handlers. The strand
// command finds it there when the journal is in use: the verbs that look at a stopped
// journal print the same of a running one, and others act on it, through what Inspect
// returns.
//
//   - It is for the user of the process, and for root: its mode is 0600 before it has its
//     name. A directory that every user may write to gets none.
//   - The socket of a process that died is replaced by the next one; what is no socket, or
//     answers, is left alone, there and in control.new, where the socket is made, and Open
//     returns [ErrControlSocket].
//   - Who talks over it is bounded: 64 connections, 64 MiB of answers that are made or on
//     their way, 8 actions, 2 copies and 8 readers of events at a time, requests of a MiB.
//     Looks, actions, copies and events each have room of their own. A call for which there
//     is none waits, for 8 seconds at most. A reader that takes nothing for 5 seconds is cut
//     off; a connection that says half of something is closed after five seconds, and
//     sooner when others come. Stop waits for none of them.
//   - The command and the process may be of different versions: what an older process
//     does not know, it refuses.
//   - Without it there is no socket, no goroutine, and no look for one.
//
// # The log
//
// What no call returns goes to Config.Logger, the same thing by the same key in all
// packages:
//
//	queue, id                     the job
//	attempt                       of it, from 1
//	position                      of the payload, or of the first one
//	payloads                      how many the line is about
//	jobs, suspects, stuck         queue/id of some: in hand, suspected, left behind
//	error                         what went wrong
//	panic, stack, hook            what a function panicked with, where, and its name
//	left_out                      lines like this that were not written since the last
//	dir, file, mode               of a journal, or a copy; its permissions
//	pid, host, since              the process that has the journal, and since when
//	recovered, cause              whether the process before died, and of what
//	running_then                  jobs that ran when it did
//	run_again_at_once             of them, that are not suspected
//	workers, queues               how many there are
//	waiting, unclaimed, halted    payloads; those of no queue; jobs
//	done, failed                  as in QueueStats, of all queues, in this run; of a move
//	buried, discarded             the same
//	took, ran_for, after          a start or stop; the executor; a handler, so far
//	journal                       what a stop with stuck handlers means for it
//	schedule, tick                of a Cron, and the time it was due
//	ticks, oldest, newest, more   how many were missed, from when to when; more than that
//	member                        of the group of a Cron, that leads
//	verb, scope, affected, from   an action of the dashboard, how many, the client
//	user, reason, key, cron       of an action: who, why, what it was about
//	selected, states              of an action: how many rows, jobs in which states
//	prefix, containing            of an action: what it picked ids and errors by
//	path                          of a request to the dashboard
//	lib, actor                    where an actor failed
//	partition, epoch, node        of journal/postgres: of what, its owner's, and which one
//	number, rows                  of its inbox: a row, or how many
//
// # Testing
//
// A handler is a function, and a [Job] a plain struct: most tests need no executor.
//
//	err := deliver(ctx, executor.Job[Order]{ID: "order-42", Payload: order, Attempt: 3})
//
// With an executor: package executor/executortest opens a real one, on a disk in memory
// and on the clock of a bubble of testing/synctest, and runs its jobs when the test says
// so. Pauses of hours between retries, schedules of executor/cron and timeouts take as
// long as what happens in them; what was enqueued, what ran and what came of it can be
// asserted; the process may be killed, at every commit, and the disk be full or slow.
//
//	executortest.Run(t, service.Register, func(t *testing.T, x *executortest.Executor) {
//		_, err := orders.Enqueue(t.Context(), "order-42", order)
//		x.UntilEmpty()
//		x.RequireDone(orders, "order-42")
//	})
//
// TestThreeHours, in example_testing_test.go of this package, is such a test from
// beginning to end. Outside of a bubble, for handlers that use the network: [Open]
// without a directory keeps everything in memory, starts in a fraction of a millisecond,
// and behaves alike but for what outlives a process; [Queue.Wait] says when something has
// ended. [Executor.Copy] makes the image of a moment of one with a directory.
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
// What is exported here stays, and so do journals: a later version opens those of
// an earlier one. A few types of lower rooms have to be looked up: [lock.Decision],
// [lock.Service], [lock.Lease], [lock.ErrLockLost], [lock.Election] for
// executor/cron, and [journal.LockedError]. Other errors of package journal and of
// package lock that come through say what they mean themselves. Settings are
// structs whose zero value works, and may get fields; zero and below mean what
// [Config] says. Calls take options, and may get more. Attempts count from 1.
// Positions, scores and fences are plain numbers. Of the packages below executor,
// lock stays compatible except for its KeyLocks and what belongs to it; the others
// promise no compatibility.
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
// all jobs are within Config.MemoryBudget. Above it the oldest are on disk only,
// and are read back when their jobs run or something arrives for their ids. When
// the disk can't give them back unchanged, the executor fails with [ErrFailed], and
// no handler is called with anything else.
//
// # Time
//
// Due times are on the wall clock, because people mean it. When that clock is set
// while the executor runs, by a second or more, what was due stays due and the
// pause before a retry stays as long as it was; it takes a minute at most to
// notice. [At], [In] and [Snooze] name a moment on that clock. Timeouts are on the
// monotonic clock. A clock that was wrong in an earlier process can't be told from
// one that was right: what is due in more than 50 years is logged when its queue is
// registered.
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
//     Goexit is replaced; up to Config.SpareWorkers more in the place of stuck ones
//   - shards: actors, no goroutine while idle or while others do their work
//   - a queue that is registered: 1 for each processor, until its shards have taken
//     in what was pending
//   - the watchdog: none; it looks on a timer while a job with a timeout, or of
//     which signs of life are expected, runs
//   - the crash recorder: none; a timer whose pauses grow with the age of the
//     process, and one for the next turn of a suspect
//   - the backlog: none; a timer, once a call was refused or waits for room
//   - events: none; a reader is the loop of its caller
//   - a stop: 1, until it is over and the handlers it left behind have returned
//   - a failure, or a handler that returned [Fatal]: 1, until OnFatal has returned,
//     which Run waits for
//   - a crash recorder whose file was cut: 1, until that is logged; jobs go on
//     without it, and one that kills the process is not found out
//   - a disk that becomes full, or has room again: 1, until that is logged
//   - a call whose context ended while its payloads were on their way to the disk,
//     if they lock something or there is a limit of the backlog: 1, until the
//     outcome is known or the executor has stopped; so it is with a call whose dead
//     letters were on their way out of the morgue
//   - a watched key that was unlocked: 1, until the function of [KeyLocks.Watch]
//     has returned
//   - Fold: 1 for each call of it for a run, until that is over; for a queue up to 4
//     while what waits is folded, and one more for each that has been at it for a second
//   - retention of a morgue: 1 for a queue, while it deletes; one timer while what is
//     dead will be too old
//   - an Inspector.Job that has something to decode: 1, until the codec has returned
//   - locks: none; one timer for the lock that ends by itself next, one for each
//     lease and slot of a running job, and one for the leases that are to expire
//     next
//   - limits: none; one timer for the next job that may run
//
// No user code runs on a shard or under a lock; the methods of a context are user
// code, too. A call with one that is nil, or panics, returns [ErrContext].
package executor
