package shard

import (
	"math"
	"slices"

	"github.com/strandjobs/strand/journal"
)

// ends settles what workers have come to: each payload of a run ends, or goes back to its
// lane. It takes runs apart whose workers are slow.
type ends struct{ hands }

// Finish takes a run back and settles every item in it.
func (c *ends) Finish(now int64, r *Run) {
	c.lanes.prefetchSlots(r)
	left := 0
	for i := range r.Items {
		it := &r.Items[i]
		if it.state.Load() == revoked {
			it.reset()
			continue
		}
		left += c.left(it)
		c.settle(now, it)
		it.reset()
	}
	switch { // runs grow while handlers are fast, and shrink to what a worker came to within the quantum
	case left > 0:
		c.pace = max(1, (r.size-left)/c.cfg.BatchSize)
	case r.Elapsed > Quantum:
		c.pace = 1
	case r.Elapsed < Quantum/2:
		c.pace = min(2*c.pace, c.maxPace())
	}
	delete(c.runs, r)
	c.age(r)
	if r.exempt {
		r.exempt = false
		c.exempt--
	}
	r.Items = r.Items[:0]
}

// settle carries out the outcome of an item, and hands on what was held for it.
func (c *ends) settle(now int64, it *Item) {
	if it.removals.Load() != nil {
		c.remove(now, it)
	}
	c.Spend(it.Outcome.Room)
	c.decide(now, it)
	if it.Claim != nil {
		c.change.Claims = append(c.change.Claims, claim{it.Claim, it.Outcome.Verdict, it.over})
	}
}

// decide finds out what the outcome of an item means for its lane.
func (c *ends) decide(now int64, it *Item) {
	l := it.lane
	if c.supersedes() && c.overtaken(now, it) {
		return
	}
	if len(it.Outcome.Parts) > 0 && !c.endParts(now, it) { // nothing is left to be judged
		switch all := it.removals.Load(); {
		case !slices.ContainsFunc(it.Outcome.Parts, func(p Part) bool { return p.Verdict != VerdictDiscarded }):
			it.Outcome.Verdict = VerdictDiscarded
		case all != nil:
			it.Outcome.Verdict = (*all)[len(*all)-1].Verdict // the last payloads are gone by it
		default:
			it.Outcome.Verdict = VerdictCanceled
		}
	}
	judged, behind := c.judged(it)
	if v := it.Outcome.Verdict; it.Folded != nil && (v == VerdictDone || v == VerdictDiscarded || v == VerdictCanceled) {
		if v == VerdictDone {
			c.noteDone(it, judged) // all of it, also what is not its first
		}
		judged = c.combine(it, judged)
	}
	switch out := &it.Outcome; out.Verdict {
	case VerdictDone:
		c.endDone(it, it.settled+len(judged))
		c.over(now, l, it, behind)
	case VerdictDiscarded, VerdictCanceled, VerdictDeleted:
		c.endWith(now, it, out.Verdict, judged, out.Error)
		c.over(now, l, it, behind)
	case VerdictFailed:
		c.failed(now, l, it, judged, behind)
		if p := l.past(); p != nil && !out.Unrun { // it goes on
			p.ran = now
		}
	case VerdictSnoozed:
		c.counts.Snoozed++
		c.again(l, it, judged, behind, it.Retry, later(now, out.Delay), it.LastError)
		if !out.Unrun {
			l.remember().ran = now
		}
	default:
		if out.Verdict == VerdictInterrupted && !out.Unrun {
			c.counts.Interrupted++
		}
		if it.settled == 0 {
			c.undo(l, it)
		} else {
			c.restart(l, nil, it.Payloads[it.settled:], -1, now, "")
			c.writeState(l)
		}
	}
}

// judged returns the payloads that the verdict of an item is about, and those behind
// them. What was done before them ends.
func (c *ends) judged(it *Item) (judged, behind []Payload) {
	if !c.cfg.Single {
		n := len(it.inRun())
		return it.Payloads[:n:n], it.Payloads[n:]
	}
	n := it.Outcome.Done
	if it.Outcome.Verdict != VerdictDone {
		c.endDone(it, n)
	}
	return it.Payloads[it.settled : n+1], it.Payloads[n+1:]
}

// endDone ends the first n payloads of an item, which are done, as far as they have
// not ended.
func (c *ends) endDone(it *Item, n int) {
	c.endAll(it.Payloads[it.settled:n])
	c.noteDone(it, it.Payloads[it.settled:n])
	c.takeStaged(it, n)
	c.counts.Done += uint64(n - it.settled)
	it.settled = n
}

// over ends the run of payloads that are no more. What else the id has goes on, and
// those of the run that were behind them, too.
func (c *ends) over(now int64, l *lane, it *Item, behind []Payload) {
	rest := c.restOf(now, l, it)
	if len(behind) > 0 {
		c.restart(l, nil, behind, -1, rest, "")
		if rest > now {
			l.remember().dueAfter(now, l.due)
		}
		c.writeState(l)
		return
	}
	it.over = true
	c.release(l)
	if l.n() == 0 {
		c.rest(now, rest, it.ID)
		c.drop(l, it.hash)
		return
	}
	c.endState(l)
	c.setRetry(l, -1)
	switch {
	case it.held: // no state could remember another time beside that of the retry
		var e journal.Entry
		due := c.firstDue(now, l, &e)
		c.open(l, due, e.Restored)
		l.unpinned = l.n() > 1 || due != e.Due
	case it.partial:
		l.due = now
		c.bound(l, now)
		l.unpinned = l.unpinned || !l.allDue(now-int64(c.cfg.Quiet))
		l.more().id = it.ID
	}
	if p := l.past(); p != nil {
		p.err = ""
	}
	c.restAfter(now, rest, l)
	c.enqueue(l, l.due)
	if l.unpinned {
		c.pinDue(l)
	}
}

// failed counts a failure, and decides whether there is a next time.
func (c *ends) failed(now int64, l *lane, it *Item, judged, behind []Payload) {
	c.counts.Failed++
	out, count := &it.Outcome, it.Retry+1
	if !c.cfg.Exhausts(it) {
		it.History = it.Failed(now, out.Error)
		c.again(l, it, judged, behind, count, later(now, out.Delay), out.Error)
		return
	}
	switch {
	case c.cfg.Halt:
		it.History = it.Failed(now, out.Error)
		c.after(out.Say)
		c.setHalted(l, true)
		l.remember().crashed = false // it has run
		c.again(l, it, judged, behind, count, now, out.Error)
	case c.cfg.BuryAll, c.cfg.Fold != nil: // they are one
		judged = c.combine(it, judged)
		c.bury(now, it, judged, out.Error)
		c.over(now, l, it, behind)
	default:
		c.bury(now, it, judged[:1], out.Error)
		if rest := judged[1:]; len(rest) > 0 {
			it.History = it.Failed(now, out.Error)
			c.again(l, it, rest, behind, -1, now, out.Error)
		} else {
			c.over(now, l, it, behind)
		}
	}
}

// endParts ends the payloads of an item that have verdicts of their own. It returns false
// when none of the others is left.
func (c *ends) endParts(now int64, it *Item) bool {
	parts, run := it.Outcome.Parts, len(it.inRun())
	others := make([]Payload, 0, len(it.Payloads))
	if it.removals.Load() != nil {
		it.Folded = nil // with what was taken out
	}
	for i, p := range it.Payloads {
		if len(parts) == 0 || parts[0].Index != i {
			others = append(others, p)
			continue
		}
		if i >= run {
			it.behind--
		}
		c.endWith(now, it, parts[0].Verdict, it.Payloads[i:i+1], parts[0].Error)
		parts = parts[1:]
	}
	if len(parts) > 0 {
		panic("shard: bug: parts of an outcome out of order")
	}
	it.Payloads = others
	return len(it.inRun()) > 0
}

// reclaim takes runs apart that workers have had for longer than the quantum: what
// such a worker has in hand is a slow job. What stands behind that is taken back,
// because another worker could have it. What ran before it is settled: its ids, and
// all that they hold, don't wait for the slow one. Under Config.Single the same
// holds for the payloads of the id in hand, and the worker is told to give it back
// after this one. reclaim returns when to look again, or math.MaxInt64. Workers
// don't look at the clock themselves: for fast handlers that would be a good part
// of the work.
func (c *ends) reclaim(now int64) (next int64) {
	for len(c.young) > 0 {
		r := c.young[0]
		if next = r.taken + int64(Quantum); next > now {
			return next
		}
		c.takeApart(now, r)
	}
	return math.MaxInt64
}

// takeApart leaves a worker with the batch that it has in hand. Nothing of the run
// can be started any more, and the next runs are as long as this one should have been.
func (c *ends) takeApart(now int64, r *Run) {
	c.age(r)
	over := 0
	var hand *Item
	var back []*Item
	for i := len(r.Items) - 1; i >= 0; i-- { // or the worker would pass over what was taken, to what is behind it
		switch it := &r.Items[i]; {
		case it.revoke():
			back = append(back, it)
		case hand == nil && it.state.Load() == started:
			over, hand = it.before, it
		}
	}
	for _, it := range slices.Backward(back) {
		c.putBack(it.lane, it)
	}
	c.pace = max(1, min(c.pace, over/c.cfg.BatchSize))
	for i := range r.Items[:over] {
		// One without a verdict is on its way back through Postpone.
		if it := &r.Items[i]; it.state.Load() == started && it.Outcome.Verdict != VerdictUnstarted {
			c.settle(now, it)
			it.reset()
			it.state.Store(revoked)
		}
	}
	if c.cfg.Single && hand != nil && len(hand.Payloads) > 1 {
		c.recall(hand)
	}
}

// recall settles those payloads of an item that are done while its worker is at the
// next one, and wants the others back. A crash finds these as if they had not run, and new.
func (c *ends) recall(it *Item) {
	it.recalled.Store(true)
	n := int(it.passed.Load())
	if n == it.settled {
		return
	}
	c.endDone(it, n)
	l := it.lane
	c.setRetry(l, -1)
	l.remember().err = ""
	c.writeStateOut(l, it)
}
