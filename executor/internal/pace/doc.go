// Package pace keeps those who only look from taking the processor from those who
// work: all of them together get a small share of it, or half of what lies idle.
//
// Work is done in pieces, one at a time for all who share a Pacer, in the order in
// which they asked. What a piece has taken is paid for with a pause, so that in the
// long run pieces take no more than the share; a short burst is free. While nobody
// works there is no pause.
//
// What lies idle is measured while somebody looks, twenty times a second: it is what
// neither this process has used of the processors that it may use, nor anybody else of
// the machine. So who works in handlers that only wait does not make those wait who
// look, and who has no processor to spare spares none. It is known on Linux; elsewhere
// the share is all there is.
//
// It starts no goroutine, and calls what it is given under no lock.
package pace
