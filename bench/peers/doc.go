// Peers measures Strand beside what people would take instead, on the machine
// it runs on.
//
//	go run -C bench/peers . [-run REGEXP] [-quick] [-dir DIR] [-json]
//	go run -C bench/peers . -postgres
//
// It is a module of its own, so that programs that use Strand do not get the
// requirements of its rivals.
//
// # What is the same for all
//
//   - A job is an id and a payload of 100 bytes. A handler does nothing, or
//     sleeps for 1 ms for each payload, and for no more: a thread sees to it that
//     timers run out in time, which Go rounds up to milliseconds while it is idle.
//   - 1, 1000 or 100,000 ids. All jobs of an id are enqueued by one goroutine,
//     one after the other, so their order is defined.
//   - Every case runs in a new process with an empty directory, and with a new
//     server where there is one: memory and files are those of the case.
//   - A first try finds out how many jobs fill the time, and these are measured,
//     after some that warm up. So a slow peer runs fewer jobs, and what is
//     compared is the rate. What takes four times as long is cut short, and the
//     rate is that of the jobs that have run.
//   - Throughput is from the first handler to the last one, or from the first
//     producer to the last one, if that is longer. How long it takes
//     until the first one runs is the idle latency, measured by itself, so that
//     it does not count against those that poll. That the result of the last
//     jobs may not be on disk yet does not count against any of them either.
//   - "Produce, then drain" has handlers wait at a gate until everything is
//     enqueued; those that wait there by then don't count. It is left out for
//     what can't hold a backlog.
//   - Each peer enqueues in its own best way: 1000 jobs in a call where it has
//     such a call, from two goroutines; else one by one, from as many goroutines
//     as help. Where it has both, one per call is measured, too.
//
// # What is measured how often
//
// Every case is measured in three rounds: in each of them all cases have their
// turn, and in each case all peers, beside Strand. Then follow rounds of those
// whose ratio is not steady: the standard error of its median is above 3 %, as
// far as its quartiles say. It ends after nine rounds, or when time is up. A
// figure is the median of its rounds, a ratio to Strand the median of those of
// single rounds. Latencies of all rounds are put together, and a quantile is told
// where at least ten of them are above it.
//
// What fails twice is not asked a third time, what hangs is ended, and a report
// is written after every case: nothing that was measured is lost.
//
// # When two reports agree
//
// -compare A,B prints each ratio of A that is more than 15 % away from that of B,
// with the lowest and the highest round of both, and then ends with status 1. A
// few figures are near zero, like the wake-ups of an idle process; their ratio
// says nothing. They have a slack in their own unit, 2 wake-ups per second and
// half a millisecond of processor time, by which they may differ.
//
// # What is checked
//
// Each handler call is checked against those before. An order violation is a
// job that begins after a later one of its id; an overlap is one that begins
// while another one of its id runs. They are counted, for Strand as for all. A
// job that runs with the id or the payload of another one is an error.
//
// # On PostgreSQL
//
// With -postgres it is Strand with its journals there, beside River on a server like
// it: the same version with the same settings, its defaults, new for each case, with
// 32 connections for River, as many for the transactions of Strand's user, and Strand's
// own default of 10 for each node. The callers are as many for all. What a job costs is
// read before the last try, once all jobs before it are on record as done, and after it,
// when that is so of its own: if they don't get there, the case fails. On the server these
// are transactions that have written, bytes of the WAL, and the processor time of all its
// processes, a standby's, too; on the way, bytes and packets of this process's
// connections, as its system counts them. There is no proxy in the way.
//
// In the idle latency a commit of one row on the same server has its turn after each job.
//
// # What is not the same
//
// Durability: peers are only to be compared with those that promise the same,
// which is why it stands beside each figure. And what a job is: one of a pool is
// a closure without id, order, retry or record, which ends with the process.
//
// River comes in version 0.31 with both databases: that is the newest of its
// SQLite driver in the Go module proxy used here, and one program holds one
// version. Of the keyed libraries in memory (go-keylane, gorder, map-chan,
// go-sticky-worker-pool) and of goqite no module could be had; they are
// skipped. Channels by hand and a pool per shard are the same idea.
package main
