// Package format is what a journal looks like: entries, blocks, the values beside
// the log and the end mark, as bytes. It is the leaf under all of journal, so it
// also has what they share: positions and errors.
//
//	bucket log      block n ─► chunks:  header | entries | marks
//	bucket queues   name ─► number                 sealed: number of a block, checksum
//	bucket state    key ─► value                   sealed, too
//	bucket morgue   queue, position ─► payload     checksum
//	bucket meta     version, UUID, manifest (key "tail")
//
// What is promised:
//
//   - What the functions here write, those of this version and of younger ones
//     read. Numbers and names that were used once stay taken.
//   - What is read is checked before it is used: by a checksum, and by lengths that
//     fit into what is there. A wrong byte is an error that matches [ErrCorrupt],
//     with block or bucket and key; a version that is unknown is [ErrTooNew]. No
//     bytes make anything panic.
//   - An [Entry] that was decoded shares memory with the block that it was read from,
//     and can't be used to write to another entry.
//
// What is not promised: that bytes which were made to have right checksums mean
// anything. A reader of the log finds that out: package block.
//
// Census: no goroutine, no lock, no file.
package format
