// Package ownership is how executor/cron asks an executor whose an id is, before it asks
// for a payload. It is no part of the API.
package ownership

// Refuse is what an *executor.Executor says to an id that its Splitter gives to another
// process; nil: it takes it. Package executor, which this one can't import, sets it before
// a main function runs. Any goroutine may call it.
var Refuse func(x any, id string) error
