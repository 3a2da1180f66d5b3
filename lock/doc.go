// Package lock keeps the locks of one process: leases with fencing tokens,
// key-locks that outlast the run of a job, and what is made of leases, slots and
// leader flags. It lives in memory, needs no server, never polls, and imports
// nothing but the standard library. Read on for [Table], [Slots] and [Election],
// which any program may use, and for [Service], [Decision] and [Lease], which come
// up in package executor; [KeyLocks], [Request], [Setting], [Change] and [KeyLock]
// are there for the executor.
//
// # One engine
//
// There is one engine: keys, what is locked on each of them, and a line of waiters.
// It is pure: its time is given, and goroutines, timers, disks and user code are
// the business of others. Two shells are around it.
//
//	[Table]     leases, for any number of goroutines: a mutex, a clock, one timer.
//	            A lease has all its keys alone, while something runs.
//	[KeyLocks]  key-locks, for the executor, which has the mutex, the clock, the timer and the journal itself.
//	            A key-lock stays after the run, until the key is unlocked. Any number may be on a key.
//
// What both have in common is the law of keys: a key is open until it is locked. A
// waiter who finds it locked by another owner stands in its line, first come first
// served. When it opens, the first in line goes on; a key that is open and has a
// line is for the waiters in it, not for a newcomer. Whatever ends by itself is an
// alarm in one heap, and one search over all waiters finds those that wait for each
// other in a cycle.
//
// What differs is how one waits who wants several keys, and it has to. A lease
// lasts while something runs, so its waiter stands in all its lines together: it is
// granted when it is first in each, and cannot starve. A key-lock may stay for
// weeks, because its job fails, so a job stands in one line at a time, at the first
// key that blocks it, and others pass the rest of its keys. And a lease is granted
// in the instant in which its keys open, while a job is called: its keys are kept
// until a worker comes to it, and what it wants is looked at again then, for its
// payloads may be others.
//
//	               Acquire(a,b) ──┐   places are taken in all lines in one instant
//	                              ▼
//	key a: lease #7           ◄─ [lease {a,b}] ◄─ [lease {a}]   granted when it is first in every line and
//	key b: open               ◄─ [lease {a,b}]                  all its keys are open
//	                              ▲
//	                Unlock(#7) ───┘   looks at the head of each of its keys: O(1), never at the rest of the line
//
//	key c: locks #3 #5 of q/1 ◄─ [q/2] ◄─ [q/4]       in line, with empty hands
//	key d: kept for q/3                ◄─ [q/5]       q/3 was called: a worker is about to come to it
//	                                      ▲
//	Enter(q/5, blocked by d, c) ──────────┘   stands where it is blocked; when d lets it pass, at c
//
// # What is promised
//
//   - Exclusion. A key has at most one lease, and is given none while a key-lock is
//     on it. Several keys asked for at once are given all or none.
//   - Order. Waiters for leases get a key in the order they asked (FIFO), with no
//     barging: a free key with a waiter in front is not free for any other caller.
//     A hand-over wakes exactly one waiter per key and costs the same with ten
//     waiters as with ten thousand. Jobs that exclude each other pass a key in the
//     order in which they came to it.
//   - Fencing. Every grant has a token that is larger than all before it in the
//     same [Table] and is never used twice. [Table.RaiseToken] carries the row
//     across a restart. A store that remembers the largest token it saw can refuse
//     a holder that came too late. The numbers of key-locks are such tokens.
//   - Leases. A lease with a TTL ends when the TTL has passed, whether or not its
//     holder is alive, and the next waiter is woken by that, not by looking. The
//     old holder finds [Lease.Lost] closed, and whatever it does with its lease
//     then returns [ErrLockLost] and changes nothing.
//   - Cancellation. A waiter whose ctx ends has the lease if the grant was first,
//     and is out of all lines if not; a grant is never lost, and a key is never
//     kept without a holder.
//   - No deadlock among callers that ask for all their keys at once: places in all
//     lines are taken in one instant, so the order of arrival is one global order,
//     and the oldest waiter is never behind a younger one. An owner that asks for
//     more while it holds something is told [ErrDeadlock], with names, when its
//     place would close a cycle; asking again for its own key is the smallest such
//     cycle. A job is told the same, but it is not in its own way. Anonymous owners
//     are bounded by their ctx only.
//   - User code (wake functions, Next, StartFrom) is never called while a mutex of
//     this package is held.
//
// # What is not promised
//
//   - Reaching other processes. Two processes with two tables do not see each
//     other.
//   - Stopping a holder whose lease ran out. It is told; only the token can stop
//     its writes.
//   - That a key is granted as soon as it is free: a waiter for {a, b} that is
//     first on a, while b is held, keeps later waiters for a behind it
//     (head-of-line blocking). That is the price of order and all-or-none, for
//     leases.
//   - That a job which wants several keys to be unlocked finds them so in one
//     instant: others may lock the one while it stands at the other. That is the
//     price of not being in the way, for jobs.
//   - Fairness of [Table.TryAcquire]: it does not wait and takes no place.
//   - Time across a suspend of the machine. TTLs run on the monotonic clock, which
//     on Linux stands still meanwhile: a lease is then longer by the time of the
//     suspend. Setting the wall clock moves no lease of a running process.
//   - Durability. [KeyLocks.Drain] says what has to be written down, and
//     [KeyLocks.Restore] takes it back; [Slots.Snapshot] and [Slots.Restore] do so
//     for slots. Leases end with the process.
//   - Compatibility of [KeyLocks], which is there for the executor.
//
// # Census of goroutines and timers
//
// No goroutine lives in this package. A table has at most one runtime timer, set to
// the earliest lease end, and none when nothing can expire. A candidate with
// AutoExtend has one timer while it leads. A table without TTLs causes no wake-up,
// however many keys are held and however many waiters wait.
//
// # Roads not taken
//
// Taking sorted keys one after another is the usual way to several keys. It holds
// the first keys while it waits for the last, so their TTLs run and others wait for
// a lease that is not used yet. Here a waiter holds nothing until it has
// everything.
//
// Jobs in all their lines, like leases: then one job that waits for a key of a dead
// one would keep all others from its other keys, and most of the cycles that
// [ErrDeadlock] names would be of such a kind. Leases in one line at a time, like
// jobs: then one for {a, b} may starve beside many for a and for b.
//
// A [Lease] is a value (table, record and token) and the record of a key is used
// again by the next holder, so that an uncontended acquire and release allocates
// nothing; a pointer per lease cost 55 of 110 ns. The token tells an old handle
// from the present holder, which a fencing token does anyway.
package lock
