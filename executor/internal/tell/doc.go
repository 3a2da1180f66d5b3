// Package tell is how the parts of an executor tell readers of events what happens: the
// committer, shards, workers, and people who pause something.
//
//	writers ── put ──► ring of the newest events ◄── Each ── readers, each at a place of its own
//
// # What is promised
//
//   - What happens to an id is told by one goroutine after the other, so that its events are
//     in their order: the committer before a shard gets a payload, the worker that has it in
//     hand, and its shard for what no worker decides.
//   - Events have ascending numbers. One that was put after another had been has a higher number.
//   - A reader gets all events that it wants, in the order of their numbers, each
//     once, or is told how many numbers it has missed before it gets the next one.
//   - A writer waits for other writers and for readers no longer than it takes to
//     copy some events. No method calls user code, or waits for a reader.
//   - A reader that goes on from a number, because an earlier one had come that far,
//     is told when there may have been events since that are not in the ring:
//     overwritten ones, and those of a kind or a source that no reader wanted then.
//   - While there is no reader, there is no ring, [Source.Watched] is false, after one atomic
//     load, and a caller has nothing else to do. When the last reader has gone, the ring stays
//     until it has been filled once more, so that the reader may come back. While
//     others stay, what only that one has wanted is told for one to two fills (256 events at least).
//
// Not promised: that a number is an event which the reader wants. Numbers count what any of the
// readers wanted.
//
// # Why one ring under one mutex
//
// Rings of the workers' own, merged by number, would spare the writers each other.
// With two of them on two processors a put takes 30 to 60 ns here, which is little
// beside the clock that is read for each event, and a merge has to wait for the
// slowest writer before it may hand out a number.
package tell
