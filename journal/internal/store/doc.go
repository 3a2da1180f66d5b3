// Package store is the disk under a log: transactions on a bbolt file, or in memory.
// It is the only one that calls bbolt. A [Logged] has a small log before that.
//
//	Commit(transaction) ──► log: a record ──► fsync; many of them, or a large one:
//	                    ──► bbolt: chunks of the blocks, side buckets, end mark ──► fsync
//	Room(need) ───────────► what the next one can write; the file grows before that
//	Scan, Read, Get, Page ◄── what the last one left, in bbolt and over it in memory
//	CopyTo, Compact ──────► all of it, in another file
//
// What is promised ([Store] has it call by call):
//
//   - A transaction is on disk as a whole when Commit returns nil, and not at all
//     when the error matches ErrFull. After any other error it may be either way.
//   - The file has pages that the disk has given to it, for at least one more
//     commit of results: appends are refused before they are used up.
//   - A panic or a fault of bbolt on our goroutines is an error that matches
//     ErrCorrupt, and bbolt is not called again.
//   - The end mark has the sums of all that stands beside the log; what is replaced
//     or deleted is checked first, so that damage does not get into the sums.
//   - What waits in the log has room in bbolt. bbolt gets it with one commit, as a whole.
//   - A file of format 1 becomes one of the present format with the first commit.
//
// What is not promised: to survive a failed read of bbolt's own goroutine, which
// looks for free pages after a failed commit.
//
// Census: no goroutine. One calls Commit, Room, Size, Used and Compact; any may call
// the others meanwhile.
package store
