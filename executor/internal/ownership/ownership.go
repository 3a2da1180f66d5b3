// Package ownership is how executor/cron asks an executor whose an id is, before it asks
// for a payload. It is no part of the API.
package ownership

// Refuse is what an *executor.Executor says to an id that its Splitter gives to another
// process; nil: it takes it. Package executor, which this one can't import, sets it before
// a main function runs. Any goroutine may call it.
var Refuse func(x any, id string) error

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
