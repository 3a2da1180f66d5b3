// Package wal is a small log of records in one file, which is synced once for each. It
// stands on a commit to another file: what is in it counts until the next one there.
//
//	sector 0     which log this is, and how large
//	sector 1 …   record 1 │ record 2 │ …  of the present generation, then what others have left
//
// A sector has 512 bytes, which a disk writes as a whole or not at all. It says which
// generation and which record it belongs to, and whether that begins or ends there. Its
// checksum covers that, its place in the file, and what it holds.
//
// What is promised:
//
//   - A record is on disk when Append returns nil. [Read] finds it until [Log.Begin]
//     is called with something else, and never a part of it.
//   - Nothing is erased: a generation is a hash of what the log stands on, and another
//     one voids all records. Their numbers go on: a record with a later one than there may
//     be says that what the log stands on is an older version, which is ErrCorrupt. A log that is made of an old file has another number, and
//     voids them, too.
//   - A record that was not finished ends the log. A sector that is broken, and one
//     that is missing before a younger record, is ErrCorrupt with its offset. So is
//     a file that was cut or has grown, or is another log.
//   - The file has its room from the beginning. It is neither grown nor cut.
//
// What is not promised: to notice that a disk has lost all of the last record. After an
// error of Append that is not about room it is unknown what is on disk: nobody calls it
// again.
//
// Census: no goroutine, no lock. One at a time uses a Log.
package wal
