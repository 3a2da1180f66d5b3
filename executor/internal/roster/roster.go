// Package roster has the queues of an executor, by name. It registers them, each with what the
// journal has for it under its name and its former ones, and routes to their shards what the
// journal delivers.
//
// # What is promised
//
//   - A queue is known once its shards have what was pending, and all pauses. One that may not have
//     its name, or not its lanes any more, has taken nothing over.
//   - What a queue had under a former name is its own: payloads, dead letters, pauses, locks and
//     slots. It is taken over again if the process dies between two of these.
//   - No two queues have a name, and none gets the former name of one that was registered before.
//
// # Concurrency
//
// Queues are registered one at a time, under Arranging, which waits for the disk. A delivery loads
// one pointer and takes no lock. Any goroutine may ask. Census (goroutines, timers): none.
package roster

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/strandjobs/strand/actor"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/dispatch"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/lane"
	"github.com/strandjobs/strand/executor/internal/setting"
	"github.com/strandjobs/strand/executor/internal/submit"
	"github.com/strandjobs/strand/executor/internal/tell"
	"github.com/strandjobs/strand/executor/internal/work"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Roster is what is registered with an executor, by name. Make one with [New], and fill it in.
type Roster struct {
	Actors   *actor.System
	Wall     func() time.Time // for when jobs are due; nil: this machine's
	Events   *tell.Feed
	Stopping *atomic.Bool
	Begun    func() bool // a Start, or a Stop, has begun
	Cluster  bool        // several processes are its executor
	Part     bool        // its executor is that of a partition

	// Arranging is held while a queue is registered and while workers are made: both wait for
	// the disk. It is taken before mu, and before the mutex of package life.
	Arranging sync.Mutex

	// routes are all shards by number. It only grows; a copy is swapped in under Arranging,
	// because the committer reads it.
	routes atomic.Pointer[[]Route]

	lanes sync.Map // *lane.Lanes that queues share, by name

	// mu guards what follows. No call into another room and no user code is under it.
	mu     sync.Mutex
	queues map[string]*Queue
}

// Queue is a queue that is registered, or is to be.
type Queue struct {
	work.Queue
	Front any // the queue as its executor has it

	Tuning      dispatch.Share // from the start on
	Limit       shard.Weight   // of the backlog; 0: none
	RenamedFrom []string
	SharedLanes string
}

// Names are all that the queue has or had.
func (q *Queue) Names() []string { return append([]string{q.Name}, q.RenamedFrom...) }

// Route is where the journal delivers to.
type Route struct {
	*shard.Shard
	Queue *Queue
}

// New returns a roster of no queue.
func New() *Roster {
	r := &Roster{queues: make(map[string]*Queue)}
	r.routes.Store(new([]Route))
	return r
}

// Deliver is called by the committer, in commit order.
func (r *Roster) Deliver(d *journal.Delivery) {
	to := &(*r.routes.Load())[d.Route]
	if to.Queue.Events.Watched() {
		to.Queue.Events.Accepted(d)
	}
	to.Shard.Deliver(d)
}

// Routes are all shards, in the order in which their queues were registered.
func (r *Roster) Routes() []Route { return *r.routes.Load() }

// Add makes a queue known, with what the journal has for it.
func (r *Roster) Add(q *Queue) error {
	if q.Name == "" || len(q.Name) > engine.MaxIDBytes {
		return fmt.Errorf("%w: the name of a queue has from 1 to %d bytes, not %d", setting.ErrConfig, engine.MaxIDBytes, len(q.Name))
	}
	if err := r.arrange(q); err != nil {
		return err
	}
	if q.Far > 0 { // not under Arranging: other queues may be registered meanwhile
		guard.Log(func() {
			q.Crew.Logger.Warn("jobs are due in more than 50 years; was the clock wrong? RunNow runs them",
				slog.String("queue", q.Name), slog.Int64("payloads", q.Far))
		})
	}
	return nil
}

// arrange makes the queue.
func (r *Roster) arrange(q *Queue) error {
	r.Arranging.Lock()
	defer r.Arranging.Unlock()
	if err := r.mayHave(q, q.Name); err != nil {
		return err
	}
	e := q.Crew.Engine
	if !q.Supersedes { // there the position says what is newer
		q.Scores.Clock = e.Now
	}
	if err := r.takeOver(q); err != nil {
		return err
	}
	number, err := e.Log.Queue(context.Background(), q.Name)
	if err != nil {
		return e.Border(err)
	}
	q.Number = number
	r.Events.Join(&q.Events, q.Name, &q.Core)
	e.Watchdog.Expect(q.Timeout)
	e.Watchdog.Expect(q.Heartbeat)
	r.joinLanes(q)
	q.Backlog = e.Backlog.Join(q.Name, q.Limit)
	q.Share = e.Dispatcher.Join(q.Name, &q.Queue, q.Tuning)
	q.Core.Weighed = q.Backlog.Limited()
	if err := r.openShards(q); err != nil {
		return err
	}
	e.Pauses.Adopt(&q.Pauses)
	q.Dead.Open(e.Handlers)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queues[q.Name] = q
	return nil
}

// mayHave returns why a queue can't have a name. Arranging is held.
func (r *Roster) mayHave(q *Queue, name string) error {
	all := r.All()
	heir := slices.IndexFunc(all, func(other *Queue) bool { return slices.Contains(other.RenamedFrom, name) })
	switch {
	case r.Stopping.Load():
		return q.Crew.Closed
	case r.Cluster && (!utf8.ValidString(name) || strings.ContainsRune(name, 0)):
		return fmt.Errorf("%w: the name of queue %q is not UTF-8, or has a zero byte, which a cluster can't have in names", setting.ErrConfig, name)
	case q.SharedLanes != "" && r.Begun(): // some might run that should have come after those of the queue
		return fmt.Errorf("%w: queue %q shares the lanes %q, so it must be registered before Start", submit.ErrState, q.Name, q.SharedLanes)
	case r.Cluster && r.Begun():
		return fmt.Errorf("%w: queue %q comes after Start; a cluster has all of its queues before", submit.ErrState, name)
	case r.Named(name) != nil:
		return fmt.Errorf("%w: queue %q is registered already", setting.ErrConfig, name)
	case heir >= 0 && name == q.Name:
		return fmt.Errorf("%w: queue %q has a former name of queue %q, which would take its jobs over at the next start: take it out of RenamedFrom there",
			setting.ErrConfig, name, all[heir].Name)
	}
	return nil
}

// takeOver gives the queue what the journal has under its former names. Arranging is held.
func (r *Roster) takeOver(q *Queue) error {
	for _, former := range slices.DeleteFunc(slices.Clone(q.RenamedFrom), func(name string) bool { return name == q.Name }) {
		entries, dead, known := engine.LeftOver(q.Log, former)
		own, ownDead, _ := engine.LeftOver(q.Log, q.Name)
		if err := r.mayHave(q, former); err != nil {
			if entries+dead == 0 {
				continue
			}
			return fmt.Errorf("RenamedFrom of queue %q: %w", q.Name, err)
		}
		// Under MergeSupersede the newest counts, wherever it was. A partition may have been with an earlier build in between.
		if entries+dead > 0 && own+ownDead > 0 && !q.Supersedes && !r.Part {
			return fmt.Errorf("%w: queue %q has %d payloads and %d dead ones in the journal, and so has its former name %q: %d and %d; register both until one of them has none",
				setting.ErrConfig, q.Name, own, ownDead, former, entries, dead)
		}
		if known { // with no payload left there is still what has run of each id
			if err := q.Log.Rename(context.Background(), former, q.Name); err != nil {
				return q.Crew.Border(err)
			}
		}
		// What jobs hold, and what is paused: again, if the last process has died before it had done so.
		q.Keys.Rename(former, q.Name)
		for _, s := range q.Slots {
			s.Rename(former, q.Name)
		}
		if err := q.Crew.Pauses.Rename(former, q.Name); err != nil {
			return q.Crew.Border(err)
		}
	}
	return nil
}

// joinLanes finds the lanes that the queue shares.
func (r *Roster) joinLanes(q *Queue) {
	if q.SharedLanes == "" {
		return
	}
	lanes, _ := r.lanes.LoadOrStore(q.SharedLanes, new(lane.Lanes))
	q.Lanes.Lanes, q.Lanes.Number = lanes.(*lane.Lanes), q.Number
	q.Lanes.Join(q.Number, q.Name)
}

// openShards starts the shards, and routes to them what the journal delivers.
func (r *Roster) openShards(q *Queue) error {
	routes := slices.Clone(r.Routes())
	suspects, err := q.Open(len(routes), r.Actors, r.Wall)
	if err != nil {
		return q.Crew.Border(err)
	}
	for _, s := range q.Shards.All {
		routes = append(routes, Route{s, q})
	}
	r.routes.Store(&routes)
	for _, s := range suspects {
		q.Suspects.Admit(s)
	}
	return nil
}

// Lookup returns a registered queue.
func (r *Roster) Lookup(name string) (*Queue, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.queues[name]; q != nil {
		return q, nil
	}
	return nil, fmt.Errorf("%w: %q; registered are: %s", engine.ErrUnknownQueue, name,
		cmp.Or(strings.Join(slices.Sorted(maps.Keys(r.queues)), ", "), "none yet"))
}

// Named returns the queue of a name; nil: there is none.
func (r *Roster) Named(name string) *Queue {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queues[name]
}

// All returns the queues there are, in no particular order.
func (r *Roster) All() []*Queue {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.queues))
}

// Names returns which queue each name is, or was, and the lanes that each of them shares.
func (r *Roster) Names() (queues, lanes map[string]string) {
	queues, lanes = make(map[string]string), make(map[string]string)
	for _, to := range r.Routes() { // in the order in which they were registered, as for takeOver
		lanes[to.Queue.Name] = to.Queue.SharedLanes
		for _, former := range to.Queue.RenamedFrom {
			queues[former] = cmp.Or(queues[former], to.Queue.Name)
		}
	}
	for name := range lanes {
		queues[name] = name
	}
	return queues, lanes
}

// Conditions returns those of a queue, nil if there are none.
func (r *Roster) Conditions(queue string) *admit.List {
	if q := r.Named(queue); q != nil {
		return q.Admission
	}
	return nil
}
