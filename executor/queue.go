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

	"github.com/strandjobs/strand/executor/internal/dispatch"
	"github.com/strandjobs/strand/executor/internal/lane"
	"github.com/strandjobs/strand/executor/internal/work"
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
	if q.Far > 0 {
		x.cfg.Logger.Warn("jobs are due in more than 50 years; was the clock wrong? RunNow runs them",
			slog.String("queue", q.Name), slog.Int64("payloads", q.Far))
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
	if err := x.openShards(q); err != nil {
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

// openShards starts the shards, and routes to them what the journal delivers.
func (x *Executor) openShards(q *queue) error {
	routes := slices.Clone(*x.routes.Load())
	suspects, err := q.Open(len(routes), x.actors, x.wall)
	if err != nil {
		return border(err)
	}
	for _, s := range q.Shards.All {
		routes = append(routes, route{s, q})
	}
	x.routes.Store(&routes)
	for _, s := range suspects {
		q.Admit(s, q.Shards.Of(s.ID))
	}
	return nil
}

// takeOver gives the queue what the journal has under its former names. arranging
// is held, and the queue is not registered.
func (q *queue) takeOver() error {
	for _, former := range slices.DeleteFunc(slices.Clone(q.renamedFrom), func(name string) bool { return name == q.Name }) {
		entries, dead, known := q.x.leftOver(former)
		own, ownDead, _ := q.x.leftOver(q.Name)
		if err := q.x.mayRegister(former); err != nil {
			if entries+dead == 0 {
				continue
			}
			return fmt.Errorf("RenamedFrom of queue %q: %w", q.Name, err)
		}
		if entries+dead > 0 && own+ownDead > 0 && !q.Supersedes { // there the newest counts, wherever it was
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

// leftOver returns how many payloads the journal had for a name that is not
// registered yet, and how many dead ones; known: it has the name.
func (x *Executor) leftOver(name string) (entries, dead int, known bool) {
	number, known := x.log.Queues()[name]
	if !known {
		return 0, 0, false
	}
	return x.log.Unclaimed()[number], x.log.Buried(number), true
}

// unclaimed names the queues that have jobs and are not registered.
func (x *Executor) unclaimed() error {
	counts := x.log.Unclaimed()
	var names []string
	for name, number := range x.log.Queues() {
		if n := counts[number]; n > 0 {
			names = append(names, fmt.Sprintf("%q (%d payloads)", name, n))
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("%w: the journal has jobs of queues that are not registered: %s; register them, name them in RenamedFrom of the queue that takes over, or leave Strict off",
		ErrConfig, strings.Join(names, ", "))
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
