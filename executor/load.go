package executor

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// absurdDelay is further ahead than any job is planned: when one is due later,
// either the clock was wrong when it was accepted, or it is wrong now.
const absurdDelay = 50 * 365 * 24 * time.Hour

// load gives the cores of the shards what is pending, and lets go of it.
func (q *queue) load(pending [][]journal.Ref, cores []*shard.Core) error {
	absurd := q.x.clock().Add(absurdDelay).UnixNano()
	var far atomic.Int64
	weight, err := shard.LoadAll(cores, pending, q.Shards.Index, func(entries []journal.Entry) {
		q.standInLanes(entries)
		newest := 0.0
		for i := range entries {
			e := &entries[i]
			if e.Due > absurd {
				far.Add(1)
			}
			if e.Kind == journal.KindEnqueued {
				newest = max(newest, defaultScore(e))
			}
		}
		q.x.log.Raise(&q.scores, newest)
	})
	if err != nil {
		return err
	}
	q.far = far.Load()
	q.Backlog.Exceed(weight)
	return nil
}

// standInLanes gives what the journal has for the queue its places.
func (q *queue) standInLanes(entries []journal.Entry) {
	if q.Lanes == nil {
		return
	}
	for i := range entries {
		if e := &entries[i]; e.Kind == journal.KindEnqueued {
			q.Lanes.Add(string(e.ID), e.Position, q.Number)
		}
	}
}

// A payload without a score of its own gets it in two steps: the time of the call
// (stamp), and with its position what keeps it behind all that was accepted before
// ([journal.Floor]). The floor is the queue's own: what is wrong in one queue moves
// nothing in another. It begins with what the queue has found waiting.

// defaultScore returns the score of a payload that waits, if it is one of ours, or
// else 0. The journal does not say whose it is. Ours is that of a payload which was
// accepted without At, In and Score. Otherwise, what has a fraction and is within
// the times that a clock can show is taken for ours: what callers give is mostly a
// whole number, or thousands of times as large. A mistake means that payloads which
// are accepted later, without a score, come after the one that they would have been
// ahead of: in the order in which they were accepted.
func defaultScore(e *journal.Entry) float64 {
	if s := e.Score; s == journal.ScoreOf(e.Due) || s != math.Trunc(s) && s < journal.ScoreOf(math.MaxInt64) {
		return s
	}
	return 0
}

// stamp is the time of a call, in Unix nanoseconds. Payloads for which it says nothing
// itself are due then, and have it for a score.
func (q *queue) stamp() int64 { return q.x.clock().UnixNano() }

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
