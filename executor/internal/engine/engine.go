// Package engine names what an executor consists of, for its other parts. It is the whole view of
// those that show it to people and act on it for them, packages look and act: they know no worker,
// and nothing of how a job is enqueued or run.
//
// The executor fills an [Engine] when it opens, and a [Queue] before the queue is registered;
// after that neither changes, but for how far a stop has come. The functions may be called from any
// goroutine, and under no lock.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/backlog"
	"github.com/strandjobs/strand/executor/internal/dead"
	"github.com/strandjobs/strand/executor/internal/dispatch"
	"github.com/strandjobs/strand/executor/internal/goroutine"
	"github.com/strandjobs/strand/executor/internal/keylock"
	"github.com/strandjobs/strand/executor/internal/limit"
	"github.com/strandjobs/strand/executor/internal/pause"
	"github.com/strandjobs/strand/executor/internal/quarantine"
	"github.com/strandjobs/strand/executor/internal/setting"
	"github.com/strandjobs/strand/executor/internal/shards"
	"github.com/strandjobs/strand/executor/internal/slots"
	"github.com/strandjobs/strand/executor/internal/tally"
	"github.com/strandjobs/strand/executor/internal/unique"
	"github.com/strandjobs/strand/journal"
)

// MaxIDBytes is the length of the longest id.
const MaxIDBytes = 512

// Errors of package executor, which says what they mean.
var (
	ErrInvalidID    = errors.New("executor: invalid id")
	ErrUnknownQueue = errors.New("executor: unknown queue")
	ErrUnknown      = errors.New("executor: outcome unknown")
)

// CheckID refuses an id that no job can have.
func CheckID(id string) error {
	if id == "" || len(id) > MaxIDBytes {
		return badID(id)
	}
	return nil
}

// badID is apart so that CheckID is inlined, which each payload comes through.
func badID(id string) error {
	return fmt.Errorf("%w: it has %d bytes, it must have from 1 to %d", ErrInvalidID, len(id), MaxIDBytes)
}

// Engine is an executor.
type Engine struct {
	Log        *journal.Log
	Backlog    *backlog.Backlog
	Dispatcher *dispatch.Dispatcher
	Keys       *keylock.Keys
	Leases     *unique.Leases
	Ledger     *admit.Ledger // of what jobs hold
	Limits     *limit.Limits
	Pauses     *pause.Board
	Quarantine *quarantine.Quarantine
	Watchdog   *attempt.Watchdog
	Graph      *admit.Graph // of jobs that wait for each other

	Failed, Stopped <-chan struct{} // closed when it can't go on, and when a Stop has ended
	Failure         func() error    // why it has failed
	Closed          error           // what calls return once a stop has begun

	// What jobs run under.
	Logger   *slog.Logger
	Volatile bool                      // the journal is in memory
	Handlers context.Context           // what the contexts of handlers come from
	Starting context.Context           // ends with Closed when nothing new is started
	Crashes  int                       // of which a job is given up; 0: none is
	Fail     func(error)               // the journal can't give back a payload
	Draining atomic.Bool               // nothing new is started
	Hurried  atomic.Pointer[time.Time] // when the contexts of handlers ended; nil: they have not

	Now        func() int64                      // in Unix nanoseconds
	Registered func() []*Queue                   // in no particular order
	Lookup     func(name string) (*Queue, error) // one of these
	Hands      func(now time.Time) []Hand        // workers that have something in hand
	EndRemoved func()                            // ends the contexts of what runs and is to be gone

	// What a caller gives is its own code, and what it gets is the executor's.
	MayChange func(context.Context) (context.Context, error) // the same, of a call that changes something
	Border    func(error) error                              // the executor's error for one of the journal or of a shard
}

// Queue is a registered queue.
type Queue struct {
	Name   string
	Number uint32 // in the journal
	Shards *shards.Set

	Share     *dispatch.Queue
	Dead      *dead.Letters
	Pauses    pause.Queue
	Admission *admit.List      // what jobs have to meet before they run; nil: nothing
	Slots     []slots.Sequence // of it
	Lines     tally.Queue      // of the log

	// Decode is what the codec makes of a payload, for people. Panics are errors.
	Decode func(payload []byte) (any, error)
}

// Hand is what a worker has in hand, and its goroutine.
type Hand struct {
	inspect.Running
	Goroutine goroutine.Header
}

// LeftOver returns how many payloads the journal had for a name that is not
// registered yet, and how many dead ones; known: it has the name.
func LeftOver(log *journal.Log, name string) (entries, dead int, known bool) {
	number, known := log.Queues()[name]
	if !known {
		return 0, 0, false
	}
	return log.Unclaimed()[number], log.Buried(number), true
}

// Unclaimed refuses the queues that have jobs and are not registered.
func Unclaimed(log *journal.Log) error {
	counts := log.Unclaimed()
	var names []string
	for name, number := range log.Queues() {
		if n := counts[number]; n > 0 {
			names = append(names, fmt.Sprintf("%q (%d payloads)", name, n))
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("%w: the journal has jobs of queues that are not registered: %s; register them, name them in RenamedFrom of the queue that takes over, or leave Strict off",
		setting.ErrConfig, strings.Join(names, ", "))
}
