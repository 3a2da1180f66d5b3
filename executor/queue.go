package executor

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/dead"
	"github.com/strandjobs/strand/executor/internal/dispatch"
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

	scores journal.Floor
	far    int64 // entries that are due in more than 50 years
	again  int   // jobs that ran when the last process died, and run again at once

	layers layers // what stands around its calls
}

// holder is the owner of something: a job, or, if zero, a person.
type holder = admit.Owner

// register makes the queue known, with what the journal has for it.
func (x *Executor) register(q *queue) error {
	if q.Name == "" || len(q.Name) > MaxIDBytes {
		return fmt.Errorf("%w: the name of a queue has from 1 to %d bytes, not %d", ErrConfig, MaxIDBytes, len(q.Name))
	}
	if err := x.arrange(q); err != nil {
		return err
	}
	// Not under arranging: the handler of a logger is user code, and other queues
	// may be registered meanwhile.
	if q.far > 0 {
		x.cfg.Logger.Warn("jobs are due in more than 50 years; was the clock wrong? RunNow runs them",
			slog.String("queue", q.Name), slog.Int64("payloads", q.far))
	}
	return nil
}

// arrange makes the queue.
func (x *Executor) arrange(q *queue) error {
	x.arranging.Lock()
	defer x.arranging.Unlock()
	if err := x.mayRegister(q.Name); err != nil {
		return err
	}
	if q.x = x; !q.Supersedes { // there the position says what is newer
		q.scores.Clock = q.stamp
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
	if err := q.openShards(); err != nil {
		return err
	}
	x.pauses.Adopt(&q.Pauses)
	q.Dead.Open(x.handlers)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.queues[q.Name] = q
	return nil
}

func (x *Executor) mayRegister(name string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state == stopping {
		return ErrClosed
	}
	if x.cluster != nil && (!utf8.ValidString(name) || strings.ContainsRune(name, 0)) {
		return fmt.Errorf("%w: the name of queue %q is not UTF-8, or has a zero byte, which a cluster can't have in names", ErrConfig, name)
	}
	if x.cluster != nil && x.state != opened {
		return fmt.Errorf("%w: queue %q comes after Start; a cluster has all of its queues before", ErrState, name)
	}
	if x.queues[name] != nil {
		return fmt.Errorf("%w: %q", ErrDuplicateQueue, name)
	}
	return nil
}

// openShards starts the shards, each with its part of the pending entries. Nothing
// can be delivered to them before: no caller has the queue yet. They are paused until
// the queue is known, so that no pause misses them. Those that are suspected are held.
func (q *queue) openShards() error {
	x := q.x
	routes := slices.Clone(*x.routes.Load())
	q.Shards.First = uint32(len(routes))
	pending := x.log.PendingPages(q.Number)
	suspects, again, err := q.Suspects(pending)
	if err != nil {
		return border(err)
	}
	q.again = again
	cores := make([]*shard.Core, q.Shards.N)
	for i := range cores {
		cores[i] = shard.NewCore(q.Number, q.Core)
		cores[i].Tick(x.clock().UnixNano())
	}
	q.Dead = dead.New(dead.Config{
		Log: x.log, Logger: x.cfg.Logger, Name: q.Name, Number: q.Number, Shards: q.Shards, Now: q.stamp,
		Supersedes: q.Supersedes, Lanes: q.Lanes, Ledger: x.ledger, Keys: x.keys,
		Age: q.retention.Age, Count: q.retention.Count,
	})
	if err := cmp.Or(x.pauses.Load(&q.Pauses, cores), q.Dead.Load(cores)); err != nil {
		return border(err)
	}
	if err := q.load(pending, cores); err != nil { // which stands in lanes of other queues, too
		return border(err)
	}
	for _, s := range suspects {
		core := cores[q.Shards.Index([]byte(s.ID))]
		if s.Position = core.Successor(s.Position, s.Set); s.Held() || s.GivenUp() {
			core.Hold(s.ID, shard.HoldSuspect)
		}
	}
	for i, core := range cores {
		name := fmt.Sprintf("%s/%d", q.Name, i)
		s, err := shard.New(x.actors, name, core, &q.Queue, &dispatch.Port{Queue: q.Share, Shard: i, Index: len(routes)}, x.wall)
		if err != nil {
			return fmt.Errorf("executor: shard %s: %w", name, err)
		}
		q.Shards.All = append(q.Shards.All, s)
		routes = append(routes, s)
	}
	x.routes.Store(&routes)
	owners := append(slices.Clone(*x.owners.Load()), slices.Repeat([]*queue{q}, len(cores))...)
	x.owners.Store(&owners)
	for _, s := range suspects {
		q.Admit(s, q.Shards.Of(s.ID))
	}
	return nil
}

// joinLanes finds the lanes that the queue shares. Once jobs run, some might run that
// should have come after those of the queue.
func (q *queue) joinLanes() error {
	if q.sharedLanes == "" {
		return nil
	}
	x := q.x
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state != opened {
		return fmt.Errorf("%w: queue %q shares the lanes %q, so it must be registered before Start", ErrState, q.Name, q.sharedLanes)
	}
	lanes := x.lanes[q.sharedLanes]
	if lanes == nil {
		lanes = new(lane.Lanes)
		x.lanes[q.sharedLanes] = lanes
	}
	lanes.Join(q.Number, q.Name)
	q.Lanes.Lanes, q.Lanes.Number = lanes, q.Number
	return nil
}

// lookup returns a registered queue.
func (x *Executor) lookup(name string) (*queue, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if q := x.queues[name]; q != nil {
		return q, nil
	}
	return nil, fmt.Errorf("%w: %q; registered are: %s", ErrUnknownQueue, name, cmp.Or(strings.Join(slices.Sorted(maps.Keys(x.queues)), ", "), "none yet"))
}

// registered returns the queues there are, in no particular order.
func (x *Executor) registered() []*queue {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Collect(maps.Values(x.queues))
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
// worker on; what runs goes on. All fields count, so that to change one of them
// begins with those that hold:
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
			if own, err := part.lookup(t.q.Name); err == nil {
				own.Share.Tune(dispatch.Share(tuning))
			}
		})
	}
	return nil
}
