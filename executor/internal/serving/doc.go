// Package serving is what the control socket and the dashboard have in common, as servers
// of HTTP: how much goes on at a time, and how long a client may take to read.
//
//   - A [Room] bounds what goes on at a time. Looking has one of bytes: an answer takes its
//     share before it is made, and has it until it is sent, so that clients that do not read
//     can't fill the memory. Acting has one of its own, so that nobody who looks keeps out
//     who acts.
//   - A client that takes nothing of its answer for [Stall] is cut off, and so is one that
//     takes longer than [Whole] for all of it.
//   - Those for whom there is no room stand in line, in the order in which they came, for
//     [InLine] at most. That is longer than Stall: who does not read is gone by then.
package serving

import "time"

// What clients have time for.
const (
	Stall  = 5 * time.Second
	Whole  = 30 * time.Second
	InLine = 8 * time.Second
)
