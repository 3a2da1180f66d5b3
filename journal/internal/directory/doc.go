// Package directory is the directory of a journal as the file system has it: who
// owns it, which files in it are touched and how, and how a new one appears whole.
//
//	parent/
//	├── orders/                  a [Dir], held open
//	│   ├── LOCK                 locked by its owner; says who that is
//	│   └── journal.db, …        opened only if they are regular files
//	└── orders.new-4711/         a [Draft]: a journal that is not whole yet
//
// What is promised:
//
//   - One owner at a time, also within a process; the lock ends with the process
//     ([Lock]). On systems without such locks bbolt's own does it.
//   - Files are opened through the handle of the directory, without following a
//     link, waiting for a pipe or touching a device: those are errors that match
//     ErrNotJournal. Nothing is created, replaced or removed in a directory that
//     was put under the same name.
//   - A draft gets its name when it is whole and on disk, or is removed: by its
//     maker, or after the death of that by the next process that works beside it.
//     What only looks like a draft stays.
//   - What root makes in another user's directory belongs to that user.
//
// What is not promised: anything against a program that ignores locks.
//
// Census: no goroutine. A Dir has one descriptor, a DirLock one more.
package directory
