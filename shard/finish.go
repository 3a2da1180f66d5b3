package shard

import (
	"slices"

	"github.com/strandjobs/strand/journal"
)

// Finish takes a run back and settles every item in it.
func (c *ends) Finish(now int64, r *Run) {
	c.prefetchSlots(r)
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
	c.adjustPace(r, left)
	delete(c.runs, r)
	c.age(r)
	if r.exempt {
		r.exempt = false
		c.exempt--
	}
	r.Items = r.Items[:0]
}

// adjustPace lets runs grow while handlers are fast, and shrinks them to what a
// worker came to within the quantum.
func (c *hands) adjustPace(r *Run, left int) {
	switch {
	case left > 0:
		c.pace = max(1, (r.size-left)/c.cfg.BatchSize)
	case r.Elapsed > Quantum:
		c.pace = 1
	case r.Elapsed < Quantum/2:
		c.pace = min(2*c.pace, c.maxPace())
	}
}

// left is how much of an item the worker did not come to.
func (c *hands) left(it *Item) int {
	switch it.Outcome.Verdict {
	case VerdictUnstarted:
		return c.size(it.Payloads[it.Outcome.Done:])
	case VerdictDone:
		if c.cfg.Single {
			return len(it.Payloads) - it.Outcome.Done - 1
		}
	}
	return 0
}

// settle carries out the outcome of an item, and hands on what was held for it.
func (c *ends) settle(now int64, it *Item) {
	if it.removals.Load() != nil {
		c.remove(now, it)
	}
	c.decide(now, it)
	if it.Claim != nil {
		c.change.Claims = append(c.change.Claims, claim{it.Claim, it.lastWord(), it.over})
	}
}

// decide finds out what the outcome of an item means for its lane.
func (c *ends) decide(now int64, it *Item) {
	l := it.lane
	if c.supersedes() && c.overtaken(now, it) {
		return
	}
	if len(it.Outcome.Parts) > 0 && !c.endParts(now, it) {
		it.Outcome.Verdict = VerdictCanceled // nothing is left to be judged
	}
	judged, behind := c.judged(it)
	if v := it.Outcome.Verdict; it.Folded != nil && (v == VerdictDone || v == VerdictDiscarded || v == VerdictCanceled) {
		judged = c.combine(it, judged)
	}
	switch out := &it.Outcome; out.Verdict {
	case VerdictDone:
		c.endDone(it, it.settled+len(judged))
		c.over(now, l, it, behind)
	case VerdictDiscarded:
		c.endAll(judged)
		c.noteDone(it, judged)
		c.counts.Discarded += uint64(len(judged))
		c.over(now, l, it, behind)
	case VerdictCanceled:
		c.bury(now, it, judged, out.Error)
		c.over(now, l, it, behind)
	case VerdictDeleted:
		c.delete(judged)
		c.over(now, l, it, behind)
	case VerdictFailed:
		c.failed(now, l, it, judged, behind)
	case VerdictSnoozed:
		c.counts.Snoozed++
		c.again(l, it, judged, behind, it.Retry, later(now, out.Delay), it.LastError)
	default:
		if out.Verdict == VerdictInterrupted {
			c.counts.Interrupted++
		}
		if it.settled == 0 {
			c.undo(l, it)
		} else {
			c.restart(l, nil, it.Payloads[it.settled:], -1, now, "")
		}
	}
}

// judged returns the payloads that the verdict of an item is about, and those behind
// them. What was done before them ends.
func (c *ends) judged(it *Item) (judged, behind []Payload) {
	if !c.cfg.Single {
		n := len(it.InRun())
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

func (c *ledger) endAll(payloads []Payload) {
	c.change.Ended = slices.Grow(c.change.Ended, len(payloads))
	for _, p := range payloads {
		c.endPayload(p.Ref)
	}
}

// undo puts back what ran and came to nothing. A replay would make something
// else of the due time if payloads came or went meanwhile: then it is written.
func (c *hands) undo(l *lane, it *Item) {
	if c.supersedes() && l.n() > 0 {
		c.giveWay(l, it)
		return
	}
	changed := it.state.Load() == started && (l.n() > 0 || len(it.Outcome.Parts) > 0 || it.removals.Load() != nil || it.shift != c.shift)
	c.putBack(l, it)
	if changed {
		c.writeState(l)
	}
	l.unpinned = false
}

// over ends the run of payloads that are no more. What else the id has goes on, and
// those of the run that were behind them, too.
func (c *ends) over(now int64, l *lane, it *Item, behind []Payload) {
	if len(behind) > 0 {
		c.restart(l, nil, behind, -1, c.restUntil(now), "")
		return
	}
	it.over = true
	c.release(l)
	c.endState(l)
	c.setRetry(l, -1)
	switch {
	case l.n() == 0:
		c.rest(now, it.ID)
		c.drop(l, it.hash)
		return
	case it.held:
		// What waited behind them is due when the first of it is. No state
		// could remember another time beside that of the retry.
		var e journal.Entry
		first := l.first().Ref
		c.lanes.entries.read(first, &e)
		due := c.set.since(e.Due, first.Position())
		c.open(l, due, e.Restored)
		l.unpinned = l.n() > 1 || due != e.Due
	case it.partial:
		l.due = now
		c.bound(l, now)
		l.unpinned = l.unpinned || !l.allDue(now-int64(c.cfg.Debounce.Quiet))
		l.more().id = it.ID
	}
	if p := l.past(); p != nil {
		p.err = ""
	}
	c.restAfter(now, l)
	c.enqueue(l, l.due)
	if l.unpinned {
		c.pinDue(l)
	}
}

// failed counts a failure, and decides whether there is a next time.
func (c *ends) failed(now int64, l *lane, it *Item, judged, behind []Payload) {
	c.counts.Failed++
	out := &it.Outcome
	count := it.Retry + 1
	if !c.cfg.Exhausts(it) {
		it.History = it.Failed(now, out.Error)
		c.again(l, it, judged, behind, count, later(now, out.Delay), out.Error)
		return
	}
	c.exhausted(now, l, it, judged, behind, count)
}

// exhausted ends the last run of an item, with the retry count it has now.
func (c *ends) exhausted(now int64, l *lane, it *Item, judged, behind []Payload, count int) {
	out := &it.Outcome
	switch policy := c.cfg.OnExhausted; {
	case policy == OnExhaustedHalt:
		it.History = it.Failed(now, out.Error)
		c.setHalted(l, true)
		c.again(l, it, judged, behind, count, now, out.Error)
	case policy == OnExhaustedBuryAll, c.cfg.Fold != nil: // they are one
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

// again puts payloads, and those behind them, back with a new due time and retry
// count, which hold for the id as a whole.
func (c *hands) again(l *lane, it *Item, payloads, behind []Payload, retry int, due int64, err string) {
	l.remember().history = it.History
	hold := it.held || (c.cfg.OnFailure == OnFailureBlock && it.Outcome.Verdict == VerdictFailed)
	if hold {
		c.restart(l, payloads, behind, retry, due, err)
	} else {
		c.restart(l, nil, it.Payloads[len(it.Payloads)-len(payloads)-len(behind):], retry, due, err)
	}
}

// restart puts payloads back, those that are to be held and the others, with all
// that a state says of their job, and writes that down.
func (c *hands) restart(l *lane, held, others []Payload, retry int, due int64, err string) {
	l.remember().err = err
	c.release(l)
	if len(held) > 0 {
		c.returnTo(l, held, true)
	}
	c.returnTo(l, others, false)
	l.unbound()
	c.setRetry(l, retry)
	c.enqueue(l, due)
	c.writeState(l)
	l.unpinned = false
}

// putBack undoes that an item was handed out.
func (c *hands) putBack(l *lane, it *Item) {
	if c.supersedes() && l.n() > 0 {
		c.giveWay(l, it)
		return
	}
	c.release(l)
	c.takeDue(l, it)
	c.returnTo(l, it.Payloads, it.held)
	c.enqueue(l, l.due)
}

// returnTo puts payloads that were handed out among those that wait, or holds
// them before those.
func (c *gather) returnTo(l *lane, payloads []Payload, hold bool) {
	if hold {
		// A copy: the slice may be the item's own.
		l.remember().held = append([]Payload(nil), payloads...)
		return
	}
	if l.n() == 0 && len(payloads) == 1 {
		l.one = payloads[0]
		return
	}
	var e journal.Entry
	for _, p := range payloads {
		c.lanes.entries.read(p.Ref, &e)
		c.merge(l, p, &e)
	}
}

// endParts ends the payloads that the verdict of an item is not about; false when no
// other is left in it.
func (c *ends) endParts(now int64, it *Item) bool {
	parts := it.Outcome.Parts
	others := make([]Payload, 0, len(it.Payloads))
	run := len(it.InRun())
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
		if v := parts[0].Verdict; v == VerdictDone || v == VerdictDiscarded {
			c.noteDone(it, it.Payloads[i:i+1])
		}
		switch parts[0].Verdict {
		case VerdictDone:
			c.endPayload(p.Ref)
			c.counts.Done++
		case VerdictDiscarded:
			c.endPayload(p.Ref)
			c.counts.Discarded++
		case VerdictDeleted:
			c.delete(it.Payloads[i : i+1])
		default:
			c.bury(now, it, it.Payloads[i:i+1], parts[0].Error)
		}
		parts = parts[1:]
	}
	if len(parts) > 0 {
		panic("shard: bug: parts of an outcome out of order")
	}
	it.Payloads = others
	return len(it.InRun()) > 0
}

func (c *dead) bury(now int64, it *Item, payloads []Payload, reason string) {
	history := it.Failed(now, reason)
	for _, p := range payloads {
		if c.supersedes() && c.inGrave(p) {
			continue
		}
		c.noteDead(p)
		c.went(p.Ref)
		c.counts.Buried++
		c.change.Buried = append(c.change.Buried, journal.Burial{Ref: p.Ref, Retry: it.Retry, Reason: reason, At: now, History: history})
		if it.combined {
			c.change.Buried[len(c.change.Buried)-1].Payload = it.Folded
		}
	}
}

func (c *ledger) setRetry(l *lane, retry int) {
	if l.retry() == retry {
		return
	}
	if l.retry() >= 0 {
		c.counts.Retrying--
	}
	if l.more().retry = int32(retry); retry >= 0 {
		c.counts.Retrying++
	}
}

func (c *ledger) setHalted(l *lane, halted bool) {
	if l.halted == halted {
		return
	}
	if l.halted = halted; halted {
		c.counts.Halted++
	} else {
		c.counts.Halted--
	}
}
