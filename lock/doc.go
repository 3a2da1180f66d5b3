// Package lock keeps the locks of one process: leases with fencing tokens, and slots
// and leader flags, which are made of leases. It lives in memory, needs no server,
// never polls, and imports nothing but the standard library. [Table], [Slots] and
// [Election] are for any program; [Service], [Decision] and [Lease] come up in package
// executor, too.
//
// # How keys are taken
//
// A [Table] has keys, and for each key the lease that holds it and a line of waiters.
// No two leases hold a key at the same time. A key is open until it is locked. A waiter
// who finds it locked stands in its line, first come first served. When the key opens,
// the first in line goes on; a key that is open and has a line is for the waiters in
// it, not for a newcomer. One heap has an alarm for each lease that ends by itself.
//
// A waiter for several keys stands in all its lines together: it is granted when it
// is first in each, and cannot starve.
//
//	               Acquire(a,b) ──┐   places are taken in all lines in one instant
//	                              ▼
//	key a: lease #7           ◄─ [lease {a,b}] ◄─ [lease {a}]   granted when it is first in every line and
//	key b: open               ◄─ [lease {a,b}]                  all its keys are open
//	                              ▲
//	                Unlock(#7) ───┘   looks at the head of each of its keys: O(1), never at the rest of the line
//
// # What is promised
//
//   - Exclusion. A key has at most one lease. Several keys asked for at once are given
//     all or none.
//   - Order. Waiters for leases get a key in the order they asked (FIFO), with no
//     barging: a free key with a waiter in front is not free for any other caller.
//     A hand-over wakes exactly one waiter per key and costs the same with ten
//     waiters as with ten thousand.
//   - Fencing. Every grant has a token that is larger than all before it in the
//     same [Table] and is never used twice. [Table.RaiseToken] carries the row
//     across a restart. A store that remembers the largest token it saw can refuse
//     a holder that came too late.
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
//     more while it holds something is told a [DeadlockError], with names, when its
//     place would close a cycle; asking again for its own key is the smallest such
//     cycle. Anonymous owners are bounded by their ctx only. The search sees
//     one table; package executor has one of its own, over all that jobs wait for.
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
//     (head-of-line blocking). That is the price of order and all-or-none.
//   - Fairness of [Table.TryAcquire]: it does not wait and takes no place.
//   - Time across a suspend of the machine. TTLs run on the monotonic clock, which
//     on Linux stands still meanwhile: a lease is then longer by the time of the
//     suspend. Setting the wall clock moves no lease of a running process.
//   - Durability. [Slots.Snapshot] says what has to be written down of slots, and
//     [Slots.Restore] takes it back. Leases end with the process.
//
// # Census of goroutines and timers
//
// No goroutine lives in this package. A table has at most one runtime timer, set to
// the earliest lease end, or the next extension of a leader with AutoExtend, and none
// when nothing can expire. A table without TTLs causes no wake-up, however many keys
// are held and however many waiters wait.
//
// # Roads not taken
//
// Taking sorted keys one after another is the usual way to several keys. It holds
// the first keys while it waits for the last, so their TTLs run and others wait for
// a lease that is not used yet. Here a waiter holds nothing until it has
// everything.
//
// In one line at a time, a waiter for {a, b} may starve beside many for a and for b.
//
// A [Lease] is a value (table, record and token) and the record of a key is used
// again by the next holder, so that an uncontended acquire and release allocates
// nothing; a pointer per lease cost 55 of 110 ns. The token tells an old handle
// from the present holder, which a fencing token does anyway.
package lock
