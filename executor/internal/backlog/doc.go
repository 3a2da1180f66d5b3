// Package backlog bounds the payloads that are accepted and not over. It knows the
// queues by name only, and no call, no job and no journal.
//
// Each payload counts once, from before the journal gets it until its shard has
// recorded its end: retries, snoozes, a halt and a restart change nothing about
// that.
//
// A call that fits under its limits takes its room at once. Room that comes back
// goes to the calls that wait, in the order in which they came, each for its own
// limits only. It is not saved up until there is much of it: where most jobs are
// due next week, that would be next week.
//
// A limit stands still while calls are refused or wait and nothing ends. After a
// minute of that it is told, once until it has moved.
//
// All methods may be called from any goroutine. They don't block, and call nothing
// but the function that New was given, on a timer's goroutine.
package backlog
