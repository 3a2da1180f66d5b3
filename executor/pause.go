package executor

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"golang.org/x/sync/errgroup"

	"github.com/strandjobs/strand/executor/internal/pausekey"
	"github.com/strandjobs/strand/shard"
)

// maxPausedIDs is how many ids of a queue may be paused by themselves at a time,
// because each takes memory, about 100 bytes and its own, whether it has a job or not.
const maxPausedIDs = pausekey.MaxIDs // 100,000

// ErrTooManyPaused is returned when more than 100,000 ids of a queue would be
// paused. Pause the queue.
var ErrTooManyPaused = errors.New("executor: too many ids are paused")

// Pause keeps all queues from running jobs until [Executor.Resume], also after a
// restart or a crash. When it has returned, no handler is called any more. Handlers
// that run go on, and Pause does not wait for them. Enqueue still accepts payloads,
// schedules go on, and RunNow makes jobs due, which then wait like all others.
//
// The executor, a queue ([Queue.Pause]) and single ids ([Queue.PauseIDs]) are paused
// independently: a job runs when none of the three is. What a paused job locked when it
// was enqueued stays locked. When its turn comes in the line of a key, the next job
// gets it.
//
// It returns nil when the pause is on disk. To pause what is paused is no error. A full
// disk does not refuse it: it takes the room that is kept for results, and waits for
// ctx when even that is used up. It returns ErrClosed, ErrFailed or ErrContext. When
// ctx ends first, it returns the cause, with ErrUnknown if it had begun: then the
// executor may be paused or not.
func (x *Executor) Pause(ctx context.Context) error { return x.pause(ctx, "", true) }

// Resume ends a Pause of the executor. Queues and ids that are paused by themselves
// stay so. It returns what Pause does.
func (x *Executor) Resume(ctx context.Context) error { return x.pause(ctx, "", false) }

// Pause keeps the queue from running jobs until Resume, as [Executor.Pause] does with
// all of them, and returns the same. It goes along to a new name of the queue; see
// QueueConfig.RenamedFrom.
func (t *Queue[T]) Pause(ctx context.Context) error { return t.pause(ctx, true) }

// Resume ends a Pause of the queue. Ids that are paused by themselves stay so, and so
// does an executor that is.
func (t *Queue[T]) Resume(ctx context.Context) error { return t.pause(ctx, false) }

// PauseIDs keeps the jobs of some ids from running until ResumeIDs, as
// [Executor.Pause] does with all of them. An id need not have a job: what is accepted
// for it waits. It returns how many were not paused before, also with an error:
// ErrInvalidID, and then no id is paused; ErrTooManyPaused, and those of [Queue.Pause].
func (t *Queue[T]) PauseIDs(ctx context.Context, ids ...string) (int, error) {
	return t.pauseIDs(ctx, ids, true)
}

// ResumeIDs ends a pause of some ids, and returns how many were paused by themselves,
// and the errors of PauseIDs.
func (t *Queue[T]) ResumeIDs(ctx context.Context, ids ...string) (int, error) {
	return t.pauseIDs(ctx, ids, false)
}

// PauseQueue is [Queue.Pause] for a queue that is known by its name only. It returns
// ErrUnknownQueue for one that is not registered.
func (i *Inspector) PauseQueue(ctx context.Context, queue string) error {
	return i.pause(ctx, queue, true)
}

// ResumeQueue is [Queue.Resume] by name; see PauseQueue.
func (i *Inspector) ResumeQueue(ctx context.Context, queue string) error {
	return i.pause(ctx, queue, false)
}

// PauseIDs is [Queue.PauseIDs] by the name of the queue; see PauseQueue.
func (i *Inspector) PauseIDs(ctx context.Context, queue string, ids ...string) (int, error) {
	return i.pauseIDs(ctx, queue, ids, true)
}

// ResumeIDs is [Queue.ResumeIDs] by the name of the queue; see PauseQueue.
func (i *Inspector) ResumeIDs(ctx context.Context, queue string, ids ...string) (int, error) {
	return i.pauseIDs(ctx, queue, ids, false)
}

// Paused returns what is paused but for single ids: the executor, and queues by name,
// also those that are not registered any more.
func (i *Inspector) Paused() (all bool, queues []string) {
	if i == nil || i.x == nil {
		return false, nil
	}
	return i.x.pauses.names()
}

// PausedIDs lists the ids of a queue that are paused by themselves, in their order, as
// the last commit has left it, a page at a time. A read error is yielded once and ends
// the list; a queue of which the journal knows no pause has none.
func (i *Inspector) PausedIDs(queue string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if i == nil || i.x == nil {
			yield("", errNoInspector)
			return
		}
		if err := i.x.pauses.ids(queue, func(id string) bool { return yield(id, nil) }); err != nil {
			yield("", border(err))
		}
	}
}

// pause pauses the executor, or a queue by name, or lets it go on.
func (x *Executor) pause(ctx context.Context, name string, on bool) error {
	ctx, err := x.mayChange(ctx)
	if err != nil {
		return err
	}
	queues := x.pauses.set(name, on)
	if on {
		for _, q := range queues {
			q.stepAsideAll()
		}
	}
	var group errgroup.Group
	for _, q := range queues {
		group.Go(func() error { return q.passThrough(ctx) })
	}
	return x.written(ctx, group.Wait())
}

// passThrough waits until the shards of the queue are done with all that they have been
// told.
func (q *queue) passThrough(ctx context.Context) error {
	var group errgroup.Group
	for _, a := range q.actors {
		group.Go(func() error { return a.Do(ctx, func(*shard.Core) {}) })
	}
	return group.Wait()
}

// mayChange returns why a call that changes something is refused.
func (x *Executor) mayChange(ctx context.Context) (context.Context, error) {
	if x == nil {
		return nil, fmt.Errorf("%w: no executor; Open makes one", ErrState)
	}
	ctx, err := usable(ctx)
	if err == nil {
		err = x.admits(ctx)
	}
	if err == nil {
		err = x.failure()
	}
	if err == nil {
		err = border(context.Cause(ctx))
	}
	return ctx, err
}

// written waits until what was changed is on disk, unless something went wrong.
func (x *Executor) written(ctx context.Context, err error) error {
	if err == nil {
		err = x.log.Settled(ctx)
	}
	return border(err)
}

func (t *Queue[T]) pause(ctx context.Context, on bool) error {
	if t == nil || t.q == nil {
		return errNoQueue
	}
	return t.q.x.pause(ctx, t.q.name, on)
}

func (i *Inspector) pause(ctx context.Context, name string, on bool) error {
	q, err := i.queue(name)
	if err != nil {
		return err
	}
	return q.x.pause(ctx, q.name, on)
}

// queue returns a registered queue.
func (i *Inspector) queue(name string) (*queue, error) {
	if i == nil || i.x == nil {
		return nil, errNoInspector
	}
	return i.x.lookup(name)
}

func (t *Queue[T]) pauseIDs(ctx context.Context, ids []string, on bool) (int, error) {
	if t == nil || t.q == nil {
		return 0, errNoQueue
	}
	return t.q.pauseIDs(ctx, ids, on)
}

func (i *Inspector) pauseIDs(ctx context.Context, name string, ids []string, on bool) (int, error) {
	q, err := i.queue(name)
	if err != nil {
		return 0, err
	}
	return q.pauseIDs(ctx, ids, on)
}

func (q *queue) pauseIDs(ctx context.Context, ids []string, on bool) (n int, err error) {
	if ctx, err = q.x.mayChange(ctx); err != nil {
		return 0, err
	}
	if err := checkIDs(ids); err != nil {
		return 0, err
	}
	n, err = q.visitIDs(ctx, ids, func(c *shard.Core, some []string) (int, error) { return q.hold(c, some, on) })
	return n, q.x.written(ctx, err)
}

func checkIDs(ids []string) error {
	for _, id := range ids {
		if err := checkID(id); err != nil {
			return err
		}
	}
	return nil
}

// idsAtOnce is how many ids a visit to a shard is about, at most: what else the shard
// has to do does not wait for long.
const idsAtOnce = 100

// visitIDs calls f on the shards of some ids, with a few of them at a time, and adds
// up what it returns, also when it ends with an error.
func (q *queue) visitIDs(ctx context.Context, ids []string, f func(c *shard.Core, ids []string) (int, error)) (n int, err error) {
	byShard := make([][]string, len(q.actors))
	for _, id := range ids {
		s := q.route([]byte(id)) - q.first
		byShard[s] = append(byShard[s], id)
	}
	for s, mine := range byShard {
		for len(mine) > 0 {
			some := mine[:min(idsAtOnce, len(mine))]
			mine = mine[len(some):]
			did, err := q.visit(ctx, s, func(c *shard.Core) (int, error) { return f(c, some) })
			if n += did; err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// visit calls f on a shard. When ctx ends first it may still be called.
func (q *queue) visit(ctx context.Context, s int, f func(c *shard.Core) (int, error)) (int, error) {
	type answer struct {
		n   int
		err error
	}
	answers := make(chan answer, 1) // a call may come after its caller has gone
	if err := q.actors[s].Do(ctx, func(c *shard.Core) {
		n, err := f(c)
		answers <- answer{n, err}
	}); err != nil {
		return 0, err
	}
	a := <-answers
	return a.n, a.err
}
