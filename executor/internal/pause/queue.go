package pause

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/executor/internal/shards"
	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Queue is a queue, as far as it is paused.
type Queue struct {
	Name      string
	Shards    *shards.Set
	Admission *admit.List // what its jobs wait for besides; nil: nothing
	Clock     func() int64
	Tell      func(on bool, e events.Event) // says what is paused, or goes on: what has no ID and no Prefix is the queue

	board    *Board
	ids      atomic.Int64 // that are paused by themselves
	prefixes []string     // in order; guarded by Board.mu
}

// tell tells the shards whether all their jobs are paused. Board.mu is held.
func (q *Queue) tell(paused bool) {
	now := q.Clock()
	q.Shards.Tell(func(c *shard.Core) { c.Pause(now, paused) })
}

// Over names what keeps a job from running; itself: its id is paused.
func (q *Queue) Over(id string, itself bool) (names []string) {
	b := q.board
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all {
		names = append(names, "executor")
	}
	if b.queues[q.Name] {
		names = append(names, "queue")
	}
	for _, prefix := range q.prefixes {
		if strings.HasPrefix(id, prefix) {
			names = append(names, fmt.Sprintf("prefix %q", prefix))
		}
	}
	if itself {
		names = append(names, "id")
	}
	return names
}

// SetIDs pauses some ids, in room of their own, or resumes them, and returns how many were not so.
func (q *Queue) SetIDs(ctx context.Context, ids []string, on bool) (int, error) {
	var left atomic.Int64
	if on {
		if !q.board.Log.TakeRoom(ctx.Done(), journal.Room{Bytes: roomOf(ids)}) {
			return 0, journal.ErrFull
		}
		left.Store(int64(roomOf(ids)))
	}
	defer func() { q.board.Log.GiveRoomBack(int(left.Swap(0))) }()
	if err := context.Cause(ctx); err != nil { // there may be none
		return 0, err
	}
	n, err := q.Shards.VisitIDs(ctx, ids, func(c *shard.Core, some []string) (int, error) { return q.hold(c, some, on, &left) })
	q.board.Changes.Add(1)
	if err = shards.Begun(ctx, err); err == nil {
		err = q.board.Log.Settled(ctx)
	}
	return n, err
}

// roomOf is more than pauses of ids take on the disk, which stand side by side there.
func roomOf(ids []string) (n int) {
	for _, id := range ids {
		n += len(id) + 200
	}
	return n
}

// hold does that on the shard of the ids, in the room that is left of what was taken for all.
func (q *Queue) hold(c *shard.Core, ids []string, on bool, left *atomic.Int64) (n int, err error) {
	var change journal.Change
	need := int64(roomOf(ids))
	for had := left.Load(); had >= need && change.Room == 0; had = left.Load() {
		if left.CompareAndSwap(had, had-need) {
			change.Room = int(need)
		}
	}
	for _, id := range ids {
		switch {
		case !on && c.Let(id, shard.HoldPause):
			q.ids.Add(-1)
		case on && c.Holds(id, shard.HoldPause):
			continue
		case on && q.ids.Load() >= statekey.MaxPausedIDs:
			err = fmt.Errorf("%w: queue %q has %d", inspect.ErrTooManyPaused, q.Name, statekey.MaxPausedIDs)
		case on && c.Hold(id, shard.HoldPause):
			q.ids.Add(1)
			q.Admission.StepAside(c, id)
		default:
			continue
		}
		if err != nil {
			break
		}
		n++
		q.Tell(on, events.Event{ID: id})
		change.Sets = append(change.Sets, statekey.Pause(statekey.PausedIDs(q.Name)+id, on))
	}
	q.board.Log.Record(&change) // on the shard: in the order in which ids are held
	return n, err
}

// SetPrefix pauses the ids that begin so, or lets them go on, and returns 1 unless it was so
// before. Each has a function called for all jobs that wait, on their shards. It goes through
// all of them, also when ctx ends, or those that are left would never go on.
func (q *Queue) SetPrefix(ctx context.Context, prefix string, on bool, each func(context.Context, func(c *shard.Core, id string)) error) (int, error) {
	n, err := q.setPrefix(prefix, on)
	if err != nil {
		return 0, err
	}
	over := make(chan error, 1)
	go func() {
		over <- each(context.WithoutCancel(ctx), func(c *shard.Core, id string) {
			c.Reconsider(id)
			q.Admission.StepAside(c, id)
		})
	}()
	select {
	case err = <-over:
		q.board.Changes.Add(1)
	case <-ctx.Done():
		err = shards.Begun(ctx, context.Cause(ctx))
	}
	return n, err
}

// setPrefix tells the shards. What waits already is still to be reconsidered.
func (q *Queue) setPrefix(prefix string, on bool) (n int, err error) {
	q.board.mu.Lock()
	defer q.board.mu.Unlock()
	at, was := slices.BinarySearch(q.prefixes, prefix)
	switch {
	case was == on:
		return 0, nil
	case on && len(q.prefixes) >= statekey.MaxPausedPrefixes:
		return 0, fmt.Errorf("%w: queue %q has %d prefixes", inspect.ErrTooManyPaused, q.Name, len(q.prefixes))
	case on:
		q.prefixes = slices.Insert(q.prefixes, at, prefix)
	default:
		q.prefixes = slices.Delete(q.prefixes, at, at+1)
	}
	q.board.Log.Record(&journal.Change{Sets: []journal.Set{statekey.Pause(statekey.PausedPrefixes(q.Name)+prefix, on)}})
	q.Shards.Tell(func(c *shard.Core) { c.PausePrefix(prefix, on) })
	q.Tell(on, events.Event{Prefix: prefix})
	return 1, nil
}
