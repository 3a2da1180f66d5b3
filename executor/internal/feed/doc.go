// Package feed passes events from many writers on to readers, through a bounded ring
// that no reader holds up.
//
//	writers ── Put ──► ring of the newest events ◄── Next ── readers, each at a place of its own
//
// # What is promised
//
//   - Events have ascending numbers. One whose Put began after another's had returned
//     has a higher number.
//   - A reader gets all events that it wants, in the order of their numbers, each
//     once, or is told how many numbers it has missed before it gets the next one.
//   - A writer waits for other writers and for readers no longer than it takes to
//     copy some events.
//   - A reader that goes on from a number, because an earlier one had come that far,
//     is told when there may have been events since that are not in the ring:
//     overwritten ones, and those of a kind or a source that no reader wanted then.
//   - While there is no reader, there is no ring, and a [Source] costs its writers one
//     atomic load. When the last reader has gone, the ring stays until it has been
//     filled once more, so that the reader may come back.
//
// # What is not promised
//
//   - That a number is an event which the reader wants: numbers count what any of the
//     readers wanted.
//
// # Why one ring under one mutex
//
// Rings of the workers' own, merged by number, would spare the writers each other.
// With two of them on two processors a Put takes 30 to 60 ns here, which is little
// beside the clock that is read for each event, and a merge has to wait for the
// slowest writer before it may hand out a number.
package feed
