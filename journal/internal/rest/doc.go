// Package rest is what can be done with a journal that is not open: look at it, check
// it, copy it, make it smaller, save what is left of it, and build another one.
//
//	               ┌─ OpenView, Check ─► View, Info           as a start would find it; ViewOf: any store
//	journal.db and ┼─ Clone, Compact ──► another file         checked
//	journal.wal    └─ Salvage ─► wreck ─► rescue ─► Builder ─► a new journal
//
// What is promised:
//
//   - A call that only looks changes nothing and keeps no owner out for longer than
//     one attempt to lock; one that copies or replaces locks the journal meanwhile.
//   - What is read while another process opens the journal is not handed out: a
//     LockedError says who did.
//   - [OpenView], and so [Check], finds what opening the journal would.
//   - What has no entries of the log to hand out ([OpenView] of none, [Check], [Clone],
//     [Compact]) takes the same memory however many there are, but for the bits of
//     what has ended. [OpenView] takes 24 bytes for each that is live.
//   - [Salvage] takes what a checksum vouches for and nothing else, and what it writes
//     can be opened. It lists as lost what it did not find, and says what that means.
//   - New journals appear whole or not at all.
//
// What is not promised: to find all damage at once. A report has the first.
//
// What each call returns and refuses is said where users see it, in package journal.
//
// Census: no goroutine. A View, and a Builder, is for one at a time.
package rest
