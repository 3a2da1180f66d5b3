// Package block is the log in memory: its blocks, what is live in them, where their
// entries are, and which blocks go next.
//
//	Writer ─ seal ─► Block ─ admit ─► Chain: [oldest] … [newest]
//	                   ▲                 │ crowded: Evict, entries are on disk only
//	   Ref ─ Read ─────┘                 │ wasteful: Trim, live ones go to the Writer
//	Reading ─ what a file has ─► Chain, and what is pending
//
// What is promised:
//
//   - A [Ref] stays valid until its entry ends, however often that is carried into
//     another block or leaves memory, and is at most two steps from it.
//   - What is read back from the disk is checked against checksums that were taken
//     when it left memory. What fails them is an error, and the log is told.
//   - [Chain.Trim] takes blocks out oldest first only. An entry is carried once for
//     each time that its block is the oldest, at its old position.
//   - A [Reading] accepts a log only if no block is missing and positions have no
//     gap, and takes memory by the size of the log.
//   - To end an entry twice is a bug of the caller, and panics.
//
// What is not promised: that the accounts may be used together. The mutex of the log
// guards them; Refs need none.
//
// Census: no goroutine. Locks: sixteen turns and one mutex for windows that are read
// back, taken after no other.
package block
