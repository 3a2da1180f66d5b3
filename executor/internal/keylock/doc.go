// Package keylock has the jobs of an executor lock keys until they have succeeded,
// whether they run or not, and wait for the keys of others. It is behind
// executor.Locks and executor.KeyLocks.
//
// [Keys] are the keys of an executor, and a book of its ledger: what changes is
// written down in the commit of the job that it belongs to. [Condition] is what the
// jobs of one queue lock and wait for. What decides is pure: it is given the time, and
// goroutines, timers, the journal and user code are the business of Keys and Condition.
//
// # The law of keys
//
// Any number of locks may be on a key. A key is open to a job as long as no other
// owner has locked it. A job that finds it locked stands in its line, first come first
// served. When the key opens, the first in line is called; a key that is open and
// has a line is for the jobs in it, not for a newcomer.
//
//	key c: locks #3 #5 of q/1 ◄─ [q/2] ◄─ [q/4]       in line, with empty hands
//	key d: kept for q/3                ◄─ [q/5]       q/3 was called: a worker is about to come to it
//	                                      ▲
//	Enter(q/5, blocked by d, c) ──────────┘   stands where it is blocked; when d lets it pass, at c
//
// A lock may stay for weeks, because its job fails, so a job stands in one line at a
// time, at the first key that blocks it, and others pass the rest of its keys. So it
// is not promised that a job which wants several keys to be unlocked finds them so in
// one instant: others may lock the one while it stands at the other. In all lines, as
// the leases of package lock stand, one job that waits for a key of a dead one would
// keep all others from its other keys.
//
// Circles are not looked for here: [admit.Graph] does, over all that jobs wait for.
package keylock
