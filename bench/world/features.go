package world

import (
	"context"
	"math/rand/v2"

	"github.com/strandjobs/strand/executor"
)

// ctx is short for what each act gets.
type ctx = context.Context

// feature is what a feature of the executor can do in a world, and what it promises. All
// functions may be nil. What it has set is in the lines of a script: a function that finds
// no argument of its own there has no effect.
type feature struct {
	name     string
	always   bool   // each swarm has it
	faults   bool   // of a disk or a clock in memory: no swarm on a file has it
	recorded bool   // it is about what ran when a process died: only swarms on a file whose journal knows that have it
	lives    bool   // it ends a life: no swarm whose journal goes with the process has it
	apart    bool   // it is of one executor: no swarm on a cluster has it
	dear     bool   // it takes as much as ten others: one swarm in some eighty has it, and none on a file
	claims   string // exported names that it covers, such as Gather.Fold; see TestEveryNameIsClaimed

	// A script is drawn.
	world   func(d *draw, l line) // sets arguments of the configuration
	queue   func(d *draw, l line) // of a queue, of which the shape is known
	enqueue func(d *draw, l line) // of a call that enqueues
	plan    []string              // acts that plans may have
	steps   []step

	// A script is played.
	config func(w *world, cfg *executor.Config)                              // of a life
	begin  func(w *world, x *executor.Executor)                              // of a life, before the queues
	apply  func(w *world, q *queue, cfg *executor.QueueConfig[payload])      // of a life
	after  func(w *world, x *executor.Executor) error                        // of a life, after the queues
	option func(w *world, l line) []executor.Option                          // of a call
	acts   map[string]func(*world, context.Context, *run, int, string) error // by name
	lift   func(w *world)                                                    // ends what keeps jobs from running

	// What is promised; with the lock of the world held.
	answered func(w *world, q *queue, l line, mine []*item, receipts []executor.Receipt, err error) // of a call that enqueues
	died     func(w *world, r *run)                                                                 // of a run that a dead process has ended

	began func(w *world, r *run)
	ended func(w *world, r *run, err error)
	calm  func(w *world, c *census) // at a moment when nothing is under way
	peek  func(w *world)            // likewise, and without the lock; nothing is said of what is not shown
}

// step is something that can happen.
type step struct {
	verb   string
	weight int
	call   bool // it may be made by a goroutine of its own, while jobs run
	draw   func(d *draw) line
	play   func(w *world, l line)
}

// features are all of them.
var features []*feature

func init() {
	features = []*feature{living, clustering, enqueueing, passing, ordering, conserving, requeueing, naming, crashing, disk, operating, pausing, waiting,
		merging, folding, putOff, itemizing, setting, once, following, asynchronous,
		limiting, excluding, locking, numbering, sharing, timing, watching, keeping,
		calling, pressing, around, meddling, shares, dividing, listening, scheduling, coding, computing, viewing, crowding, blaming,
		trying, redeploying, copying, hooking,
		exhausting, // behind the others: what is halted may be locked, or paused
		superseding}
}

// draw makes a script.
type draw struct {
	*rand.Rand
	swarm    []*feature
	queues   []line
	n        int  // numbers of payloads
	file     bool // the world is on a file
	recorded bool // whose journal knows what ran when a process died
	cluster  bool // of several nodes
	gone     bool // its journal goes with the process
}

func (d *draw) one(of ...string) string { return of[d.IntN(len(of))] }

// chance is true in one of n cases.
func (d *draw) chance(n int) bool { return d.IntN(n) == 0 }

func (d *draw) id() string { return d.one("a", "b", "c") }

func (d *draw) anyQueue() line { return d.queues[d.IntN(len(d.queues))] }

func (d *draw) has(name string) bool {
	for _, f := range d.swarm {
		if f.name == name {
			return true
		}
	}
	return false
}
