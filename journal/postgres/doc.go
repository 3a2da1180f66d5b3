// Package postgres keeps the journals of executors in PostgreSQL, so that several processes,
// on several machines, run the jobs of the same queues: with the same handlers, in order per
// id, durable. A program moves by one line, [Open] for executor.Open: the executor that it returns
// has the queues, calls, lists and actions of package executor, for the jobs of all nodes.
//
//	 any node                                 the owner of partition 3
//	┌──────────────────────┐                 ┌───────────────────────────────────────┐
//	│ Enqueue ─▶ outbox    │                 │ Enqueue ─▶ gate ─▶ executor ─▶ handler │
//	└──────────────┬───────┘                 │              ▲        │               │
//	  one flush for│all callers              │            intake    log              │
//	               ▼                         └──────────────▲────────┼───────────────┘
//	   inbox (rows by number) ───────────────────────────────┘        ▼ one transaction:
//	   lease, node (who owns what, by the server's clock)    tail · block · side · inbox rows
//
// # What is promised
//
//   - There is a number of partitions, which only [Repartition] changes, each of which is one journal with one owner at
//     a time: an executor on one of the nodes. Which partition an id belongs to is decided
//     by a hash of it, or of what [Config].Partition makes of it, on each node the same: Open
//     returns [ErrPartitions] to a program that differs, as far as some hundred ids show it.
//   - Any node enqueues for any partition. When a call has returned nil the payload is
//     committed, as durable as the server and its standby are: in the owner's log, or in
//     the inbox, from where the owner moves it to the log in the transaction that deletes it
//     there: once, whoever dies when. DurabilityAsync is the exception: see executor.Receipt.Durable.
//   - Calls that one caller makes one after the other keep their order for each id of a
//     queue, whichever nodes they go to, and whoever owns the partition meanwhile. One that
//     got executor.ErrUnknown is ahead of those after it, or is never accepted: the server refuses
//     a row whose commit begins after the deadline of its caller's context, by its own clock.
//   - A program writes into the schema that it has opened, or gets [ErrPartitions]: another one
//     under its name, or another version, refuses the write.
//   - A follow-up is accepted in the commit that ends its job, in the log or in the inbox of another
//     partition: once, whoever dies when, and in the order of the commits. No middleware is called for it.
//   - What EnqueueTx writes is there if and only if the caller's transaction commits.
//   - A partition's commit has to find the epoch of its owner's lease. Another owner's
//     makes the older one's commits change no row.
//   - An owner that can't renew its lease cancels the contexts of its handlers with the
//     cause [ErrLeaseLost] before the lease ends by the server's clock, and commits
//     nothing from then on: what was not settled runs again at the next owner.
//   - A node that is stopped gives each partition away as soon as its handlers have returned, and
//     answers calls for it until then; one that dies loses its partitions when its lease has ended.
//
// # What is not
//
//   - A process that was paused, or whose machine was, for longer than its lease may still be
//     inside of a handler when the next owner runs the same job. What the handler does elsewhere
//     has to be fenced there: [Token] is the number for it, and says how.
//   - A handler that goes on after its context has ended may overlap with the next owner's run, too: when its lease is
//     lost, or when Stop has no time left: then the lease is not given back, but ends by itself. While a node lives and
//     has the lease, the partition is nobody else's before such a handler has returned.
//   - Locks, unique keys, slots, idempotency keys and MaxBacklog are of one partition, and
//     Config.Partition keeps the ids of a tenant, say, in one. So are KeyLocks, Events and schedules:
//     Config.Setup and [Node.Partitions] have its executor. Workers, and limits of the executor of Open,
//     are of a node: its partitions share them. One with LimitConfig.Cluster is of all nodes: Concurrent holds
//     as leases do, Rate by its clock. The README has a table.
//   - A schedule of executor/cron is added for each partition, in Config.Setup, which says more.
//     Set Missed: by default, what is due while a partition moves is lost.
//   - A call with IfAbsent, IdempotencyKey or FromSource waits on each node until the owner has decided,
//     one such call after the other: some hundreds a second for a partition. Its items are of one
//     partition, or it is executor.ErrInvalidKey. A payload that was accepted in the inbox has no position
//     yet; its score, where none was given, and its EnqueuedAt are of when the owner takes it in.
//     Middlewares for enqueueing run on the owner, without the caller's context.
//   - A follow-up in its job's own partition is ahead of what waits in the inbox then, whoever was first.
//   - A server that is set back to an older copy, or followed by a standby that has less, is
//     noticed by the processes that have seen more of a partition: [ErrBehind]. Such a node gives that one up, and
//     takes no partition any longer: what it does not serve is for other processes, also for
//     those that start later and can't know. Nobody knows of rows of the inbox that are gone.
//   - A call on the owner's node waits for a server that does not answer as long as the lease
//     lasts. When it is lost the call is executor.ErrUnknown, if its commit was under way:
//     what had no answer may be there all the same, for the next owner to run. With
//     IdempotencyKey the same call may be made again, on any node. Without a key the payload may be there twice then. A call that goes into
//     the inbox waits on.
//   - A commit that has begun in time may wait for the server's disk, or its standby, until the
//     caller has gone. It ends with those that wait behind it then: a call that is made meanwhile
//     may be seen before it, if the owner looks in that very moment.
//   - The shares of nodes differ by one partition at most. A node that joins is given its own by
//     those that have them, and no handler is canceled for it: a partition moves as soon as none
//     of its handlers runs. If some do for Config.Executor.StopTimeout, 30 s by default, it begins
//     no job any longer, and moves when the last of them has returned: its other ids wait till
//     then, while calls for it are answered. Give handlers a Timeout. Only Stop, when its time is
//     over, and a lease that is lost cancel handlers.
//   - The result of a Do comes as JSON, for who waits. Without IdempotencyKey a Do whose owner goes away
//     may be executor.ErrUnknown, or ErrNoResult. Lists and Stats wait for a partition without an
//     owner until ctx ends, as a call does where the owner is of an earlier version.
//   - Queues are registered before Start. A handler that returns executor.Fatal ends its whole node.
//   - What goes through the inbox goes to the server twice, and back once. Leases are renewed on
//     connections of their own meanwhile, but where hundreds of MiB keep a machine, or the
//     server's disk, busy for most of a lease, it is lost, and what ran runs again: have a
//     longer Config.Lease then. A slow link is waited for as long as bytes move; within a commit of
//     several messages, for 3 s and another 3 for each 64 KiB of it.
//   - The inbox has no limit: MaxBacklog refuses, or keeps waiting, callers on the owner's node
//     only, and elsewhere what it has no room for waits in the inbox.
//   - Leases are by the server's clock. One that jumps forward ends them early: then handlers
//     may overlap as after a pause, but a commit is fenced by the epoch, not by time. One that
//     is set back accepts late what was under way to it, and keeps the leases of the dead for as long, if that is less than an hour; those
//     that seem to end later than any lease can are taken as ended. The time of day on nodes
//     may be wrong, and jump: what is due, EnqueuedAt, and the TTLs of key-locks are by the server's
//     clock. At and the like are set off by what that is ahead of the caller's; ticks of schedules are not.
//   - Two calls at a time have no order, nor has what is enqueued in a transaction before
//     that commits with what others enqueue meanwhile.
//   - The crash recorder, the control socket and compaction are of a journal on a disk of
//     its own. No job is suspected of having ended its process.
//   - In a deploy nodes of the old build may own what the new one enqueues. What comes for a queue that
//     they do not have waits there, in order: Err, [Stats] and the log tell of it. What their codec
//     refuses fails, and is retried: give the queue retries for as long as a deploy takes.
//   - What comes under a former name of a queue, see RenamedFrom, is taken in under its name, in order. An owner of
//     the old build runs what comes under the old name, and leaves what has come under the new one to the next owner
//     that knows it: so ids of such a queue are in order once no node has the old name.
//   - What the owner refuses although the caller's node did not, as a middleware or the key
//     functions of locks and limits may, stays in the inbox, as does a row for a queue that the
//     owner does not have: see [PartitionStats]. Neither keeps others waiting, but for the later rows
//     of a queue that is not registered.
//
// # Set-up
//
// [Migrate] makes the schema, once, and brings that of an earlier version up to date. Migrate first,
// and then deploy: nodes of versions 1 and 2 go on beside those of this one, and those of version 2
// may still be started. It locks the tables for a moment, a few seconds with a million state keys, once no
// transaction is open that has the inbox. [Open] checks the server, the schema and the number of
// partitions; executor.Handle and the like register queues, on all nodes the same; Run serves. A
// process that only enqueues, looks and acts does without Run. The connections must keep a session:
// the README says more, and how to operate nodes. NOTIFY is a hint; without it the inbox is looked
// at once a second.
//
// # Rights
//
// Nobody needs to be a superuser. Who calls Migrate, Import, Export, Repartition and Check owns the schema, or
// may create it. Other roles need what follows, and nothing else: nodes, programs that only
// enqueue, what has the transactions of EnqueueTx, and who looks ([Look]). For Stats a program that only enqueues
// needs SELECT of the table node, too. Functions may be executed by all, unless that
// is revoked; sequences need no right. What is missing is in the error, as the server says it:
// of Open, of the call, or of Err.
//
//	GRANT USAGE ON SCHEMA strand TO node;
//	GRANT SELECT, UPDATE (division, divider) ON strand.version TO node;
//	GRANT SELECT, UPDATE ON strand.lease TO node;
//	GRANT SELECT, INSERT, DELETE ON strand.block, strand.side TO node;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON strand.tail, strand.node, strand.inbox, strand.taken, strand.permit TO node;
//
//	GRANT USAGE ON SCHEMA strand TO caller;
//	GRANT SELECT, UPDATE (division, divider) ON strand.version TO caller;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON strand.inbox TO caller;
//	GRANT SELECT, UPDATE ON strand.taken TO caller;
//	GRANT SELECT ON strand.lease TO caller;
//
//	GRANT USAGE ON SCHEMA strand TO writer;
//	GRANT INSERT ON strand.inbox TO writer;
//
//	GRANT USAGE ON SCHEMA strand TO reader;
//	GRANT SELECT ON strand.version, strand.tail, strand.block, strand.side, strand.lease, strand.node, strand.inbox TO reader;
//
// # Moving in and out
//
// [Import] puts the journal of a process that has stopped into partitions that were not used, and
// [Export] writes partitions as journals, while no node is up. [Repartition] makes another number of them. [Check]
// reads and checks all partitions, and [Look] shows them, also while nodes are at work. The command cmd/strand-postgres
// does these, and Migrate.
//
// # Goroutines
//
//	node     leases (renews, decides), listener, notifier, housekeeper, and one that flushes
//	         the outbox while there is something in it, and one that logs
//	owned    for each partition: its life (take, open, serve, step down), and the intake
//	         beside those of its executor
package postgres
