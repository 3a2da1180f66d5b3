// Package act does what people want done to an executor: it makes jobs due, ends them, takes
// dead letters out of the morgue, and pauses.
//
// # What is promised
//
//   - It looks at a few hundred jobs in a visit to a shard, so that nothing else waits long.
//   - When a call returns without an error, what it has done is on disk.
//   - What is accepted after a call has begun is not meant, except for a pause.
//   - It counts what it has done, also when it ends with an error; one more visit to a shard, or
//     one more commit of dead letters, may follow.
//
// Any goroutine may call all methods, at any time. Census (goroutines, timers): none; see packages dead and pause.
package act

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/attempt"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/dead"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/executor/internal/pick"
	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Operator has those methods of [inspect.Inspector] that act, and those that say what is paused.
// New makes one.
type Operator struct {
	*engine.Engine
	admin.Actor
}

// New returns the operator of an executor.
func New(e *engine.Engine) *Operator {
	o := &Operator{Engine: e}
	o.Actor = o.Act
	return o
}

func (o *Operator) Act(ctx context.Context, name string, which inspect.Selection, reason string) (did inspect.Requeued, err error) {
	if which.Whole && (name == "pause" || name == "resume") {
		if ctx, err = o.MayChange(ctx); err != nil {
			return did, err
		}
		did.Back, err = o.Pauses.Set(ctx, "", name == "pause")
		return did, o.Border(err)
	}
	q, ctx, s, err := o.selected(ctx, which)
	if err != nil {
		return did, err
	}
	switch canceled := attempt.ErrCanceled.Error(); name {
	case "run", "retry":
		did.Back, err = o.hasten(ctx, q, s, name == "run")
	case "cancel":
		if reason != "" {
			canceled = guard.Text(func() string { return canceled + ": " + reason })
		}
		did.Back, err = o.remove(ctx, q, s, shard.Removal{Verdict: shard.VerdictCanceled, Reason: canceled})
	case "delete":
		did.Back, err = o.remove(ctx, q, s, shard.Removal{Verdict: shard.VerdictDeleted, Version: which.IDs != nil && which.Positions == nil})
	case "kill-failed":
		did.Back, err = o.remove(ctx, q, s, shard.Removal{Verdict: shard.VerdictCanceled, Reason: canceled + ": after its failure", Failed: true})
	case "delete-failed":
		did.Back, err = o.remove(ctx, q, s, shard.Removal{Verdict: shard.VerdictDeleted, Failed: true})
	case "requeue", "delete-dead":
		did, err = o.exhume(ctx, q, s, name == "requeue")
	case "pause", "resume":
		did.Back, err = o.setPaused(ctx, q, s, name == "pause")
	default:
		err = fmt.Errorf("%w: there is nothing called %q to do", inspect.ErrInvalidQuery, brief.Clip(name))
	}
	return did, err
}

// selected returns the queue of a selection, whether it makes sense, and the context
// as it may be used.
func (o *Operator) selected(ctx context.Context, which inspect.Selection) (*engine.Queue, context.Context, *pick.Selection, error) {
	s := pick.Select(which)
	q, err := o.Lookup(s.Queue)
	if err != nil {
		return nil, nil, nil, err
	}
	if ctx, err = o.MayChange(ctx); err != nil {
		return nil, nil, nil, err
	}
	return q, ctx, s, s.Check(o.Now())
}

// hasten makes the jobs that are meant due.
func (o *Operator) hasten(ctx context.Context, q *engine.Queue, s *pick.Selection, anew bool) (int, error) {
	return o.act(ctx, q, s, func(c *shard.Core, at int64, id string, _ int) (n int, takes journal.Room) {
		if s.Of != nil && !c.HasAny(id, s.Of) || !c.RunNow(id, at, anew) {
			return 0, takes
		}
		return 1, takes
	})
}

func (o *Operator) remove(ctx context.Context, q *engine.Queue, s *pick.Selection, r shard.Removal) (int, error) {
	r.Of, r.Before = s.Of, o.Log.Stats().Next
	n, err := o.act(ctx, q, s, func(c *shard.Core, now int64, id string, room int) (n int, takes journal.Room) {
		if r.Verdict == shard.VerdictCanceled {
			if letters := c.Letters(id, &r); letters.Bytes > room {
				if !o.Log.TryRoom(letters) {
					return 0, letters
				}
				room += letters.Bytes
			}
		}
		own := r
		own.Room = room
		if q.Admission != nil {
			own.Claim = q.Admission.Claim(id, nil)
		}
		ended, inHand := c.Remove(now, id, &own)
		return ended + inHand, takes
	})
	if n > 0 && r.Verdict == shard.VerdictCanceled {
		q.Lines.Canceled(n, r.Reason)
	}
	return n, err
}

// visit does something with a job on its shard, and returns what counts. Or it does nothing yet,
// and returns what it would bury; then it is called again with room for that, which is its own.
type visit func(c *shard.Core, now int64, id string, room int) (n int, takes journal.Room)

// errand is a visit to many jobs.
type errand struct {
	*engine.Queue
	do   visit
	late map[string]journal.Room // jobs that wait for room on the disk, and what they take
}

// visit is called on the shard of a job.
func (e *errand) visit(c *shard.Core, now int64, id string) int {
	n, takes := e.do(c, now, id, 0)
	if takes.Bytes > 0 {
		e.late[id] = takes
	}
	return n
}

// again visits those that were late once there is room for them, unless the visit before has
// failed, and adds to what that has done. No shard waits for that.
func (o *Operator) again(ctx context.Context, e *errand, n int, err error) (int, error) {
	if err != nil {
		return n, err
	}
	for id, takes := range e.late {
		for takes.Bytes > 0 {
			room := takes.Bytes
			if !o.Log.TakeRoom(ctx.Done(), takes) {
				return n, journal.ErrFull
			}
			if err := context.Cause(ctx); err != nil {
				o.Log.GiveRoomBack(takes.Bytes)
				return n, err
			}
			did, err := e.Shards.VisitIDs(ctx, []string{id}, func(c *shard.Core, _ []string) (n int, err error) {
				if n, takes = e.do(c, o.Now(), id, room); takes.Bytes > 0 {
					o.Log.GiveRoomBack(room)
				}
				return n, nil
			})
			if n += did; err != nil {
				return n, err
			}
		}
	}
	clear(e.late)
	return n, nil
}

// act calls do for each job that is meant, on its shard, and adds up what it returns.
// It visits shards for a few jobs at a time, and waits until what do has changed is on
// disk.
func (o *Operator) act(ctx context.Context, q *engine.Queue, s *pick.Selection, do visit) (n int, err error) {
	e := &errand{q, do, make(map[string]journal.Room)}
	if s.IDs != nil {
		n, err = q.Shards.VisitIDs(ctx, slices.Collect(maps.Keys(s.IDs)), func(c *shard.Core, some []string) (n int, err error) {
			now := o.Now()
			for _, id := range some {
				if s.JobOf(c, id, now) {
					n += e.visit(c, now, id)
				}
			}
			return n, nil
		})
		n, err = o.again(ctx, e, n, err)
	} else {
		n, err = o.actOnAll(ctx, e, s)
	}
	o.EndRemoved()
	if err == nil {
		err = o.written(ctx, q)
	}
	return n, o.Border(err)
}

// written waits until what shards have been told is on disk: they write it down after they were.
func (o *Operator) written(ctx context.Context, q *engine.Queue) error {
	if err := q.Shards.Pass(ctx); err != nil {
		return err
	}
	return o.Log.Settled(ctx)
}

func (o *Operator) actOnAll(ctx context.Context, e *errand, s *pick.Selection) (n int, err error) {
	return e.Shards.Scan(ctx, o.Now, func(c *shard.Core, now int64, v *shard.View) int {
		if !s.Job(c, v) {
			return 0
		}
		return e.visit(c, now, v.ID)
	}, func(n int, err error) (int, error) { return o.again(ctx, e, n, err) })
}

// exhume puts dead letters back, or deletes them.
func (o *Operator) exhume(ctx context.Context, q *engine.Queue, s *pick.Selection, back bool) (did inspect.Requeued, err error) {
	if len(s.States) > 0 {
		return did, fmt.Errorf("%w: the dead have no state %q", inspect.ErrInvalidQuery, s.States[0])
	}
	w := dead.Which{Last: math.MaxUint64, Means: s.Dead}
	if n := len(s.Of); n > 0 {
		w.First, w.Last = s.Of[0], s.Of[n-1]
	} else if s.Of != nil {
		w.Last = 0
	}
	what := "delete"
	if back {
		what = "requeue"
		if did, err = q.Dead.Restore(ctx, w); err == nil && did.Back > 0 {
			err = o.written(ctx, q) // the jobs that wait go on with what is back
		}
	} else {
		did.Back, err = q.Dead.Delete(ctx, w)
	}
	if err != nil {
		err = fmt.Errorf("executor: %s: %w", what, o.Border(err))
	}
	return did, err
}

func (o *Operator) Paused() (all bool, queues []string) { return o.Pauses.Names() }
func (o *Operator) PausedIDs(queue string) iter.Seq2[string, error] {
	return o.paused(statekey.PausedIDs(queue))
}
func (o *Operator) PausedPrefixes(queue string) iter.Seq2[string, error] {
	return o.paused(statekey.PausedPrefixes(queue))
}

func (o *Operator) paused(keys string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for name, err := range o.Pauses.Under(keys) {
			if !yield(name, o.Border(err)) {
				return
			}
		}
	}
}

func (o *Operator) setPaused(ctx context.Context, q *engine.Queue, s *pick.Selection, on bool) (n int, err error) {
	switch prefix := s.Filter.IDPrefix; {
	case s.Of != nil || s.IDs != nil && prefix != "" || len(s.States) > 0 || s.Filter != inspect.JobFilter{IDPrefix: prefix}:
		return 0, fmt.Errorf("%w: what is paused is the executor, a queue, some ids, or a prefix of ids; see SelectExecutor, SelectQueue, SelectIDs and SelectPrefix", inspect.ErrInvalidQuery)
	case s.IDs != nil:
		n, err = q.Pauses.SetIDs(ctx, slices.Collect(maps.Keys(s.IDs)), on)
	case prefix != "":
		n, err = q.Pauses.SetPrefix(ctx, prefix, on, func(ctx context.Context, f func(c *shard.Core, id string)) error {
			_, err := o.act(ctx, q, s, func(c *shard.Core, _ int64, id string, _ int) (n int, takes journal.Room) {
				f(c, id)
				return 0, takes
			})
			return err
		})
	default:
		n, err = o.Pauses.Set(ctx, q.Name, on)
	}
	return n, o.Border(err)
}
