// Package tell is how the parts of an executor tell readers of events what happens: the
// committer, shards, workers, and people who pause something.
//
// What happens to an id is told by one goroutine after the other, so that its events are
// in their order: the committer before a shard gets a payload, the worker that has it in
// hand, and its shard for what no worker decides.
//
// While there is no reader, [Source.Watched] is false, after one atomic load, and a caller
// has nothing else to do. No method calls user code, or waits for a reader.
package tell
