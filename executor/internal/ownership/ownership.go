// Package ownership is how executor/cron asks an executor whose an id is, before it asks for
// a payload, and says that a tick is over. It is no part of the API. Package executor, which
// this one can't import, sets what is here before a main function runs.
package ownership

import "context"

// Refuse is what an *executor.Executor says to an id that its Splitter gives to another
// process; nil: it takes it.
var Refuse func(x any, id string) error

// Divided reports whether the Splitter of an *executor.Executor gives ids to other processes.
var Divided func(x any) bool

// Raise is SetSourceOffset of an *executor.Executor, unless an offset is there that is as high.
var Raise func(ctx context.Context, x any, source string, offset int64) error

// Jump is the jump consistent hash of Lamping and Veach (2014): even shares, and with
// one bucket more only what goes there moves.
func Jump(key uint64, buckets int) int {
	b, j := int64(-1), int64(0)
	for j < int64(buckets) {
		b = j
		key = key*2862933555777941757 + 1
		j = int64(float64(b+1) * (float64(1<<31) / float64(key>>33+1)))
	}
	return int(b)
}
