package executor

import (
	"math"
	"sync/atomic"

	"github.com/strandjobs/strand/journal"
)

// scoreFloor is what no default score of a queue is below: the highest one so far,
// in this process or of a payload that it has found waiting. So default scores
// never go down, although the clock may be set back. It is the queue's own: what is
// wrong in one queue moves nothing in another.
type scoreFloor struct{ bits atomic.Uint64 } // of a float; 0 at first, which is 1970

func (f *scoreFloor) load() float64 { return math.Float64frombits(f.bits.Load()) }

func (f *scoreFloor) raise(score float64) {
	for {
		bits := f.bits.Load()
		if score <= math.Float64frombits(bits) || f.bits.CompareAndSwap(bits, math.Float64bits(score)) {
			return
		}
	}
}

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

// stamp is what a call takes from the clock for payloads for which it says nothing
// itself.
type stamp struct {
	due   int64 // now, Unix ns
	score float64
}

// stamp reads the clock.
func (q *queue) stamp() stamp {
	// The floor comes first. So it is behind the clock, unless that was set back,
	// and the score is exactly the due time, which the journal need not write.
	floor := q.scores.load()
	now := q.x.clock().UnixNano()
	s := stamp{now, max(journal.ScoreOf(now), floor)}
	q.scores.raise(s.score)
	return s
}
