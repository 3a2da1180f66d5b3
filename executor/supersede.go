package executor

import (
	"cmp"
	"context"
	"fmt"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// HandleLatest registers a queue for state, such as mirrors, indexes and caches, where
// only the newest payload of an id counts. It is [Handle] with Merge [MergeSupersede];
// no other setting is needed.
//
// The newest payload is the one with the highest score, for example the version of a
// row. Among equal scores, or without scores, it is the one that was accepted last;
// give all payloads of an id a score, or none. A newer payload takes the place of one
// that waits, is snoozed, is retried or is halted; the older one ends as merged,
// whatever its bytes. While one runs, the newest waits behind it, and runs next with
// all retries. An older payload never runs after a newer one that was done, whether it
// failed before, came back from the dead letters, or arrived late.
//
// An id has at most one dead letter, which is deleted when a newer payload is accepted.
// OnFailure, OnFresh, FreshDue and Fold must be left out; Debounce and Throttle apply.
// See "The newest state" in the guide (README.md).
//
// It returns the errors of [Handle], and ErrConfig for another Merge.
func HandleLatest[T any](x *Executor, name string, handler func(context.Context, Job[T]) error, cfg QueueConfig[T]) (*Queue[T], error) {
	if m := cmp.Or(cfg.Merge, MergeKeepAll); m != MergeKeepAll && m != MergeSupersede {
		return nil, fmt.Errorf("%w: Merge is %v for queue %q, and HandleLatest keeps the newest; leave it out, or use Handle", ErrConfig, cfg.Merge, name)
	}
	cfg.Merge = MergeSupersede
	return Handle(x, name, handler, cfg)
}

// checkSupersede refuses what makes no sense where a newer payload takes the place of an
// older one.
func checkSupersede(m Merge, most int, failure OnFailure, fresh OnFresh, due FreshDue) error {
	var what string
	switch {
	case m != MergeSupersede:
		return nil
	case most > 1 || most < 0:
		what = fmt.Sprintf("Gather.MaxPayloads is %d, but one payload of an id waits", most)
	case failure != OnFailureMerge:
		what = fmt.Sprintf("Gather.OnFailure is %v, but no newer payload waits behind one that failed", failure)
	case fresh != OnFreshWait:
		what = fmt.Sprintf("Gather.OnFresh is %v, but a newer payload begins anew, and waits for no retry", fresh)
	case due != FreshDueKeep:
		what = fmt.Sprintf("Gather.FreshDue is %v, but a newer payload has its own due time", due)
	default:
		return nil
	}
	return fmt.Errorf("%w: Merge is %v and %s; leave it out", ErrConfig, m, what)
}

func (q *queue) supersedes() bool { return q.core.Merge == shard.MergeSupersede }

// markScore has the journal tell a score that the caller gave from one that is the time of
// acceptance, although they may be the same: see [shard.Scored].
func (q *queue) markScore(e *journal.Entry) {
	if q.supersedes() && e.Floor == nil && !shard.Scored(e) {
		e.Accepted += 2000 // two microseconds: it is kept to the microsecond
	}
}

// loadDead tells the cores of a superseding queue which dead letters there are.
func (q *queue) loadDead(cores []*shard.Core) error {
	if !q.supersedes() || q.x.log.Buried(q.number) == 0 {
		return nil
	}
	for b, err := range q.x.log.Morgue(q.number, 0) {
		if err != nil {
			return err
		}
		cores[q.shards.Index(b.Entry.ID)].LoadDead(&b.Entry)
	}
	return nil
}

// depart returns those payloads of a superseding queue that are still dead letters, with the
// number of those that a newer one has superseded. Of the others no payload runs until
// departed says what became of the dead letter. It does not heed the end of ctx: what a shard was asked has
// to be undone.
func (q *queue) depart(ctx context.Context, some dead) (left dead, err error) {
	ok := make([]bool, len(some.positions)) // a call may come after its caller has gone, but for ErrStopped
	err = q.eachShard(some, func(s *shard.Shard, of []int) error {
		return s.Do(context.WithoutCancel(ctx), func(c *shard.Core) {
			for _, i := range of {
				ok[i] = c.Depart(some.ids[i], some.positions[i])
			}
		})
	})
	left = some.none()
	left.superseded = some.superseded
	for i := range some.positions {
		if ok[i] {
			left.positions, left.ids = append(left.positions, some.positions[i]), append(left.ids, some.ids[i])
		} else {
			left.superseded++
		}
	}
	if err != nil {
		q.departed(left, false)
		return some.none(), border(err)
	}
	return left, nil
}

// departed ends what depart has begun: gone says whether the dead letters have left the
// morgue.
func (q *queue) departed(some dead, gone bool) {
	if q.supersedes() {
		q.tellShards(some, func(c *shard.Core, id string, at journal.Position) { c.Departed(id, at, gone) })
	}
}

// forget notes that dead letters are deleted.
func (q *queue) forget(some dead) { q.tellShards(some, (*shard.Core).Forget) }

// tellShards calls f for each of some payloads on its shard, and does not wait for that.
func (q *queue) tellShards(some dead, f func(c *shard.Core, id string, at journal.Position)) {
	_ = q.eachShard(some, func(s *shard.Shard, of []int) error {
		s.Tell(func(c *shard.Core) {
			for _, i := range of {
				f(c, some.ids[i], some.positions[i])
			}
		})
		return nil
	})
}

// eachShard calls f for each shard of some payloads, with the indexes of its own.
func (q *queue) eachShard(some dead, f func(s *shard.Shard, of []int) error) error {
	of := make([][]int, len(q.shards.All))
	for i, id := range some.ids {
		n := q.shards.Index([]byte(id))
		of[n] = append(of[n], i)
	}
	for n, own := range of {
		if len(own) == 0 {
			continue
		}
		if err := f(q.shards.All[n], own); err != nil {
			return err
		}
	}
	return nil
}

// late returns how many dead letters are late if they are put back now, and of how many
// that is not known.
func (q *queue) late(ctx context.Context, some dead) (late, unsure int, err error) {
	if q.supersedes() {
		return 0, 0, nil
	}
	after, known := make([]bool, len(some.ids)), make([]bool, len(some.ids))
	err = q.eachShard(some, func(s *shard.Shard, of []int) error {
		return s.Do(ctx, func(c *shard.Core) {
			for _, i := range of {
				after[i], known[i] = c.Late(some.ids[i], some.positions[i])
			}
		})
	})
	if err != nil { // a call may come after its caller has gone
		return 0, 0, border(err)
	}
	for i := range known {
		if !known[i] {
			unsure++
		} else if after[i] {
			late++
		}
	}
	return late, unsure, nil
}
