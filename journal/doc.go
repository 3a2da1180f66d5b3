// Package journal is a durable log of jobs on one bbolt file, and the only door
// to bbolt. Who runs jobs sees little of it, through package executor:
//
//   - Programs see its errors ([LockedError], [CorruptError], [ErrTooNew],
//     [ErrNotJournal]) and [Position].
//   - The strand command reads and makes journals that are not open: [OpenView],
//     [OpenSides], [Check], [Clone], [Compact], [Salvage], [NewBuilder], [InUse].
//   - The executor and its shards work on a [Log], with what [Config], [Entry], [Change],
//     [Delivery], [Ticket] and [Ref] are made of, and the [CrashRecorder].
//   - Tests have [Memory] and [OpenMemory], and packages below this one [OpenStore].
//
// # What is promised
//
//   - Append hands out positions in the order of its calls. When the [Ticket]
//     it returns is done without an error, the entries are on disk (fsynced, in
//     journal.db or in the log before it) and their consumers have taken them in.
//   - Commits happen in position order. What a reader finds after a crash is a
//     prefix of what was appended: an entry is there whole or not at all, and
//     never without everything that was appended before it.
//   - Entries reach the consumer after their commit, in position order, one
//     call at a time; in memory only, so for each route.
//   - Everything given to one [Log.Record] call (ended entries, new job
//     states, burials) becomes durable in one commit.
//   - A position is never used twice, not even after the log ran empty, and no
//     two openings have the same epoch.
//   - A flipped bit, a missing or a swapped block is [ErrCorrupt], with the
//     number of the block, or the offset in journal.wal. So is anything that is gone
//     or changed beside the log, with bucket and key, a page that is an older version of
//     itself, and a journal.db that is older than its journal.wal.
//     Nothing is skipped silently, and after an error nothing was created or
//     changed. Every read of a state key is checked. [Check] sees all that
//     [Open] does.
//   - A journal written by a newer version is [ErrTooNew] and is left as it is. One
//     by an older version is read as it is by calls that only look; [Open] makes it
//     one of the present format with its first commit: see below.
//   - A file that was made to do harm, with every checksum right, makes nothing
//     panic, and takes memory by the size of the file only.
//   - A failed commit latches the log: every later call returns [ErrFailed],
//     and the file is not synced again, because what the kernel still holds
//     after a failed fsync is unknown. A full disk does not latch: see below.
//   - A file that another program cuts, deletes or replaces while it is open
//     latches the log, too: at the next commit, or when a page that is gone is
//     read. So does journal.wal. What was put in its place is not touched.
//   - Entries that are read back from the disk are those that were written to
//     it, or the log latches with an error that names their block.
//
// # What is not promised
//
//   - Two processes on one journal: the second one gets a [LockedError], or waits
//     in [OpenContext] until the first has closed it, or died.
//
//   - That ended entries leave the disk at once. They go when their block is
//     the oldest and empty, or when it is carried forward (see below).
//
//   - To notice a disk that lost a whole commit: every write of the last one to
//     journal.db, or of its meta page alone, while journal.wal has nothing that is
//     younger; or the end of journal.wal, from some record on. What is left then is
//     what was there before, whole.
//
//   - To see damage to a state key when that is set again: if the commit is a record
//     in journal.wal, it is seen when that is given over to journal.db.
//
//   - To survive everything under bbolt. A panic or a fault on our goroutines is
//     contained. After a failed commit bbolt reads the whole file on a goroutine
//     of its own; if the disk can't give it back then, the process ends.
//
// [Check] reads a journal that is not open and changes nothing. [Log.Copy] copies
// one that is open.
//
// # The log
//
// One committer goroutine writes. Whatever arrived while the last commit was
// syncing becomes the next block (group commit), and one transaction holds
// the block and all changes of the side buckets that belong to it:
//
//	Append ─┐                      ┌─ block n ── chunks of about 2 KiB ─► bucket log
//	Append ─┼─► open block ─► seal ┼─ blocks that ran empty ─ delete ──► bucket log
//	Record ─┘   (memory)           ├─ buried payloads ─────────────────► bucket morgue
//	                               └─ next position, epoch ────────────► bucket meta
//	                                    │ fsync, of journal.wal or journal.db
//	                                    ▼
//	                               deliver, in order ─► consumer ─► ticket done
//
// A commit to bbolt syncs twice, and writes several pages for the smallest block. So a
// small one is a record in journal.wal, a file that has its room already, and is synced
// once. It waits in memory, and many of them become one commit to bbolt: when the file is
// full, or more waits than Config.WALBytes says, with a commit that buries something, and
// with one that has a block of more than 64 KiB, and the eight behind that. What has left the
// log by then is never written to bbolt. That commit voids all records: each belongs to a
// generation, which is a hash of the end mark that it stands on. After a crash, opening finds
// in memory again what waited.
// A log whose first commits are few does without that file.
//
// Callers who wait for their appends are woken together and come back one by
// one. The committer waits for them, two milliseconds at most and no longer than
// two commits take, so that they are in the next block together. Where they don't
// come back it seldom does.
//
// A payload may have metadata, which the log carries wherever the payload goes. When
// it was accepted takes no room: its due time or its score says so, unless both were
// given to it. A job that failed has a history of its last failures in its state, and
// in the morgue.
//
// A block is a header (version, checksum, epoch, sequence, first position),
// the entries, then the marks: the positions that ended. Marks follow the
// entries of their own block, so a block may end what it holds.
//
// Blocks leave in one order only, oldest first. An empty oldest block is
// deleted in the next commit. While less than half of the log is live, the
// oldest block's live entries are carried forward: written again into the
// block that is about to be committed, at their old position, and the old
// block goes in the same transaction. So the log stays below twice its live
// size plus a little, and every byte is carried at most about once on average.
//
// [Change].Rewritten gives an entry another payload in the same way: it is written
// again at its old position, in the commit of all else that the call records. So what
// several entries said may become one of them, and the others end with that.
//
// A block value is split into chunks that fill bbolt's leaf pages two by two.
// As one big value, up to four blocks share a leaf, and adding or deleting one
// of them writes the other three again.
//
// # Memory
//
// Entries stay in memory, as they stand in their blocks, up to
// Config.MemoryBudget. Above it the oldest blocks are let go after a commit. The
// oldest, because a backlog that waits for next year must not send the traffic
// of today to the disk. A CRC32C of each chunk stays: 4 bytes for 2 KiB.
//
// A [Ref] to what was let go reads it back, in whole chunks that are checked: a
// window of those that the entry is in, and of up to 64 KiB for a caller that reads
// on. Windows are kept while there is room for them, an eighth of the budget and at
// most 4 MiB, so that many who go through a backlog side by side read it once. They
// are read where it stands then: trimming and compacting go on meanwhile. What is
// to be carried forward is read back before the commit.
//
// Beside the budget there are the block that is open, the one on its way to
// the disk, and those that wait for bbolt, blocks that a full disk had written in pieces, about 250 bytes for
// each block, and a bit for every four bytes of a block of which something has
// ended. The pages of the file that are mapped into the process are given back
// to the system after every 16 MiB (on Linux).
//
// An entry that can't be read back latches the log: the holder of the Ref gets
// [ErrFailed] with the cause, and the file stays as it is.
//
// # Compacting
//
// bbolt keeps the pages that it has no use for. [Log.Compact] writes those in
// use to a new file, which takes the place of the old one by a rename: a crash
// leaves one or the other, and they hold the same. The committer does that, after
// its next commit; appends wait until it is done, or its caller's context ends. A
// file of more than 64 MiB is compacted when it is opened and less than half of
// it is in use, and after ten idle seconds when that is less than a quarter and
// no more than 16 MiB. A compacting that fails changes nothing. On Windows, where
// an open file can't be replaced, only the function [Compact] works.
//
// # A full disk
//
// bbolt writes what it changes to other pages, so even a delete takes room.
// Therefore the file always has some free pages that the disk has given to it
// (about a sixteenth of the file, 128 KiB to 4 MiB with pages of 4 KiB), and an
// append that would take of them, when the disk gives no more, is refused with
// [ErrFull]. So is what was already on its way, and it never appears later, nor
// do the state keys that belong to it. What was posted is kept: at most two
// blocks of it, because posting is refused meanwhile, too. A key of it that a
// result sets or deletes before there is room stays as the result has left it.
//
// Results are written into these pages, without the bytes that were refused, and in
// halves that end where a call of [Log.Record] did when the whole does not fit.
// Blocks that ran empty go with them, and what is live in old blocks is carried
// forward before dead weight has taken a sixteenth of these pages. A dead letter takes its
// room beforehand ([Log.TakeRoom]): a page of its leaf, or, as bbolt writes a leaf with larger
// ones in one piece, room in one piece behind the last page in use. An old block is carried
// whole: while something of it is live, one and a half times what the largest one has above
// 32 KiB is kept, too, and an append that would not leave that is refused. So a disk that
// nothing else fills comes back by itself when jobs end. Failures end nothing: who records them
// on a disk that is [Log.Short] has to take room for that. The log looks for room ten times a second.
// Config.Logger is told of the full disk once, and of the room once that has lasted
// for five seconds. On file systems that write to another place even what they were
// given (btrfs, ZFS) results may have to wait in memory until a person or another
// program makes room.
//
// What waits for bbolt has its room there promised. While the disk gives no more nothing
// waits, and journal.wal is not used. An opening that finds no room for it, or no
// descriptor, removes it and works without, until the next one.
//
// ENOSPC, EDQUOT, and EFBIG, which a limit on the size of files gives, all mean
// that the disk is full. A sync that fails with one of them latches all the same.
//
// # The end mark
//
// Blocks say what they are and that they are whole. That none is missing at
// either end, and nothing beside the log, is told by one value that every commit
// writes: oldest and newest block, next position, epoch, the number of bbolt's
// transaction, and for names, morgue and state keys how many there are and a sum
// of what each hashes to. A commit takes what it replaces out of the sum and adds
// what it puts there; Open and Check add all of it up again, so that a value that
// is missing, or an older version of itself, is noticed. The values beside the log
// and this one carry checksums, because bbolt has none on data pages. Those of
// names and state keys also say after which block they were written, by which
// [Salvage] tells the younger of two copies.
//
// # Formats
//
// Format 2 is the present one. While journal.wal is in use, which may have more than
// journal.db, that has format 3: an older version of this package refuses it with ErrTooNew.
// [Log.Close] leaves all in journal.db, in format 2, and nothing that counts in the other file.
// Only a process that died, or a log that has failed, leaves format 3; then both files are
// the journal, and one without the other is ErrCorrupt. A journal.wal without a journal.db
// always is. To go back to an older version after a crash, open the journal and close it, or
// call [Compact]. Copies, clones, and what [Compact], [Salvage] and a [Builder] make are of
// format 2, and have one file. [Info] says 2 of both.
//
// Format 1 had neither checksums on state keys nor the sums. The first commit to such a file, before which all of it was checked,
// adds them: a crash leaves the old file or the new one. It takes room for the
// names and state keys once more; where there is none, Open returns ErrFull and
// the file stays as it is. An older version of this package refuses the file from
// then on with ErrTooNew. [Salvage] refuses a file of format 1.
//
// # The directory
//
// A journal is a directory with up to five files: journal.db; journal.wal, which was made
// with its room and is used again by the next opening; LOCK, with pid and
// host of the last owner and since when it was one, which stays behind; RUNNING, the
// crash recorder; and journal.db.new, while the journal is made or compacted.
// One of these names that stands for anything but a file (a link, a pipe, a device,
// a socket, a directory) is [ErrNotJournal] with its path, and is not followed,
// waited for or changed. The directory itself may be reached through a link.
//
// A log that is open works through a handle of its directory, and removes or
// replaces a file only if it is still its own: an owner whose directory was moved
// away or replaced leaves the next one's files alone.
//
// Users who may use the file before it is compacted may use it afterwards: owner,
// group and mode are kept, or the compacting fails. What root makes in another
// user's directory belongs to that user. A directory that all users may write to is
// used, because volumes of containers are like that, with a warning to
// Config.Logger: any user of the machine could replace the journal in it.
//
// Copies, clones, salvaged and built journals begin as drafts: directories beside
// the new one, named like it with ".new-" and a number, with a LOCK that says that
// name and is locked for as long as its maker works on it. The drafts of processes
// that died are removed by the next Open, Copy, Clone, Salvage or [NewBuilder] for
// a journal in the same parent directory: if the name fits, the LOCK says it and is
// free, and no other file is there. On Windows they stay.
//
// A call that finds no descriptor left returns an error and has changed nothing;
// the log goes on, and so does a compacting at the next opportunity.
//
// # Crashes
//
// The file RUNNING, mapped into memory, says what runs; after a death that is who
// may have caused it, and [Suspicion] is what speaks against each, by a rule that
// is stated there. An orderly end clears the file and leaves it: its room, 16 KiB
// or more, is kept for the next process, which may find the disk full. The file CRASH, if
// [Log.ReportCrashes] was called, has what Go said. It goes with an orderly end.
//
// # Which journal
//
// A journal gets a random UUID when it is made. Copies have the same one, so that
// with the epoch they tell which is which: a copy that is opened goes on from its
// own past, and runs again what the original has run since. [Log.Stats], [Check]
// and [View.Info] show both. Journals from before there were UUIDs have none.
//
// # Inside
//
// The log stands on packages of its own, and each arrow between them points down; [Log]
// lists the parts that it is put together from:
//
//	journal     the log: appends, group commit, results, a full disk, the morgue
//	rest        journals that are not open: view, clone, compact, salvage, build
//	block       the log in memory: blocks, what is live in them, what leaves next
//	store       transactions on a bbolt file, or in memory for tests; see also [OpenStore]
//	wal         the log of records before a bbolt file
//	crash       which job ended the last process
//	pages       a bbolt file, read without bbolt
//	directory   the directory on disk: its LOCK, drafts, files opened with care
//	format      what all of it looks like in bytes; positions and errors
//
// # Census
//
// One committer goroutine from Open to [Log.Close]. Nothing else. A log that works
// in memory only has nothing to wait for, so the goroutine that appends commits, or
// delivers a payload that needs no commit: its block stays open, and is read meanwhile.
package journal
