package executor

import (
	"math"

	"github.com/strandjobs/strand/journal"
)

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
