// Package work runs jobs: it has the workers, which call handlers, turn what these return into
// outcomes, and give the jobs back to their shards, and it writes down what the shards decide.
//
// # What is needed
//
// A [Crew] is filled in when its executor opens, and a [Queue] before the queue is registered;
// after that neither changes. What an error of a handler asks for the queue says ([Wish]): the
// errors are those of the executor, and so is what makes a job out of an item and calls the handler.
//
// # What is promised
//
//   - What a worker has taken in hand has an outcome when it comes back to its shard, also when
//     user code panics, or ends the goroutine: then another one goes on where that was.
//   - A follow-up is in the commit of the success of its job, or nowhere.
//   - The worker of a handler that is stuck is replaced while there is a spare one, and leaves
//     when its handler has returned after all.
//   - A stop, a pause or a person that keeps a handler from its work spends no retry.
//
// # Concurrency and cost
//
// A worker is a goroutine; what it is about is its own, but for what its hand guards. User code
// runs under no lock. A job of a queue without conditions, follow-ups, events and suspects pays
// one look at each of these.
package work

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/submit"
	"github.com/strandjobs/strand/executor/internal/tell"
	"github.com/strandjobs/strand/shard"
)

// Queue is a registered queue.
type Queue struct {
	engine.Queue
	submit.Door
	Settings
	Crew   *Crew
	Events tell.Source // what is told of it

	// Open sets what it has found: entries that are due in more than 50 years, and jobs that ran
	// when the last process died, and run again at once.
	Far   int64
	Again int

	// Call runs the handler for started items and returns an error for each. It is
	// not guarded.
	Call func(ctx context.Context, items []*shard.Item) []error
	// Exhausted tells the user's hook; nil when there is none. Not guarded.
	Exhausted func(ctx context.Context, items []*shard.Item)
	// Wish finds out what the error of a handler asks for. It calls methods of the error,
	// and is not guarded.
	Wish func(it *shard.Item, err error) Wish
}

// Settings are what a queue says of its jobs.
type Settings struct {
	Core        shard.Config
	Batch       int
	Timeout     time.Duration // of a handler; 0: none
	Heartbeat   time.Duration // between signs of life of a handler; 0: none are asked for
	RetryIn     func(int) time.Duration
	FormatError func(error) string
	DeadAge     time.Duration // how long dead letters are kept; 0 and below: without end
	DeadCount   int           // how many; 0 and below: any number
}

// hasTime reports whether the watchdog has to look at the handlers of the queue.
func (q *Queue) hasTime() bool { return q.Timeout > 0 || q.Heartbeat > 0 }

// tellsPayloadsApart reports whether some payloads of a job may be done and others
// not.
func (q *Queue) tellsPayloadsApart() bool {
	return !q.Core.Single && (q.Locks == nil || q.Locks.Unlock == nil) && q.Folder == nil
}

// Kind is what becomes of a job.
type Kind uint8

const (
	Fail     Kind = iota // it is retried
	FailFor              // it is retried after a pause of its own
	FullDisk             // it runs again, at the earliest after a pause, and keeps its retries
	Snooze
	Discard
	Cancel
	Panicked // the handler did, or a codec
	Refused  // its payload does not decode, and will not
)

// Wish is what an error asks for.
type Wish struct {
	Kind  Kind
	After time.Duration
	Text  bool   // of a snooze: the error has something to say
	Stack string // of a panic

	Asks     func(*admit.Claim) // of what the job holds; nil: nothing
	Fatal    error              // the executor is to end; nil: it is not
	Payloads map[uint64]error   // each payload has its own; nil: they have not
}

// RetryIn is the default pause before retry n.
func RetryIn(n int) time.Duration {
	n = min(max(n, 0), 1000) // 1000⁴ s is 30,000 years, and far from overflow
	seconds := n*n*n*n + 15 + rand.IntN(30)*(n+1)
	return min(time.Duration(seconds), maxRetryIn/time.Second) * time.Second
}

const maxRetryIn = 100 * 365 * 24 * time.Hour
