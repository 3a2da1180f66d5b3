// Package verdict says what becomes of a job whose handler has returned an error: from its item and
// that error it fills in the outcome of the item, and says what is fatal. A job that succeeds does
// not come here.
//
// # What is promised
//
//   - After [Judge.End] the item has a verdict, also when user code panics: a method of the error,
//     or a function of the queue. If that ends the goroutine, the next one calls [Judge.GiveUp].
//   - A stop, a pause or a person that keeps a handler from its work spends no retry.
//   - What goes to the morgue has its room on the disk, or runs again. What ends the executor is
//     written down even on a disk that is short of room, if there is any.
//
// The [Rules] of a queue do not change once it is registered. A [Judge] belongs to the goroutine of a
// worker, and user code runs under no lock. Census (goroutines, timers): none.
package verdict

import (
	"math/rand/v2"
	"time"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/shard"
)

// Rules are what a queue says of its jobs that do not succeed.
type Rules struct {
	Core        shard.Config
	Apart       bool                    // some payloads of a job may be done and others not
	Timeout     time.Duration           // of a handler; 0: none
	Heartbeat   time.Duration           // between signs of life of a handler; 0: none are asked for
	RetryIn     func(int) time.Duration // nil: the function RetryIn
	FormatError func(error) string

	// Wish finds out what the error of a handler asks for. It calls methods of the error,
	// and is not guarded.
	Wish func(it *shard.Item, err error) Wish
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
	Kind      Kind
	After     time.Duration
	Text      bool   // of a snooze: the error has something to say
	Stack     string // of a panic
	Undecoded bool   // the payload does not decode, for now at least

	Asks     func(*admit.Claim) // of what the job holds; nil: nothing
	Fatal    error              // the executor is to end; nil: it is not
	Payloads map[uint64]error   // each payload has its own; nil: they have not
}

// Unread is what comes of a job that did not run, because the journal could not give back its payloads.
type Unread struct{ Err error }

func (e *Unread) Error() string { return e.Err.Error() }
func (e *Unread) Unwrap() error { return e.Err }

// RetryIn is the default pause before retry n.
func RetryIn(n int) time.Duration {
	n = min(max(n, 0), 1000) // 1000⁴ s is 30,000 years, and far from overflow
	seconds := n*n*n*n + 15 + rand.IntN(30)*(n+1)
	return min(time.Duration(seconds), 100*365*24*60*60) * time.Second
}

// Doomed returns how many payloads of an item with an outcome the shard will bury, which of
// them is the first, and why.
func (r *Rules) Doomed(it *shard.Item) (n, first int, reason string) {
	out := &it.Outcome
	first = len(it.Payloads)
	for _, part := range out.Parts {
		if part.Verdict == shard.VerdictCanceled {
			if n++; n == 1 {
				first, reason = part.Index, part.Error
			}
		}
	}
	rest, canceled := len(it.Payloads)-len(out.Parts), out.Verdict == shard.VerdictCanceled // that the verdict is about
	switch {
	case rest == 0, !canceled && (!r.Core.Exhausts(it) || r.Core.Halt):
		return n, first, reason
	case r.Core.Single:
		return 1, out.Done, out.Error
	case r.Core.Fold != nil, !canceled && !r.Core.BuryAll: // a fold is one
		rest = 1
	}
	return n + rest, min(first, oldest(out.Parts)), out.Error
}

// oldest returns the index of the first payload that is none of the parts.
func oldest(parts []shard.Part) (i int) {
	for i < len(parts) && parts[i].Index == i {
		i++
	}
	return i
}
