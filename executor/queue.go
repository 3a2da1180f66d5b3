package executor

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
	"unicode/utf8"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/dispatch"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/lane"
	"github.com/strandjobs/strand/executor/internal/work"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Queue is a registered queue. Its methods may be called from any goroutine.
type Queue[T any] struct {
	q   *queue
	cfg QueueConfig[T]
}

// queue is a registered queue without its type parameter: what the engine works
// with.
type queue struct {
	settings
	work.Queue
	x *Executor

	layers layers // what stands around its calls
}

// errNoQueue is what a Queue says that no registration made.
var errNoQueue = fmt.Errorf("%w: this queue was not made by Handle, HandleMerged or HandleBatch", ErrState)

// Name returns the name of the queue, empty if it was not made by Handle,
// HandleMerged or HandleBatch.
func (t *Queue[T]) Name() string {
	if t == nil || t.q == nil {
		return ""
	}
	return t.q.Name
}

// Executor returns the executor that the queue was registered with, nil if it was
// not made by Handle, HandleMerged or HandleBatch.
func (t *Queue[T]) Executor() *Executor {
	if t == nil || t.q == nil {
		return nil
	}
	return t.q.x
}

// Tuning returns what holds for the queue now. That of a queue which no registration
// has made is zero.
func (t *Queue[T]) Tuning() QueueTuning {
	if t == nil || t.q == nil {
		return QueueTuning{}
	}
	return QueueTuning(t.q.Share.Share())
}

// Tune sets how the queue shares the workers with others, from the next grant of a
// worker on; what runs goes on. All fields count: to change one of them, begin with
// those that hold:
//
//	tuning := queue.Tuning()
//	tuning.Weight = 5
//	err := queue.Tune(tuning)
//
// It is for this process: after a restart the [QueueConfig] holds again. It returns
// ErrConfig, or ErrState for a queue that no registration has made; then it is as it
// was. After Stop it has no effect.
func (t *Queue[T]) Tune(tuning QueueTuning) error {
	if t == nil || t.q == nil {
		return errNoQueue
	}
	if err := tuning.check(""); err != nil {
		return err
	}
	t.q.Share.Tune(dispatch.Share(tuning))
	if t.q.x.cluster != nil {
		t.q.x.cluster.Do(func(part *Executor) {
			if own := part.queues.named(t.q.Name); own != nil {
				own.Share.Tune(dispatch.Share(tuning))
			}
		})
	}
	return nil
}

// registry is what is registered with an executor, by name.
type registry struct {
	// arranging is held while a queue is registered and while workers are made:
	// both wait for the disk. It is taken before mu, and before that of life.
	arranging sync.Mutex

	// routes are all shards by number. It only grows; a copy is swapped in under
	// arranging, because the committer reads it.
	routes atomic.Pointer[[]route]

	slots sync.Map // names of slots
	lanes sync.Map // *lane.Lanes that queues share, by name

	// mu guards what follows. No call into another room and no user code is under it.
	mu     sync.Mutex
	queues map[string]*queue
}

// route is where the journal delivers to.
type route struct {
	*shard.Shard
	queue *queue
}

// deliver is called by the committer, in commit order.
func (r *registry) deliver(d *journal.Delivery) {
	to := &(*r.routes.Load())[d.Route]
	if to.queue.Events.Watched() {
		to.queue.Events.Accepted(d)
	}
	to.Deliver(d)
}

// add makes a queue of an executor known, with what the journal has for it.
func (r *registry) add(q *queue) error {
	if q.Name == "" || len(q.Name) > MaxIDBytes {
		return fmt.Errorf("%w: the name of a queue has from 1 to %d bytes, not %d", ErrConfig, MaxIDBytes, len(q.Name))
	}
	if err := r.arrange(q); err != nil {
		return err
	}
	if q.Far > 0 { // not under arranging: other queues may be registered meanwhile
		guard.Log(func() {
			q.x.cfg.Logger.Warn("jobs are due in more than 50 years; was the clock wrong? RunNow runs them",
				slog.String("queue", q.Name), slog.Int64("payloads", q.Far))
		})
	}
	return nil
}

// arrange makes the queue.
func (r *registry) arrange(q *queue) error {
	r.arranging.Lock()
	defer r.arranging.Unlock()
	if err := q.mayRegister(q.Name); err != nil {
		return err
	}
	x := q.x
	if !q.Supersedes { // there the position says what is newer
		q.Scores.Clock = q.Crew.Now
	}
	if err := q.takeOver(); err != nil {
		return err
	}
	number, err := x.log.Queue(context.Background(), q.Name)
	if err != nil {
		return border(err)
	}
	q.Number = number
	x.events.Join(&q.Events, q.Name, &q.Core)
	x.crew.Watchdog.Expect(q.Timeout)
	if err := q.joinLanes(); err != nil {
		return err
	}
	x.crew.Watchdog.Expect(q.Heartbeat)
	q.Backlog = x.backlog.Join(q.Name, q.limit)
	q.Share = x.crew.Dispatcher.Join(q.Name, &q.Queue, dispatch.Share(q.tuning))
	q.Core.Weighed = q.Backlog.Limited()
	if err := r.openShards(q); err != nil {
		return err
	}
	x.pauses.Adopt(&q.Pauses)
	q.Dead.Open(x.crew.Handlers)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queues[q.Name] = q
	return nil
}

// mayRegister returns why the queue can't have a name. arranging is held.
func (q *queue) mayRegister(name string) error {
	x, all := q.x, q.x.queues.all()
	heir := slices.IndexFunc(all, func(other *queue) bool { return slices.Contains(other.renamedFrom, name) })
	switch {
	case x.stopping.Load():
		return ErrClosed
	case x.cluster != nil && (!utf8.ValidString(name) || strings.ContainsRune(name, 0)):
		return fmt.Errorf("%w: the name of queue %q is not UTF-8, or has a zero byte, which a cluster can't have in names", ErrConfig, name)
	case x.cluster != nil && !x.before(starting):
		return fmt.Errorf("%w: queue %q comes after Start; a cluster has all of its queues before", ErrState, name)
	case x.queues.named(name) != nil:
		return fmt.Errorf("%w: queue %q is registered already", ErrConfig, name)
	case heir >= 0 && name == q.Name:
		return fmt.Errorf("%w: queue %q has a former name of queue %q, which would take its jobs over at the next start: take it out of RenamedFrom there",
			ErrConfig, name, all[heir].Name)
	}
	return nil
}

// openShards starts the shards, and routes to them what the journal delivers.
func (r *registry) openShards(q *queue) error {
	routes := slices.Clone(*r.routes.Load())
	suspects, err := q.Open(len(routes), q.x.actors, q.x.wall)
	if err != nil {
		return border(err)
	}
	for _, s := range q.Shards.All {
		routes = append(routes, route{s, q})
	}
	r.routes.Store(&routes)
	for _, s := range suspects {
		q.Suspects.Admit(s)
	}
	return nil
}

// takeOver gives the queue what the journal has under its former names. arranging
// is held, and the queue is not registered.
func (q *queue) takeOver() error {
	for _, former := range slices.DeleteFunc(slices.Clone(q.renamedFrom), func(name string) bool { return name == q.Name }) {
		entries, dead, known := engine.LeftOver(q.x.log, former)
		own, ownDead, _ := engine.LeftOver(q.x.log, q.Name)
		if err := q.mayRegister(former); err != nil {
			if entries+dead == 0 {
				continue
			}
			return fmt.Errorf("RenamedFrom of queue %q: %w", q.Name, err)
		}
		// Under MergeSupersede the newest counts, wherever it was. A partition may have been with an earlier build in between.
		if entries+dead > 0 && own+ownDead > 0 && !q.Supersedes && q.x.front == nil {
			return fmt.Errorf("%w: queue %q has %d payloads and %d dead ones in the journal, and so has its former name %q: %d and %d; register both until one of them has none",
				ErrConfig, q.Name, own, ownDead, former, entries, dead)
		}
		if known { // with no payload left there is still what has run of each id
			if err := q.x.log.Rename(context.Background(), former, q.Name); err != nil {
				return border(err)
			}
		}
		// What jobs hold, and what is paused: again, if the last process has died before it had done so.
		q.x.keys.Rename(former, q.Name)
		for _, s := range q.Slots {
			s.Rename(former, q.Name)
		}
		if err := q.x.pauses.Rename(former, q.Name); err != nil {
			return border(err)
		}
	}
	return nil
}

// names are all that the queue has or had.
func (q *queue) names() []string { return append([]string{q.Name}, q.renamedFrom...) }

// joinLanes finds the lanes that the queue shares. Once jobs run, some might run that
// should have come after those of the queue.
func (q *queue) joinLanes() error {
	if q.sharedLanes == "" {
		return nil
	}
	if !q.x.before(starting) {
		return fmt.Errorf("%w: queue %q shares the lanes %q, so it must be registered before Start", ErrState, q.Name, q.sharedLanes)
	}
	lanes, _ := q.x.queues.lanes.LoadOrStore(q.sharedLanes, new(lane.Lanes))
	q.Lanes.Lanes, q.Lanes.Number = lanes.(*lane.Lanes), q.Number
	q.Lanes.Join(q.Number, q.Name)
	return nil
}

// lookup returns a registered queue.
func (r *registry) lookup(name string) (*queue, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.queues[name]; q != nil {
		return q, nil
	}
	return nil, fmt.Errorf("%w: %q; registered are: %s", ErrUnknownQueue, name, cmp.Or(strings.Join(slices.Sorted(maps.Keys(r.queues)), ", "), "none yet"))
}

// named returns the queue of a name; nil: there is none.
func (r *registry) named(name string) *queue {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queues[name]
}

// all returns the queues there are, in no particular order.
func (r *registry) all() []*queue {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.queues))
}

// conditions returns those of a queue, nil if there are none.
func (r *registry) conditions(queue string) *admit.List {
	if q := r.named(queue); q != nil {
		return q.Admission
	}
	return nil
}
