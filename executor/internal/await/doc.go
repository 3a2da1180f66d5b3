// Package await knows which callers wait for the end of which payload, and tells
// them how it ended.
//
// # What is promised
//
//   - A waiter that was added before its payload was committed hears how it ended,
//     with what its handler returned last.
//   - When payloads become one, their waiters go along: all of them hear of the end
//     of the one that ran.
//   - A queue for whose payloads no caller waits pays one load of a word that nothing
//     writes.
//
// What is not promised: to remember. An end of which no waiter is there to hear is
// forgotten, and so is what a handler returned.
//
// No user code is called, and nothing here waits. Census: no goroutine; a mutex for
// each queue, under which nothing else is called, so that a waiter may be added
// under the lock of the journal.
package await
