// Package pause keeps what a person has paused: the executor, queues, single ids, and ids
// that begin in some way. Each is paused by itself, and a job runs when nothing that it
// belongs to is.
//
// # What is promised
//
//   - When a call returns nil, the pause is on disk, and no shard starts a job that is
//     paused. What runs goes on.
//   - The shards hear of changes in the order in which the journal does.
//   - A pause of a queue, or of its ids, is there before its shards take anything in, and
//     goes along to a new name of the queue.
//   - A job that is paused waits in no line of a condition: its turn would keep others
//     waiting.
//   - A queue of which nothing is paused costs its jobs nothing.
//
// Any goroutine may call all methods, except for Restore, Rename and Load, which are for a start.
// Under the mutex of a Board the journal is given changes and shards are told, which does not
// wait. Census: a goroutine for each pause of a prefix, until it has gone through the jobs.
package pause
