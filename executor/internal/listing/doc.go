// Package listing makes pages of what is too much to be sorted as a whole, or too
// restless: a page is the first rows behind a key, picked in one pass over all of
// them, in any order, with room for that page only.
//
// # What is promised
//
//   - A page that is full has the first rows behind its cursor, of all that were
//     offered. A cursor is the key of a row, not a count: what comes and goes moves
//     no row to another page. So what is there all the time, with one key, is on
//     exactly one page, in either direction.
//   - A cursor is a text that says which list it belongs to. One of another list, or
//     that was changed, is refused.
//
// It knows neither jobs nor time, takes no lock and starts no goroutine.
package listing
