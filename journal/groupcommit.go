package journal

import "time"

// Callers who append one entry at a time and wait for each share commits. Those
// of a block are woken together, and come back one by one. If the committer began
// with the first of them, or with the results of what they had enqueued, all
// others would wait for two commits each time. So it waits for as many calls as
// it has woken callers before it begins, and not for long.

const (
	// maxGather bounds the wait, as does the time that two commits take.
	maxGather = 2 * time.Millisecond
	// minGather is how long a commit takes at least for the wait to pay.
	minGather = 50 * time.Microsecond
	// maxPasses is how many commits there may be until it is tried again, when
	// those who were woken had no more to append.
	maxPasses = 15
)

// groupCommit is what the committer knows of those who wait for their appends.
type groupCommit struct {
	// Guarded by Log.mu.
	calls  int // of Append, so far
	enough int // ends the wait when so many have been made; 0: there is no wait

	over chan struct{} // holds a token when the wait has ended before its time

	// Only the committer uses these.
	passes int // how often it does not wait after one was in vain
	pass   int // how often it still does not
}

// called notes a call of Append. The caller holds mu.
func (g *groupCommit) called() {
	if g.calls++; g.calls == g.enough {
		g.end()
	}
}

// end has the committer begin, if it waits. The caller holds mu.
func (g *groupCommit) end() {
	if g.enough > 0 {
		g.enough = 0
		g.over <- struct{}{} // there is room: one token for each wait
	}
}

// gather waits until so many calls have come since the given one, for at most
// the time of two commits, of which the last took so long.
func (c *committer) gather(since, callers int, took time.Duration) {
	if callers == 0 || took < minGather {
		return
	}
	if c.group.pass > 0 {
		c.group.pass--
		return
	}
	if !c.beginGather(since, callers) {
		return
	}
	select {
	case <-c.group.over:
		c.group.passes = 0
	case <-c.closing:
		c.endGather()
	case <-time.After(min(2*took, maxGather)):
		if came := c.endGather() - since; 2*came >= callers {
			c.group.passes = 0
		} else {
			c.group.passes = min(2*c.group.passes+1, maxPasses)
			c.group.pass = c.group.passes
		}
	}
}

// beginGather reports whether there is anything to wait for. Where more callers
// wait for the next block than were woken, they come first.
func (c *committer) beginGather(since, callers int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	came := c.group.calls - since
	if came >= callers || c.open.calls-came > callers || c.room != nil || c.closed {
		return false
	}
	c.group.enough = since + callers
	return true
}

// endGather returns how many calls there were.
func (c *committer) endGather() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.group.enough == 0 { // it has ended at the same moment
		<-c.group.over
	}
	c.group.enough = 0
	return c.group.calls
}
