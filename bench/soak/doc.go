// Soak repeats the proofs that what was accepted survives, and prints what it
// counted.
//
//	go run ./bench/soak                          as often as a push does
//	go run ./bench/soak -run kill -for 10m       one proof, for ten minutes
//	STRAND_LONG=1 go test -timeout 0 ./bench/soak
//
// The tests of this package run the same proofs, short or, with STRAND_LONG=1,
// long. A broken promise ends its proof: the report says which one, names the
// seed, gives the command that repeats the trial and leaves the journal where
// it is. A seed repeats the settings, the calls and the moments; what the
// scheduler makes of them it can't repeat, so a rare find may take some turns.
//
// # The proofs
//
//   - kill: processes are killed within 200 ms under load and the journal is
//     opened again with other settings, until one drains it. Calls have keys and
//     are made again, events of numbered sources go on at their marks, jobs are
//     merged while they are parked. One queue handles its events one by one: they
//     fail, some for good, snooze, are cancelled and discarded, each by itself. In
//     another, payloads of one run fare differently, and batches fail without saying
//     whose fault it is. In some lives the workers are busier than the jobs: runs are
//     long, with a slow job among the fast ones. In others few workers have tens of
//     thousands of ids.
//   - image: a run is recorded call by call, the power is lost at a random
//     one, and of what no sync of its own file had covered each call arrives, gets lost or
//     is torn in sectors of 512 bytes. Names are lost like bytes. Two of three lives go on
//     with what a loss of power has left. Some images are first read, or salvaged, as they lie there.
//   - syscall: each call on the files of a journal fails once, or kills, in a life on a
//     new journal, or on one whose owner was killed. The
//     kernel asks a [supervisor] about each of them, through seccomp.
//   - disk: a file system of one or two MiB fills up and gets room again.
//   - slow: a sync of one of the files stands still for more than five seconds, or to the end.
//   - poison: a job ends its process in a way that no recover catches.
//   - stop: Stop at a random moment, with a random deadline.
//   - locks: processes are killed while a thousand locks, counters and slots
//     are held, and many jobs wait for them.
//
// Each life has a log before the file (see journal) of another size: often it is so small
// that it is full all the time, and in some there is none.
//
// # What is true, and who knows
//
// A child says each step in a line on a pipe: before and after each call, at
// the start and at the end of each handler. The [oracle] reads the lines and
// outlives the child. It holds:
//
//   - what was accepted under DurabilitySync runs to its end, or an equal payload that
//     it was merged into does;
//   - what a crash takes of the async calls is the end of a life, never its
//     middle, and a call is in effect as a whole or not at all;
//   - two runs of an id never overlap; inside a life an id goes on right after
//     what ended; a new life begins at most right after what ended before, and
//     never before what is durably settled;
//   - what was refused never runs, and what was cancelled, and nothing else,
//     lies in the morgue;
//   - an event has its own failures and last error, and no other's; in the next life,
//     too, except for the newest ones that were not on disk. What was done before it
//     does not run again when its failure is on disk;
//   - a call with a key that is made again, in any life, is accepted once, and its
//     payloads are at one position for ever;
//   - a mark never goes back, and is never above what was asked for: no event of a
//     source is taken twice or skipped, also when its call had no answer;
//   - no key stays locked when all jobs are over.
//
// For locks a [ledger] hears the lines, too. It holds:
//
//   - after a crash a counter is what the payloads that survived explain, and a
//     key has the holder that it had;
//   - no run passes a key that another one has, and no job waits for ever;
//   - a slot that a handler has seen is no other job's until it is given back,
//     and two jobs never end with the same one.
//
// That a result is durable is known from outside when a later run of its id
// has begun and a call that was made after that was accepted: the result was
// written in the same commit or in an earlier one. After an event that is done the
// next one may be in the same run; after any other outcome it is in a later one.
package main
