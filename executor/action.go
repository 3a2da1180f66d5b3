package executor

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/pause"
	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

func (i inspector) RunNow(ctx context.Context, which inspect.Selection) (int, error) {
	return i.hasten(ctx, which, true)
}

func (i inspector) RetryNow(ctx context.Context, which inspect.Selection) (int, error) {
	return i.hasten(ctx, which, false)
}

// hasten makes the jobs that are meant due.
func (i inspector) hasten(ctx context.Context, which inspect.Selection, anew bool) (int, error) {
	q, ctx, s, err := i.selected(ctx, which)
	if err != nil {
		return 0, err
	}
	return q.act(ctx, s, func(c *shard.Core, at int64, id string) int {
		if s.of != nil && !c.HasAny(id, s.of) || !c.RunNow(id, at, anew) {
			return 0
		}
		return 1
	})
}

func (i inspector) Cancel(ctx context.Context, which inspect.Selection, reason string) (int, error) {
	full := ErrCanceledByOperator.Error()
	if reason != "" {
		full += ": " + reason
	}
	kept := text(func() string { return full })
	return i.remove(ctx, which, shard.Removal{Verdict: shard.VerdictCanceled, Reason: kept})
}

func (i inspector) Delete(ctx context.Context, which inspect.Selection) (int, error) {
	_, ids, at, _, _ := which.Parts()
	return i.remove(ctx, which, shard.Removal{Verdict: shard.VerdictDeleted, Version: ids != nil && at == nil})
}

func (i inspector) KillFailed(ctx context.Context, which inspect.Selection) (int, error) {
	return i.remove(ctx, which, shard.Removal{Verdict: shard.VerdictCanceled, Reason: ErrCanceledByOperator.Error() + ": after its failure", Failed: true})
}

func (i inspector) DeleteFailed(ctx context.Context, which inspect.Selection) (int, error) {
	return i.remove(ctx, which, shard.Removal{Verdict: shard.VerdictDeleted, Failed: true})
}

func (i inspector) remove(ctx context.Context, which inspect.Selection, r shard.Removal) (int, error) {
	q, ctx, s, err := i.selected(ctx, which)
	if err != nil {
		return 0, err
	}
	r.Of, r.Before = s.of, q.x.log.Stats().Next
	n, err := q.act(ctx, s, q.remover(r))
	if n > 0 && r.Verdict == shard.VerdictCanceled {
		if rest, ok := q.burials.Line(tenASecond); ok {
			q.warn("jobs were canceled: they are in the morgue, or will be when their handlers return", append([]slog.Attr{
				slog.String("queue", q.name), slog.Int("payloads", n), slog.String("error", r.Reason)}, rest...)...)
		}
	}
	return n, err
}

// selection is an inspect.Selection at work.
type selection struct {
	queue  string
	ids    map[string]bool    // nil: any
	of     []journal.Position // in ascending order; nil: any
	filter inspect.JobFilter
	states []inspect.JobState // none: any
	wanted stateSet           // of states
	before int64              // Unix ns, of filter.OlderThan
}

func newSelection(which inspect.Selection) *selection {
	queue, ids, at, filter, states := which.Parts()
	s := &selection{queue: queue, filter: filter, states: states}
	if ids != nil {
		s.ids = make(map[string]bool, len(ids))
	}
	for _, id := range ids {
		s.ids[id] = true
	}
	if at != nil {
		s.of = make([]journal.Position, 0, len(at))
	}
	for _, p := range at {
		s.of = append(s.of, journal.Position(p))
	}
	slices.Sort(s.of)
	return s
}

// check returns an error for a selection that makes no sense.
func (s *selection) check() error {
	if err := checkFilter(&s.filter); err != nil {
		return err
	}
	var err error
	if s.wanted, err = statesOf(s.states); err != nil {
		return err
	}
	for id := range s.ids {
		if err := checkID(id); err != nil {
			return err
		}
	}
	return nil
}

func (s *selection) oldEnough(accepted int64) bool {
	return s.filter.OlderThan == 0 || accepted < s.before
}

// meansJob reports whether a job is meant. It is called on the shard of the job, and
// may read what has left memory.
func (s *selection) meansJob(c *shard.Core, v *shard.View) bool {
	if !s.wanted.has(v) {
		return false
	}
	c.Identify(v)
	if !means(&s.filter, v.ID, v.LastError, v.Retry >= 0) {
		return false
	}
	if s.filter.OlderThan == 0 {
		return true
	}
	var e journal.Entry
	found, err := v.First.Peek(&e)
	return err == nil && found && s.oldEnough(e.AcceptedAt())
}

// selected returns the queue of a selection, whether it makes sense, and the context
// as it may be used.
func (i inspector) selected(ctx context.Context, which inspect.Selection) (*queue, context.Context, *selection, error) {
	s := newSelection(which)
	q, err := i.x.lookup(s.queue)
	if err != nil {
		return nil, nil, nil, err
	}
	if ctx, err = q.x.mayChange(ctx); err != nil {
		return nil, nil, nil, err
	}
	s.before = q.x.clock().UnixNano() - int64(s.filter.OlderThan)
	return q, ctx, s, s.check()
}

// placesAtOnce is how many places for jobs a visit to a shard looks at.
const placesAtOnce = 200

// act calls f for each job that is meant, on its shard, and adds up what it returns.
// It visits shards for a few jobs at a time, and waits until what f has changed is on
// disk.
func (q *queue) act(ctx context.Context, s *selection, f func(c *shard.Core, now int64, id string) int) (n int, err error) {
	if s.ids != nil {
		n, err = q.shards.VisitIDs(ctx, slices.Collect(maps.Keys(s.ids)), func(c *shard.Core, some []string) (n int, err error) {
			now := q.x.clock().UnixNano()
			for _, id := range some {
				n += f(c, now, id)
			}
			return n, nil
		})
	} else {
		n, err = q.actOnAll(ctx, s, f)
	}
	q.x.endRemoved()
	if err == nil {
		err = q.shards.Pass(ctx) // a shard writes down what a call has changed after the call
	}
	return n, q.x.written(ctx, err)
}

func (q *queue) actOnAll(ctx context.Context, s *selection, f func(c *shard.Core, now int64, id string) int) (n int, err error) {
	for i := range q.shards.All {
		for after, more := shard.Cursor(0), true; more; {
			if err := context.Cause(ctx); err != nil {
				return n, err
			}
			type place struct {
				cursor shard.Cursor
				more   bool
			}
			places := make(chan place, 1)
			from := after
			did, err := q.shards.Visit(ctx, i, func(c *shard.Core) (n int, err error) {
				now := q.x.clock().UnixNano()
				last, more := c.Scan(from, placesAtOnce, now, func(v *shard.View) {
					if s.meansJob(c, v) {
						n += f(c, now, v.ID)
					}
				})
				places <- place{last, more}
				return n, nil
			})
			if n += did; err != nil {
				return n, err
			}
			p := <-places
			after, more = p.cursor, p.more
		}
	}
	return n, nil
}

// ErrTooManyPaused is returned when more than 100,000 ids of a queue, or 10,000 prefixes,
// would be paused. Pause the queue.
var ErrTooManyPaused = pause.ErrTooMany

// Pause keeps all queues from running jobs until [Executor.Resume], also after a
// restart or a crash. When it has returned, no handler is called any more. Handlers
// that run go on, and Pause does not wait for them. Enqueue still accepts payloads,
// schedules go on, and RunNow makes jobs due, which then wait like all others.
//
// The executor, and what [inspect.Inspector.Pause] pauses, queues, prefixes of ids and single ids,
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

func (i inspector) Pause(ctx context.Context, which inspect.Selection) (int, error) {
	return i.pause(ctx, which, true)
}

func (i inspector) Resume(ctx context.Context, which inspect.Selection) (int, error) {
	return i.pause(ctx, which, false)
}

func (i inspector) Paused() (all bool, queues []string) {
	return i.x.pauses.Names()
}

func (i inspector) PausedIDs(queue string) iter.Seq2[string, error] {
	return i.paused(statekey.PausedIDs(queue))
}

func (i inspector) PausedPrefixes(queue string) iter.Seq2[string, error] {
	return i.paused(statekey.PausedPrefixes(queue))
}

func (i inspector) paused(keys string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
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

func (i inspector) pause(ctx context.Context, which inspect.Selection, on bool) (n int, err error) {
	q, ctx, s, err := i.selected(ctx, which)
	if err != nil {
		return 0, err
	}
	switch prefix := s.filter.IDPrefix; {
	case s.of != nil || len(s.states) > 0 || s.filter != inspect.JobFilter{IDPrefix: prefix}:
		return 0, fmt.Errorf("%w: what is paused is a queue, some ids, or a prefix of ids; see SelectQueue, SelectIDs and SelectPrefix", inspect.ErrInvalidQuery)
	case s.ids != nil:
		n, err = q.pauses.SetIDs(ctx, slices.Collect(maps.Keys(s.ids)), on)
		return n, border(err)
	case prefix != "":
		n, err = q.pauses.SetPrefix(ctx, prefix, on, func(ctx context.Context, f func(c *shard.Core, id string)) error {
			_, err := q.act(ctx, s, func(c *shard.Core, _ int64, id string) int { f(c, id); return 0 })
			return err
		})
		return n, border(err)
	}
	return q.x.pause(ctx, q.name, on)
}
