package executor

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/strandjobs/strand/executor/internal/pause"
	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/shard"
)

// ErrTooManyPaused is returned when more than 100,000 ids of a queue, or 10,000 prefixes,
// would be paused. Pause the queue.
var ErrTooManyPaused = pause.ErrTooMany

// Pause keeps all queues from running jobs until [Executor.Resume], also after a
// restart or a crash. When it has returned, no handler is called any more. Handlers
// that run go on, and Pause does not wait for them. Enqueue still accepts payloads,
// schedules go on, and RunNow makes jobs due, which then wait like all others.
//
// The executor, and what [Inspector.Pause] pauses, queues, prefixes of ids and single ids,
// are paused independently: a job runs when none of them is. What a paused job locked when
// it was enqueued stays locked. When its turn comes in the line of a key, the next job
// gets it.
//
// It returns nil when the pause is on disk. To pause what is paused is no error. A full
// disk does not refuse it: it takes the room that is kept for results, and waits for
// ctx when even that is used up. It returns ErrClosed, ErrFailed or ErrContext. When
// ctx ends first, it returns the cause, with ErrUnknown if it had begun: then the
// executor may be paused or not.
func (x *Executor) Pause(ctx context.Context) error { _, err := x.pause(ctx, "", true); return err }

// Resume ends a Pause of the executor. Queues, prefixes and ids that are paused by
// themselves stay so. It returns what Pause does.
func (x *Executor) Resume(ctx context.Context) error { _, err := x.pause(ctx, "", false); return err }

// Pause keeps what a Selection means from running until Resume, as [Executor.Pause] does
// with all queues: a queue ([SelectQueue]), some ids ([SelectIDs]), or the ids that begin
// in some way, of a tenant for example ([SelectPrefix]). An id need not have a job: what
// is accepted later waits, too. A pause goes along to a new name of the queue; see
// QueueConfig.RenamedFrom. At most 100,000 ids and 10,000 prefixes of a queue are
// paused at a time.
//
// It returns how many ids were not paused before; of a queue and a prefix, 1 or 0; also
// with an error: those of [Executor.Pause]; ErrUnknownQueue; ErrInvalidID, and then no id
// is paused; ErrTooManyPaused; ErrInvalidQuery for a Selection of another kind.
func (i *Inspector) Pause(ctx context.Context, which Selection) (int, error) {
	return i.pause(ctx, which, true)
}

// Resume ends a pause of the same Selection, and returns how many of it were paused, and
// the errors of Pause. Another pause that holds the same jobs goes on.
func (i *Inspector) Resume(ctx context.Context, which Selection) (int, error) {
	return i.pause(ctx, which, false)
}

// Paused returns what is paused as a whole: the executor, and queues, registered or not.
func (i *Inspector) Paused() (all bool, queues []string) {
	if i == nil || i.x == nil {
		return false, nil
	}
	return i.x.pauses.Names()
}

// PausedIDs lists the ids of a queue that are paused by themselves, in their order, as
// the last commit has left it, a page at a time. A read error is yielded once and ends
// the list; a queue of which the journal knows no pause has none.
func (i *Inspector) PausedIDs(queue string) iter.Seq2[string, error] {
	return i.paused(statekey.PausedIDs(queue))
}

// PausedPrefixes lists the prefixes of ids of a queue that are paused, as PausedIDs does.
func (i *Inspector) PausedPrefixes(queue string) iter.Seq2[string, error] {
	return i.paused(statekey.PausedPrefixes(queue))
}

func (i *Inspector) paused(keys string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if i == nil || i.x == nil {
			yield("", errNoInspector)
			return
		}
		for name, err := range i.x.pauses.Under(keys) {
			if !yield(name, border(err)) {
				return
			}
		}
	}
}

// pause pauses the executor, or a queue by name, or lets it go on.
func (x *Executor) pause(ctx context.Context, name string, on bool) (n int, err error) {
	if ctx, err = x.mayChange(ctx); err != nil {
		return 0, err
	}
	n, err = x.pauses.Set(ctx, name, on)
	return n, border(err)
}

func (i *Inspector) pause(ctx context.Context, s Selection, on bool) (n int, err error) {
	q, ctx, err := i.selected(ctx, &s)
	switch prefix := s.filter.IDPrefix; {
	case err != nil:
		return 0, err
	case s.of != nil || len(s.states) > 0 || s.filter != JobFilter{IDPrefix: prefix}:
		return 0, fmt.Errorf("%w: what is paused is a queue, some ids, or a prefix of ids; see SelectQueue, SelectIDs and SelectPrefix", ErrInvalidQuery)
	case s.ids != nil:
		n, err = q.pauses.SetIDs(ctx, slices.Collect(maps.Keys(s.ids)), on)
		return n, border(err)
	case prefix != "":
		n, err = q.pauses.SetPrefix(ctx, prefix, on, func(ctx context.Context, f func(c *shard.Core, id string)) error {
			_, err := q.act(ctx, &s, func(c *shard.Core, _ int64, id string) int { f(c, id); return 0 })
			return err
		})
		return n, border(err)
	}
	return q.x.pause(ctx, q.name, on)
}
