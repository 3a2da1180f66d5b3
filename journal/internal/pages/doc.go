// Package pages reads a bbolt file without bbolt, which trusts what it reads: a
// damaged page makes it panic, on a goroutine where nothing can recover. So each
// file is looked at here before bbolt sees it.
//
//	meta 0, meta 1 ─► root page ─► branch ─► leaf ─► keys, values, buckets
//
// What is promised:
//
//   - A file that [Check] has no error for makes bbolt neither panic nor run out of
//     memory: both meta pages are sound, each page is where it says it is and used
//     once, elements lie inside their page, keys are in order.
//   - A file is read with read calls, not through a memory map: what the disk gives
//     back is what is checked. Memory is taken by the size of the file.
//   - Damage is an error that matches ErrCorrupt, with the page.
//
// What is not promised: what the values mean. Those who look for more than the tree
// leads to (package rest) get the pages one by one.
//
// Census: no goroutine; a Walk is for one at a time.
package pages
