// Package postgres keeps the journals of executors in PostgreSQL, so that several processes,
// on several machines, run the jobs of the same queues: with the same handlers, in order per
// id, durable.
//
//	 any node                                 the owner of partition 3
//	┌──────────────────────┐                 ┌───────────────────────────────────────┐
//	│ Enqueue ─▶ outbox    │                 │ Enqueue ─▶ gate ─▶ executor ─▶ handler │
//	└──────────────┬───────┘                 │              ▲        │               │
//	  one flush for│all callers              │            intake    log              │
//	               ▼                         └──────────────▲────────┼───────────────┘
//	   inbox (rows by number) ───────────────────────────────┘        ▼ one transaction:
//	   lease, node (who owns what, by the server's clock)    tail · block · side · inbox row gone
//
// # What is promised
//
//   - There is a fixed number of partitions, each of which is one journal with one owner at
//     a time: an executor on one of the nodes. Which partition an id belongs to is decided
//     by a hash of it, or of what [Config].Partition makes of it, on each node the same.
//   - Any node enqueues for any partition. When a call has returned nil the payload is
//     committed, as durable as the server and its standby are: in the owner's log, or in
//     the inbox, from where the owner moves it to the log in the transaction that deletes
//     it there. It is taken in once, whoever dies when. DurabilityAsync, where it is asked
//     for, is the exception: see Receipt.Durable.
//   - Calls that one caller makes one after the other keep their order for each id of a
//     queue, whichever nodes they go to, and whoever owns the partition meanwhile.
//   - What EnqueueTx writes is there if and only if the caller's transaction commits.
//   - A partition's commit has to find the epoch of its owner's lease. Another owner's
//     makes the older one's commits change no row: he gets [ErrFenced].
//   - An owner that can't renew its lease cancels the contexts of its handlers with the
//     cause [ErrLeaseLost] before the lease ends by the server's clock, and commits
//     nothing from then on: what was not settled runs again at the next owner.
//   - A node that is stopped drains its handlers and gives each partition away as soon as
//     that is done; one that dies loses its partitions when its lease has ended.
//
// # What is not
//
//   - A process that was paused for longer than its lease may still be inside of a handler
//     when the next owner runs the same job. What the handler does elsewhere has to be
//     fenced there: see executor.Job.Lease, whose token grows over takeovers, too. There is
//     a token with QueueConfig.Unique only; without that it is 0 and fences nothing.
//   - Locks, unique keys, slots, limits, idempotency keys and schedules hold within a partition.
//     Config.Partition keeps the ids of a tenant, say, in one. Workers, MaxBacklog and
//     the like of Config.Executor are of one partition, too.
//   - IfAbsent, IdempotencyKey and FromSource need the answer of the owner: elsewhere they
//     get [ErrRemote]. A payload that was accepted in the inbox has no position yet; its
//     score, where none was given, and its EnqueuedAt are of when the owner takes it in.
//     Middlewares for enqueueing run on the owner, without the caller's context.
//   - A follow-up goes to the same partition, or it is refused.
//   - A call on the owner's node waits for a server that does not answer as long as the lease
//     lasts. When it is lost the call is executor.ErrUnknown, if its commit was under way:
//     what had no answer may be there all the same, for the next owner to run. A call that
//     goes into the inbox waits on.
//   - A node that joins is given partitions by those that have them: each one steps down, begins
//     no job of such a partition, and waits for its handlers up to Config.Executor.StopTimeout,
//     30 s by default. Then they are cancelled with executor.ErrStopping, and run again
//     elsewhere. Until the last of them has returned the other ids of that partition wait, too.
//     Set StopTimeout to what most handlers take, have long ones heed their contexts, and have
//     more partitions than nodes, so that fewer ids wait for each.
//   - HandleResult, Do, Wait, Morgue, Requeue and Pause have no form for all nodes: those of
//     package executor work on one partition of this node, by way of [Node.Partitions].
//   - The inbox has no limit: MaxBacklog refuses, or keeps waiting, callers on the owner's node
//     only, and elsewhere what it has no room for waits in the inbox.
//   - Leases are by the server's clock. One that jumps forward ends them early: then handlers
//     may overlap as after a pause, but a commit is fenced by the epoch, not by time. One that
//     is set back keeps the leases of the dead for as long, if that is less than an hour; those
//     that seem to end later than any lease can are taken as ended.
//   - The source "inbox" of each executor is this package's own, for FromSource.
//   - Two calls at a time have no order, nor has what is enqueued in a transaction before
//     that commits with what others enqueue meanwhile.
//   - The crash recorder, the control socket and compaction are of a journal on a disk of
//     its own. No job is suspected of having ended its process.
//   - What the owner refuses although the caller's node did not, as a middleware or the key
//     functions of locks may, stays in the inbox, as does a row for a queue that the
//     owner does not have: see [Stats]. What was refused has its reason in the column refused
//     of the table inbox; set to null, it is tried again. Neither keeps others
//     waiting, but for the later rows of a queue that is not registered.
//
// # Set-up
//
// [Migrate] makes the schema, once. [Open] checks the server, the schema and the number of
// partitions; [Handle], [HandleMerged] and [HandleBatch] register queues as those of package
// executor do, on all nodes the same; [Node.Run] serves. A process that only enqueues does
// without Run.
//
// The connections must keep a session: no pooler in transaction mode. NOTIFY is a hint;
// without it the inbox is looked at once a second.
//
// # Moving in and out
//
// [Import] puts the journal of a process that has stopped into partitions that were not used,
// and [Export] writes partitions as journals, while no node is up. Positions, order, states,
// the morgue and state keys are kept, and both sides are read again and compared before
// either is done. What can't be divided among partitions, as slots, is refused. [Check] reads
// and checks all partitions. The command cmd/strand-postgres does these, and Migrate.
//
// # Goroutines
//
//	node     leases (renews, decides), listener, notifier, housekeeper, and one that flushes
//	         the outbox while there is something in it
//	owned    for each partition: its life (take, open, serve, step down), and the intake
//	         beside those of its executor
package postgres
