// Package events has the types of the feed that [executor.Executor.Events] reads: what
// happens to jobs, and to what keeps them from running, as it happens.
//
// # What is promised
//
//   - Events of one id of a queue come in the order in which they happened; those of
//     different ids in an order that agrees with it.
//   - [Accepted] and [Requeued] come after the commit, and before the payload can run.
//     All other events come when the executor has decided what they tell, a few
//     milliseconds before that is on disk.
//   - A reader gets all that its [Filter] names, each event once, or a [MissedError]
//     before the next event. It holds up neither jobs nor other readers.
//   - With [Event.Token] a reader goes on where another one of the same executor was.
//
// # What is not promised
//
//   - That what an event tells is on disk: if the process dies at that moment, a job
//     whose [Done] was read runs again. The feed is no audit log.
//   - That the feed outlives the process: it is a buffer in memory.
//
// A loop over events belongs to one goroutine. The types may be copied, and have no
// methods that change them.
package events
