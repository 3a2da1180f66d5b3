// Package pace keeps those who only look from taking the processor from those who
// work: all of them together get a small share of it.
//
// Work is done in pieces, one at a time for all who share a Pacer, in the order in
// which they asked. What a piece has taken is paid for with a pause, so that in the
// long run pieces take no more than the share; a short burst is free. While nobody
// works there is no pause.
//
// It starts no goroutine, and calls what it is given under no lock.
package pace
