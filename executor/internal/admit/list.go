// Package admit says why a job does not run, and what it holds while it does. A queue has
// a list of conditions: keys, leases, slots, limits, turns. A worker that has come to a job
// asks them one after the other, and knows none by name.
//
//	            a condition says ErrWaits              all have let it pass
//	in line ◄────────────────────────────── asked ──────────────────────────► runs
//	   │                                     ▲ │ another error                  │ Settle, in the
//	   └── Claim.Wake: its shard hears it ───┘ └──► does not run ──────────────►│ commit of its end
//	                                                                            ▼ Release
//
// # What is promised
//
//   - A job that waits stands in the line of one condition, and holds nothing: what others
//     gave it is back, and where it stood in their lines, they let others pass.
//   - Whoever waits is woken once its turn has come, by Claim.Wake, and asks all again.
//   - What a job holds ends in the commit that settles it, with what the journal has of it;
//     others are woken when that is recorded.
//   - A condition that has to be on disk before the job runs, a [Durable] one, is: one wait
//     for the disk for all jobs of a batch. Those behind it are asked after that.
//   - Jobs that wait for each other in a circle, over all conditions and over the calls of
//     handlers, are found by the one that closes it, which fails with the names of all: see
//     [Graph]. A job that waits for one of several is stuck only if all of them are.
//   - A queue without conditions has no list, and makes no [Claim].
//
// # What is not promised
//
// An order between conditions: the list is asked from its front each time, so a job may
// lose a turn in one while it waits for another. A wait that a condition can't name, for a
// service of the program's own say, is in no circle.
//
// # Concurrency
//
// A Claim belongs to the worker that has the job, and then to the recorder of its shard; Wake may be called
// by anybody. A condition has a mutex of its own, or is guarded by the [Ledger]; wakers are called under
// none. Census: no goroutine; a timer for each lease that is kept alive.
package admit

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/shards"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// List is what the jobs of one queue have to meet, in the order in which it is asked. A
// queue without conditions has no list. It does not change once jobs run.
type List struct {
	Queue  string
	Logger *slog.Logger
	Ledger *Ledger
	Graph  *Graph
	Decode func(it *shard.Item) ([]Payload, error) // what a worker has in hand
	Shards *shards.Set
	Clock  func() int64

	asked     []Condition   // before a job runs
	again     atomic.Uint64 // calls of AskAgain
	durable   int           // those of asked up to the last whose holds have to be on disk; 0: none
	checkers  []Checker
	witnesses []Witness
	listeners []Listener
	all       []any // that were asked or kept
}

// Payload is a payload that a worker has in hand.
type Payload struct {
	Position uint64
	Raw      []byte
	Value    any
}

// Ask adds a condition that jobs have to meet.
func (l *List) Ask(c Condition) {
	l.asked = append(l.asked, c)
	if _, durable := c.(Durable); durable {
		l.durable = len(l.asked)
	}
	l.Keep(c)
}

// Keep adds what is not asked before a job runs, but has a part in what becomes of it.
func (l *List) Keep(c any) {
	l.all = append(l.all, c)
	if w, ok := c.(Witness); ok {
		l.witnesses = append(l.witnesses, w)
	}
	if h, ok := c.(Listener); ok {
		l.listeners = append(l.listeners, h)
	}
}

// Check adds what is asked of each payload before it is accepted.
func (l *List) Check(c Checker) { l.checkers = append(l.checkers, c) }

// Asked reports whether a job has to meet anything before it runs.
func (l *List) Asked() bool { return l != nil && len(l.asked) > 0 }

// Empty reports whether there is nothing in it.
func (l *List) Empty() bool { return len(l.asked)+len(l.checkers)+len(l.witnesses) == 0 }

// Durable reports whether a condition gives something that has to be on disk before the
// next ones are asked and the job runs.
func (l *List) Durable() bool { return l.durable > 0 }

// Checked reports whether payloads are looked at before they are accepted.
func (l *List) Checked() bool { return l != nil && len(l.checkers) > 0 }

// CheckAll returns the first error of those that look at a payload.
func (l *List) CheckAll(id string, value any) error {
	for _, c := range l.checkers {
		if err := c.Check(id, value); err != nil {
			return err
		}
	}
	return nil
}

// All are the conditions, in their order.
func (l *List) All() []Condition {
	if l == nil {
		return nil
	}
	return l.asked
}

// has reports whether others may wait for what a job has that does not run. The list may be nil.
func (l *List) has(by Owner) bool {
	return l != nil && slices.ContainsFunc(l.all, func(c any) bool {
		p, knows := c.(Possessor)
		return !knows || p.Has(by)
	})
}

// Aside has a job wait nowhere.
func (l *List) Aside(by Owner, forget bool) {
	for _, c := range l.asked {
		c.Aside(by, forget)
	}
}

// Called returns the jobs whose turn has come, and which no worker has.
func (l *List) Called() (ids []string) {
	for _, c := range l.All() {
		if caller, ok := c.(Caller); ok {
			ids = append(ids, caller.Called(l.Queue)...)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(ids)))
}

// Retire says that no job of the queue runs any more. The list may be nil.
func (l *List) Retire() {
	for _, c := range l.All() {
		if r, ok := c.(Retired); ok {
			r.Retire()
		}
	}
}

// With adds v to a list unless it is there.
func With[E comparable](list []E, v E) []E {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

// Wake has a job ask again that waits, if it is going to come.
func (l *List) Wake(id string) {
	l.Shards.Of(id).Tell(func(c *shard.Core) {
		c.Let(id, shard.HoldWait)
		l.Yield(c, id)
	})
}

// Yield has a job that is called, and not going to come, because it is paused, halted, put off or gone, let others
// have its turn. It is called on its shard, which says itself when what comes for a job puts it off later.
func (l *List) Yield(c *shard.Core, id string) {
	if l.StepAside(c, id); !c.Paused(id) && !c.Holds(id, shard.HoldWait) {
		if job := c.Status(id); !job.Known || !job.Running && (job.Halted || job.Due > l.Clock()) {
			l.Aside(Owner{Queue: l.Queue, ID: id}, false)
		}
	}
}

// AskAgain is Wake for a job that has left its line, because something else has closed a
// circle through it. The worker that is about to give it back hears of it, too.
func (l *List) AskAgain(id string) {
	l.again.Add(1)
	l.Wake(id)
}

// StepAside has a job that is paused wait for nothing else: its turn would keep others waiting until it
// goes on. Then it asks again, behind them. It is called on its shard. The list may be nil.
func (l *List) StepAside(c *shard.Core, id string) {
	if l.Asked() && c.Paused(id) && !c.Status(id).Running {
		l.Aside(Owner{Queue: l.Queue, ID: id}, true)
		c.Let(id, shard.HoldWait)
	}
}

// StepAsideAll is StepAside for all jobs whose turn it is.
func (l *List) StepAsideAll() {
	for _, id := range l.Called() {
		l.Shards.Of(id).Tell(func(c *shard.Core) { l.StepAside(c, id) })
	}
}

// ErrWaits is what a condition returns for a job that stands in its line: it has kept the
// claim, and calls Wake of that once when the job may ask again.
var ErrWaits = errors.New("admit: the job waits")

// Condition is one reason for which a job does not run.
type Condition interface {
	// Enter lets a job pass that a worker has in hand. It returns what the job holds while it runs, or nil
	// if that is nothing; ErrWaits; or what becomes of a job that does not run.
	Enter(ctx context.Context, c *Claim) (Hold, error)

	// Aside says that a job does not wait here for now, because it waits for something else, is paused or
	// put off. The condition may remember when it came, unless it is to forget the job.
	Aside(by Owner, forget bool)

	// Waits says for what a job waits here, for the search for circles.
	Waits(by Owner) []Wait

	// Explain says what a job waits for here, for people; false: it does not.
	Explain(by Owner, e *inspect.Explanation) bool
}

// Wait is what keeps a job waiting, as the search for circles sees it.
type Wait struct {
	For string  // for people: a key, the name of a limit, "the end" of a job
	On  []Owner // those that have it; the zero Owner is a person
	Any bool    // one of On is enough; else all of them have to go on
}

// Hold is what a job has of a condition while it runs. Release lets others have what Settled has
// left. It may wake them: nothing is held.
type Hold interface{ Release() }

// What follows a condition or a hold may be besides.
type (
	// Settled is a hold of which the journal has to know. Settle ends it as the verdict says;
	// over: the job does not run again. VerdictUnstarted takes back what was taken for a job
	// that does not run now. The ledger is held.
	Settled interface {
		Settle(v shard.Verdict, over bool) []journal.Set
	}

	// Lease is a hold that may be lost while the job runs.
	Lease interface {
		KeepAlive() // from when the handler is called
		Lost() bool
		OnLost(f func(reason error)) (forget func())
	}

	// Durable is a condition whose holds are on disk before the job runs. Those that
	// come after it in the list are asked when they are.
	Durable interface{ Durable() }

	// Renewed is a hold that is asked again when all that was to be on disk is: the time of
	// a lease counts from then; false: it has expired, or the job is blocked by now.
	Renewed interface{ Renew() bool }

	// Concluded is a hold that has a part in the end of a job that is done or discarded: an
	// error of it makes that a failure.
	Concluded interface {
		Conclude(ctx context.Context, v shard.Verdict) error
	}

	// Early is a hold that ends when the handler has returned, before anybody hears what became of the job.
	Early interface{ Returned() }

	// Holder is a condition that adds what a job has of it, for people.
	Holder interface {
		Held(by Owner, h *inspect.Holdings)
	}

	// Caller is a condition that keeps a turn for a job until a worker comes to it.
	Caller interface {
		Called(queue string) (ids []string)
	}

	// Retired is a condition that hears when no job of the queue runs any more.
	Retired interface{ Retire() }

	// Possessor is a condition that knows whether a job that does not run has something of it
	// for which others may wait. Of any other condition it may.
	Possessor interface{ Has(by Owner) bool }

	// Keeper is a condition that keeps something for jobs that don't run. Abandoned is
	// Settle for a job that ends, or has failed, without having entered.
	Keeper interface {
		Abandoned(by Owner, v shard.Verdict, over bool) []journal.Set
	}

	// Witness sees what becomes of payloads, before and after the holds of a change are
	// settled. The ledger is held.
	Witness interface {
		Merging(c *shard.Change)
		Ending(c *shard.Change)
	}

	// Listener hears of a change when the journal has it.
	Listener interface{ Recorded(c *shard.Change) }

	// Checker refuses a payload of which it can't be computed what its job will ask for.
	Checker interface {
		Check(id string, value any) error
	}
)

// Alarm is a timer that is set to what happens next by itself, of all that its owner
// knows of. It is guarded by the owner's mutex.
type Alarm struct {
	timer *time.Timer   // nil until it was set
	rings time.Duration // when it does, since base; 0: it does not
}

// Set has f called at a time since base, or before that if it was set so: then it rings for nothing, once,
// and is set again. Without ok it is not called. f has to say that it was, with Rang.
func (a *Alarm) Set(base time.Time, at time.Duration, ok bool, f func()) {
	switch {
	case !ok:
		if a.rings = 0; a.timer != nil {
			a.timer.Stop()
		}
		return
	case a.rings > 0 && a.rings <= at:
		return
	case a.timer == nil:
		a.timer = time.AfterFunc(at-time.Since(base), f)
	default:
		a.timer.Reset(at - time.Since(base))
	}
	a.rings = at
}

// Rang notes that it did.
func (a *Alarm) Rang() { a.rings = 0 }
