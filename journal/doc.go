// Package journal is a durable log of jobs on one bbolt file, and the only door
// to bbolt. A program that runs jobs sees little of it, through package executor:
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
//   - Append hands out positions in the order of its calls. When the [Ticket] it
//     returns is done without an error, the entries are on disk (fsynced, in journal.db
//     or in journal.wal) and their consumers have taken them in.
//   - Commits happen in position order. What a reader finds after a crash is a
//     prefix of what was appended: an entry is there whole or not at all, and
//     never without everything that was appended before it.
//   - Entries reach the consumer after their commit, one call at a time, in position order, but for what came back from
//     the morgue or waited for room on a full disk. If the log works in memory only, that holds for each route alone.
//   - Everything given to one [Log.Record] call (ended entries, new job
//     states, burials) becomes durable in one commit.
//   - A position is never used twice, not even after the log ran empty, and no
//     two openings have the same epoch.
//   - A flipped bit, a missing or a swapped block is [ErrCorrupt], with the number of
//     the block, or the offset in journal.wal. ErrCorrupt is also a value beside the log
//     that is missing or changed, with bucket and key; a page that is an older version of
//     itself; and a journal.db of format 3 that is older than its journal.wal.
//     Nothing is skipped silently, and after an error nothing was created or
//     changed. Every read of a state key is checked. [Check] sees all that
//     [Open] does.
//   - A journal written by a newer version is [ErrTooNew] and is left as it is. A journal
//     of an older version is read as it is by calls that only look; the first commit of
//     [Open] gives it the present format: see below.
//   - A file that was made to do harm, with every checksum right, makes nothing
//     panic, and takes memory by the size of the file only.
//   - A failed commit latches the log: every later call returns [ErrFailed],
//     and the file is not synced again, because what the kernel still holds
//     after a failed fsync is unknown. A full disk does not latch: see below.
//   - A file that another program cuts, deletes or replaces while it is open
//     latches the log, too: at the next commit, or when a page that is gone is
//     read. That holds for journal.wal, too, also when it is made to grow. What was put
//     in its place is not touched, be it a link to it.
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
//   - To notice that a disk has lost all of the last commit to journal.db, or its meta
//     page alone, while journal.wal has nothing younger; or the end of journal.wal,
//     from some record on; or that somebody has put an older journal.db of format 2 beside a
//     younger journal.wal, which it says nothing of. What is left then is what was there before, whole.
//
//   - To see at once, when a state key is set again, that its old value is damaged: if the
//     commit is a record in journal.wal, that is seen when the record goes to journal.db.
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
// A commit to bbolt syncs twice, and writes several pages for the smallest block. So a small
// commit is a record in journal.wal, a file that has its room already, and is synced once. It
// also waits in memory, until many such commits become one to bbolt: when journal.wal is full;
// when more waits than Config.WALBytes allows; or with a commit that buries something, deletes
// more than 64 blocks or has one of more than 64 KiB. The eight commits behind such a block go to
// bbolt, too. What has left the log by then is never written to bbolt. A commit to bbolt voids
// all records, because each record has a hash of the end mark (see below) of the commit to bbolt
// before it. After a crash, the next opening reads what waited into memory again. A log with few
// commits does without journal.wal; see Config.WALBytes.
//
// Callers who wait for their appends are woken together and come back one by
// one. The committer waits for them, two milliseconds at most and no longer than
// two commits take, so that they are in the next block together. If they mostly don't
// come back, it seldom waits.
//
// A payload may have metadata, which the log carries wherever the payload goes. The time
// of its acceptance takes no room: its due time or its score tells it, unless the caller
// gave both. A job that failed has a history of its last failures in its state, and
// in the morgue.
//
// A block is a header (version, checksum, epoch, sequence, first position),
// the entries, then the marks: the positions that ended. Marks follow the
// entries of their own block, so a block may end what it holds.
//
// Blocks leave in one order only, oldest first. Empty oldest blocks are
// deleted in the next commit, a thousand at most. While less than half of the log is
// live, the oldest block's live entries are carried forward: written again into the
// block that is about to be committed, at their old position, and the old
// block goes in the same transaction. So the log stays below twice its live
// size plus a little, and every byte is carried at most about once on average.
//
// [Change].Rewritten gives an entry another payload in the same way: the entry is
// written again at its old position, in the commit of all else that the call records. So
// several entries can become one: the others end in the same commit.
//
// A block value is split into chunks that fill bbolt's leaf pages two by two.
// If it were one big value, up to four blocks would share a leaf, and to add or delete
// one of them would write the other three again.
//
// # Memory
//
// Entries stay in memory, as they stand in their blocks, up to
// Config.MemoryBudget. Above it the oldest blocks leave memory after a commit: the
// oldest, because a backlog that waits for next year must not send the traffic
// of today to the disk. A CRC32C of each chunk stays: 4 bytes for 2 KiB.
//
// A [Ref] to an entry that has left memory reads it back in whole chunks, which are
// checked: a window with the chunks of the entry, or of up to 64 KiB for a caller that
// reads on. Windows are kept while there is room for them, an eighth of the budget and at
// most 4 MiB, so that many who go through a backlog side by side read it once. Trimming
// and compacting go on meanwhile: a window is read from where its block is by then. What
// is to be carried forward is read back before the commit.
//
// The budget does not include: the open block, the one on its way to the disk, blocks that
// wait for bbolt, and blocks that a full disk had written in pieces; about 250 bytes for
// each block; and a bit for every four bytes of a block of which something has
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
// its next commit; appends wait until it is done, or the context that Compact got ends. A
// file of more than 64 MiB is also compacted when it is opened with less than half of it
// in use, and after ten idle seconds with less than a quarter, and no more than 16 MiB,
// in use. A compacting that fails changes nothing. On Windows, where
// an open file can't be replaced, only the function [Compact] works.
//
// # A full disk
//
// bbolt writes what it changes to other pages, so even a delete takes room.
// Therefore the file always has some free pages that the disk has given to it
// (about a sixteenth of the file, 128 KiB to 4 MiB with pages of 4 KiB), and an
// append that would take some of them, when the disk gives no more, is refused with
// [ErrFull]. Appends that are already on their way are refused, too: their entries never
// appear later, nor do the state keys that belong to them. Entries of [Log.Post] are kept
// until there is room: at most two blocks, because Post is refused meanwhile, too. If a
// result sets or deletes a state key of theirs before that, the key stays as the result
// has left it.
//
// Results are written into these pages, without the bytes that were refused. If they don't
// fit as a whole, they are written in halves that end where a call of [Log.Record] did.
// Blocks that ran empty are deleted with them, and what is live in old blocks is carried
// forward before dead weight has taken a sixteenth of these pages. A dead letter takes room
// beforehand ([Log.TakeRoom]): a page for its leaf, or, if it is large, one piece behind the
// last page in use, because bbolt writes a leaf with large values in one piece. An old block
// is carried as a whole. So room for the largest block with something live is kept, too: one
// and a half times what it has above 32 KiB. An append that would not leave that is refused.
// Entries of Post and follow-ups wait for that room, too. Those for which an empty log would not leave
// it are written all the same, and no append is until they have ended. A call of Post for which an
// empty log would have no room at all keeps the disk full until there is some, or the log is
// closed: it was accepted, and what comes later must not overtake it.
// So a disk that nothing else fills comes back by itself when jobs end. A failure ends
// nothing: on a disk that is [Log.Short], a caller who records failures has to take room for
// them. The log looks for room ten times a second. Config.Logger is told of the full disk
// once, and of the room once that has lasted for five seconds. On file systems that write to
// another place even what they were given (btrfs, ZFS) results may have to wait in memory
// until a person or another program makes room.
//
// Room in journal.db is set aside for what waits for bbolt, a page for each key of it. While the disk gives no more,
// nothing waits, and journal.wal is not used. An opening that finds no room for journal.wal,
// or no descriptor, removes it, and the log works without it until the next opening.
//
// ENOSPC, EDQUOT, and EFBIG, which a limit on the size of files gives, all mean
// that the disk is full. A sync that fails with one of them latches all the same.
//
// # The end mark
//
// Blocks say what they are and that they are whole. One value, which every commit writes,
// tells that no block is missing at either end, and nothing beside the log. This end mark
// has the oldest and newest block, the next position, the epoch, the number of bbolt's
// transaction, and for names, morgue and state keys how many there are and the sum
// of their hashes. A commit takes what it replaces out of the sum and adds
// what it puts there; Open and Check add all of it up again, so that a value that
// is missing, or an older version of itself, is noticed. The end mark and the values beside
// the log carry checksums, because bbolt has none on data pages. The values of names and
// state keys also say after which block they were written: so [Salvage] can tell which of
// two copies is younger.
//
// # Formats
//
// Format 2 is the present one. While journal.wal is in use, journal.db has format 3, because
// journal.wal may have more: an older version of this package refuses it with ErrTooNew.
// [Log.Close] leaves all in journal.db, in format 2, and nothing that counts in journal.wal.
// Only a process that died, a log that has failed, or a Close on a full disk leaves format 3; then both
// files are the journal, and one without the other is ErrCorrupt. A journal.wal without a journal.db
// is always ErrCorrupt. To go back to an older version after a crash, open the journal and
// close it, or call [Compact]. Copies, clones, and what [Compact], [Salvage] and a [Builder]
// make have one file, of format 2, or of format 1 if what was copied has that. [Info] says 2
// for formats 2 and 3.
//
// Format 1 had neither checksums on state keys nor the sums. Open checks all of such a file,
// and adds them with its first commit: a crash leaves the old file or the new one. That takes
// room for the names and state keys once more; where there is none, Open returns ErrFull and
// the file stays as it is. An older version of this package refuses the file from
// then on with ErrTooNew. [Salvage] refuses a file of format 1.
//
// # The directory
//
// A journal is a directory with up to six files: journal.db; journal.wal, which was made
// with its room and is used again by the next opening; LOCK, with pid and host of the
// last owner and since when it was one, which stays behind; RUNNING and CRASH, see
// Crashes; and journal.db.new, while the journal is made or compacted.
// One of these names that stands for anything but a file (a link, a pipe, a device, a socket, a directory)
// is [ErrNotJournal] with its path (CRASH to [Log.ReportCrashes] only), and is not followed, waited for
// or changed. The directory itself may be reached through a link.
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
// The file RUNNING, mapped into memory, says which positions run. After a death these may have caused it, and
// [Suspicion] says how likely each has. An orderly end clears the file and leaves it: its room, 16 KiB or more, is kept
// for the next process, which may find the disk full. If [Log.ReportCrashes] was called, the file CRASH has what Go
// wrote about a fatal error. An orderly end removes it, unless another log of the process has called ReportCrashes
// since.
//
// # Which journal
//
// A journal gets a random UUID when it is made. Copies have the same one; UUID and epoch
// together tell which is which. A copy that is opened goes on from its own past, and runs
// again what the original has run since. [Log.Stats], [Check] and [View.Info] show UUID
// and epoch. Journals from before there were UUIDs have none.
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
// One committer goroutine from Open to [Log.Close]. On a full disk a goroutine tells Config.Logger of it,
// and a timer of the room, perhaps while the log is closed. A call of Copy or Compact has one until it is over.
// A log that works in memory only has nothing to wait for, so the goroutine that appends also commits, or
// delivers a payload that needs no commit: its block stays open, and is read meanwhile.
package journal
