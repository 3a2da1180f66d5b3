package shard

import (
	"math"
	"time"

	"github.com/strandjobs/strand/journal"
)

// agenda has the lanes of a shard, and says which is next: those that wait, by due time,
// but for those that are halted or held.
type agenda struct {
	timing
	lanes   lanes
	due     dueQueue
	queue   uint32 // whose lanes they are
	loading bool   // until loaded
	paused  bool   // no id may run

	held     map[string]Hold // ids that may not run now, and why
	prefixes map[string]bool // of ids that may not either

	soon   int64 // what is due before it, when it comes to wait, is prompt; see Tick
	prompt int64 // the latest due time of a prompt job so far

	// counts are kept as changes happen, so that no call has to walk the lanes.
	counts Counts
}

const farFuture = math.MaxInt64 - 1 // MaxInt64 itself means never

// enqueue gives a lane its place in the agenda, instead of the one it had.
func (c *agenda) enqueue(l *lane, due int64) {
	parked := len(c.held)+len(c.prefixes) > 0 && c.why(l.id(&c.lanes.entries)) != 0
	if l.standing != absent && l.due == due && !l.halted && !parked {
		return
	}
	c.displace(l)
	l.due = due
	if due < c.soon {
		c.prompt = max(c.prompt, due)
	}
	if !l.halted && !parked {
		c.place(l)
	}
}

// firstDue reads the first payload that waits in a lane, and returns its own due time, by
// the present clock. A payload that was enqueued without a time, or that came back from
// the morgue, is due by now: if its time is ahead, the clock was set back, perhaps in an
// earlier process.
func (c *agenda) firstDue(now int64, l *lane, e *journal.Entry) int64 {
	first := l.first().Ref
	c.lanes.entries.read(first, e)
	due := c.set.since(e.Due, first.Position())
	if e.Restored || e.Due == e.AcceptedAt() {
		due = min(due, now)
	}
	return due
}

// NextDue returns the due time of the oldest job that waits, or math.MaxInt64.
func (c *agenda) NextDue() int64 {
	l := c.next()
	if l == nil {
		return math.MaxInt64
	}
	return l.due
}

// next returns the lane with the earliest due time, or nil.
func (c *agenda) next() *lane {
	a := &c.due
	for len(a.heap) > 0 && !c.valid(a.heap[0]) {
		a.heap.pop()
		a.stale--
	}
	var first *lane
	if a.first != 0 {
		first = c.lanes.at(a.first)
	}
	if len(a.heap) > 0 && (first == nil || a.heap[0].due < first.due) {
		return c.lanes.at(a.heap[0].lane)
	}
	return first
}

// leave removes what next has returned.
func (c *agenda) leave(l *lane) {
	if l.standing == inHeap {
		c.due.heap.pop()
		l.standing = absent
		return
	}
	c.displace(l)
}

// dueQueue has the lanes that wait, by due time. Most due times come in order,
// since they are now: those lanes stand in line, tied to one another by their
// numbers. A lane whose due time is before that of the last in line goes into a
// heap, or if it comes after the one before that, the last one does: a job that is
// put off for a year must not send all others to the heap.
type dueQueue struct {
	first, last number
	heap        heap[turn]
	turns       number // given out so far
	stale       int    // turns in heap that are not valid any more; Invariant: exact
}

// standing says where in the agenda a lane is.
type standing uint8

const (
	absent standing = iota
	inLine          // prev and next are its neighbours
	inHeap          // next is its turn
)

// turn is a lane's place in the heap. It is valid while the lane has the same
// turn; taking a place back would cost a search.
type turn struct {
	due        int64
	lane, turn number
}

func (t turn) before(o turn) bool { return t.due < o.due }

func (c *agenda) valid(t turn) bool {
	l := c.lanes.at(t.lane)
	return l != nil && l.standing == inHeap && l.next == t.turn && l.due == t.due
}

// place gives a lane that is absent its place.
func (c *agenda) place(l *lane) {
	a := &c.due
	if a.last != 0 {
		last := c.lanes.at(a.last)
		switch {
		case last.due <= l.due:
			last.next = l.number
		case last.prev == 0 || c.lanes.at(last.prev).due <= l.due:
			c.displace(last)
			c.scatter(last)
			if a.last != 0 {
				c.lanes.at(a.last).next = l.number
			}
		default:
			c.scatter(l)
			return
		}
	}
	l.standing, l.prev, l.next = inLine, a.last, 0
	if a.last = l.number; a.first == 0 {
		a.first = l.number
	}
}

func (c *agenda) scatter(l *lane) {
	c.due.turns++
	l.standing, l.next = inHeap, c.due.turns
	c.due.heap.push(turn{l.due, l.number, l.next})
}

// displace takes a lane's place away from it, if it has one.
func (c *agenda) displace(l *lane) {
	a := &c.due
	switch l.standing {
	case inLine:
		if l.prev == 0 {
			a.first = l.next
		} else {
			c.lanes.at(l.prev).next = l.next
		}
		if l.next == 0 {
			a.last = l.prev
		} else {
			c.lanes.at(l.next).prev = l.prev
		}
	case inHeap:
		if a.stale++; a.stale > 64 && a.stale > len(a.heap)/2 {
			l.standing = absent
			a.heap.keep(c.valid)
			a.stale = 0
		}
	}
	l.standing = absent
}

// A timer wakes a thread, and the result of what it starts wakes the committer.
// So jobs that are put off for long start at moments that all shards have in
// common, the multiples of Config.Slack: those of one moment share a wake-up, and
// most of their results a commit. 278 jobs a second on disk take 6.1 % of a core with
// 25 ms, and 13.8 % without (go run ./bench -run delayed/durable, two cores).

// patience is how many slacks a job is put off at least to have one: a hundredth of
// a pause is not missed.
const patience = 100

// nextWake returns when to look at the jobs that wait, unless a change comes
// before, or math.MaxInt64: when the oldest is due, or less than a slack later.
// Until the last prompt one is due, the others have no slack either, so that
// one time is all that is to be known about them.
func (c *agenda) nextWake() int64 {
	due, slack := c.NextDue(), int64(c.cfg.Slack)
	if slack == 0 || due <= c.prompt || due > farFuture-slack {
		return due
	}
	return (due + slack - 1) / slack * slack
}

// Err returns why the shard has stopped where it was: the journal could not give
// back an entry. Nil: it works.
func (c *agenda) Err() error { return c.lanes.entries.err }

func (c *agenda) broken() bool { return c.lanes.entries.err != nil }

// later is now + d without overflow, for any d a user may come up with.
func later(now int64, d time.Duration) int64 {
	d = max(d, 0)
	if now > farFuture-int64(d) {
		return farFuture
	}
	return now + int64(d)
}

// Hold is why an id may not run now, with a bit for each reason: one that waits for a
// lock may be paused, too, and what lets it run must end both. It is not written down.
type Hold uint8

const (
	// HoldWait: its job waits for something else than its time, a lock or a slot.
	HoldWait Hold = 1 << iota
	// HoldSuspect: it may have killed the process, and waits for its turn.
	HoldSuspect
	// HoldPause: a person wants it so, perhaps of all ids that begin as it does. The id need not have a job.
	HoldPause
	// holdDead: a dead letter of it is on its way out of the morgue; see Core.Depart.
	holdDead
)

// why returns all reasons to hold an id.
func (c *agenda) why(id []byte) Hold {
	why := c.held[string(id)]
	for n := 1; len(c.prefixes) > 0 && n <= len(id); n++ {
		if c.prefixes[string(id[:n])] {
			return why | HoldPause
		}
	}
	return why
}

// Holds reports whether an id is held for a reason.
func (c *agenda) Holds(id string, why Hold) bool { return c.held[id]&why != 0 }

// Paused reports whether a person has paused the id, a prefix of it, or all ids. Such an
// id may not run.
func (c *agenda) Paused(id string) bool { return c.paused || c.why([]byte(id))&HoldPause != 0 }

// hold sets the reasons for which an id is held, and reports whether they have changed.
func (c *agenda) hold(id string, is Hold) bool {
	was := c.held[id]
	switch {
	case was == is:
		return false
	case is == 0:
		delete(c.held, id)
	case c.held == nil:
		c.held = map[string]Hold{id: is}
	default:
		c.held[id] = is
	}
	count := func(n *int, why Hold) {
		if was&why == 0 && is&why != 0 {
			*n++
		} else if was&why != 0 && is&why == 0 {
			*n--
		}
	}
	count(&c.counts.Parked, HoldWait|HoldSuspect)
	count(&c.counts.Paused, HoldPause)
	return true
}

// unhold is Let for a caller that gives the job its place itself.
func (c *agenda) unhold(id string, why Hold) bool { return c.hold(id, c.held[id]&^why) }
