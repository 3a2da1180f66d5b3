// Package admit says why a job does not run, and what it holds while it does. A queue has
// a list of conditions: keys, leases, slots, limits, turns. A worker that has come to a job
// asks them one after the other, and knows none by name.
//
//	            a condition says ErrWaits              all have let it pass
//	in line ◄────────────────────────────── asked ──────────────────────────► runs
//	   │                                     ▲ │ another error                  │ Settle, in the
//	   └── Claim.Wake: its shard hears it ───┘ └──► does not run ──────────────►│ commit of its end
//	                                                                            ▼ Release
//
// # What is promised
//
//   - A job that waits stands in the line of one condition, and holds nothing: what others
//     gave it is back, and where it stood in their lines, they let others pass.
//   - Whoever waits is woken once its turn has come, by Claim.Wake, and asks all again.
//   - What a job holds ends in the commit that settles it, with what the journal has of it;
//     others are woken when that is recorded.
//   - A condition that has to be on disk before the job runs, a [Durable] one, is: one wait
//     for the disk for all jobs of a batch. Those behind it are asked after that.
//   - Jobs that wait for each other in a circle, over all conditions and over the calls of
//     handlers, are found by the one that closes it, which fails with the names of all: see
//     [Graph]. A job that waits for one of several is stuck only if all of them are.
//   - A queue without conditions has no list, and makes no [Claim].
//
// # What is not promised
//
// An order between conditions: the list is asked from its front each time, so a job may
// lose a turn in one while it waits for another. A wait that a condition can't name, for a
// service of the program's own say, is in no circle.
//
// # Concurrency
//
// A Claim belongs to the worker that has the job, and then to the recorder of its shard;
// Wake may be called by anybody. A condition has a mutex of its own, or is guarded by the
// [Ledger]; wakers are called under none. Census: no goroutine; a timer for each lease that
// is kept alive.
package admit
