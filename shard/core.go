package shard

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/strandjobs/strand/journal"
)

// Core is the state of a shard. It is plain data: no clock, no goroutine, no
// I/O; times are Unix nanoseconds. One goroutine at a time may use it.
//
// What has to be written down gathers in a change. The caller records it after
// every method, through [Core.Record], before anybody can see the effects.
type Core struct {
	cfg   Config
	queue uint32
	lanes map[string]*lane
	slab  []lane  // lanes not used yet
	spare []*lane // lanes used before
	peak  int     // most lanes since they were last given up
	due   timeline[turn]
	stale int // entries of due that are not valid any more; Invariant: exact
	runs  map[*Run]struct{}
	pace  int // batches in the next run

	change  journal.Change
	stateOf []*lane // the lane of each state in change

	loading bool
	loose   []*lane // lanes that Loaded has to look at again

	// counts are kept as changes happen, so that nobody has to walk the lanes.
	counts Counts
}

// turn is a lane's place in the due queue. It is valid while the lane has the
// same turn; taking a place back would cost a search.
type turn struct {
	due  int64
	lane *lane
	turn uint32
}

func (t turn) before(o turn) bool { return t.due < o.due }

const (
	slabSize = 64
	// shrinkAbove is how many lanes are kept for the next burst.
	shrinkAbove = 1 << 12
	farFuture   = math.MaxInt64 - 1 // MaxInt64 itself means never
	// maxPace bounds the batches in one run, and so how much a worker may have
	// in hand.
	maxPace = 64
	// Quantum is how long a worker goes on with one run. It bounds how long a
	// fast id waits behind another one that was handed out with it.
	Quantum = time.Millisecond
)

// Counts are figures of a shard. Gauges are of now, totals since the start.
type Counts struct {
	Jobs     int // ids with something to do
	Payloads int // payloads that wait or run
	Retrying int // jobs whose last run failed
	Halted   int // jobs that wait for RunNow
	Running  int // jobs handed to workers

	Merged, Done, Failed, Snoozed, Buried, Discarded, Interrupted uint64
}

// Add adds the figures of another shard.
func (c *Counts) Add(o Counts) {
	c.Jobs += o.Jobs
	c.Payloads += o.Payloads
	c.Retrying += o.Retrying
	c.Halted += o.Halted
	c.Running += o.Running
	c.Merged += o.Merged
	c.Done += o.Done
	c.Failed += o.Failed
	c.Snoozed += o.Snoozed
	c.Buried += o.Buried
	c.Discarded += o.Discarded
	c.Interrupted += o.Interrupted
}

// NewCore returns the state of an empty shard of a queue.
func NewCore(queue uint32, cfg Config) *Core {
	cfg.Concurrency = cmp.Or(cfg.Concurrency, 1)
	cfg.BatchSize = cmp.Or(cfg.BatchSize, 1)
	return &Core{cfg: cfg, queue: queue, lanes: make(map[string]*lane), runs: make(map[*Run]struct{}), pace: 1}
}

// Load takes in an entry that was live when the journal was opened. Entries
// come in position order, before anything else; Loaded follows.
func (c *Core) Load(ref journal.Ref) {
	c.loading = true
	var e journal.Entry
	ref.Read(&e)
	if e.Kind == journal.KindEnqueued {
		c.Deliver(&e, ref)
		return
	}
	l := c.lanes[string(e.ID)]
	if l == nil {
		// The payload that the state was written for has been replaced by a
		// later one, or nothing comes: Loaded sees to that.
		l = c.newLane(string(e.ID))
		c.loose = append(c.loose, l)
	}
	c.endState(l)
	p := l.remember()
	p.state, p.err = ref, string(e.Error)
	if c.cfg.OnFailure == BlockFailed && len(e.Failed) > 0 {
		p.held, p.nextDue = l.split(c.cfg.Merge, e.Failed), l.due
	}
	c.setRetry(l, e.Retry)
	c.setHalted(l, e.Halted)
	c.enqueue(l, e.Due)
}

// Loaded ends the loading.
func (c *Core) Loaded() {
	c.loading = false
	for _, l := range c.loose {
		switch {
		case l.empty():
			c.dequeue(l)
			c.drop(l)
		case l.unpinned:
			c.pinDue(l)
		}
	}
	c.loose = nil
}

// Deliver takes in a committed payload, at its position. It returns the
// position of the payload that it was merged into, or 0.
func (c *Core) Deliver(e *journal.Entry, ref journal.Ref) (into journal.Position) {
	l := c.lanes[string(e.ID)]
	if l == nil {
		l = c.newLane(string(e.ID))
		l.due = e.Due
	} else if l.item != nil && l.item.revoke() {
		c.putBack(l, l.item)
	}
	first := l.n == 0
	into = c.add(l, Payload{e.Score, ref}, e.Payload)
	switch held := l.holds() || (l.item != nil && l.item.held); {
	case e.Restored && l.item == nil:
		c.freshStart(l, e.Due)
	case held && first:
		l.past.nextDue = e.Due
		c.pull(l, e.Due)
	case first && l.item != nil && !l.item.partial:
		l.due = e.Due // what arrives while all the rest runs is a job of its own
	case first && l.item == nil:
		c.enqueue(l, l.due)
	default:
		c.pull(l, e.Due)
	}
	return into
}

// add puts a payload into its lane and ends the one that merging leaves over.
func (c *Core) add(l *lane, p Payload, data []byte) (into journal.Position) {
	c.counts.Payloads++
	kept, ended := l.add(c.cfg.Merge, p, data)
	if ended.IsZero() {
		return 0
	}
	c.counts.Merged++
	c.endPayload(ended)
	if ended == p.Ref {
		return kept.Ref.Position()
	}
	// The job keeps its due time, although the payload that it may have come
	// from is gone.
	c.pinDue(l)
	return 0
}

// pinDue writes the due time of a job down where no state says it yet. Without
// that a replay would take it from the earliest payload that is left.
func (c *Core) pinDue(l *lane) {
	if l.item != nil || c.loading {
		if !l.unpinned && c.loading {
			c.loose = append(c.loose, l)
		}
		l.unpinned = true // finish, or Loaded, sees to it
		return
	}
	l.unpinned = false
	if !l.hasState() && !l.empty() {
		c.writeState(l)
	}
}

// pull makes a job that waits for a retry due earlier, if the policy says so.
func (c *Core) pull(l *lane, due int64) {
	if c.cfg.OnFresh == PullRetry && l.item == nil && l.retry >= 0 && !l.halted && due < l.due {
		c.enqueue(l, due)
		c.writeState(l)
	}
}

// freshStart makes a waiting job new and due at a time, because a payload came
// back to it from the morgue.
func (c *Core) freshStart(l *lane, due int64) {
	moved := l.hasState() || (l.n > 1 && l.due != due)
	c.setRetry(l, -1)
	c.setHalted(l, false)
	c.enqueue(l, due)
	if moved {
		c.writeState(l)
	}
}

// RunNow makes a waiting job due at a time, with its retries given back, and
// lets a halted one go on. It reports whether the id waits.
func (c *Core) RunNow(id string, now int64) bool {
	l := c.lanes[id]
	if l == nil || l.item != nil {
		return false
	}
	c.setRetry(l, -1)
	c.setHalted(l, false)
	c.enqueue(l, now)
	c.writeState(l)
	return true
}

// enqueue gives a lane its place in the due queue, instead of the one it had.
func (c *Core) enqueue(l *lane, due int64) {
	if l.queued && l.due == due && !l.halted {
		return
	}
	c.dequeue(l)
	l.due = due
	if l.halted {
		return
	}
	l.queued = true
	c.due.push(turn{due, l, l.turn})
	if c.stale > 64 && c.stale > c.due.len()/2 {
		c.sweep()
	}
}

// dequeue takes a lane's place away from it.
func (c *Core) dequeue(l *lane) {
	if l.queued {
		l.queued = false
		c.stale++
	}
	l.turn++
}

// sweep rebuilds the due queue without its stale entries.
func (c *Core) sweep() {
	valid := make([]turn, 0, c.due.len()-c.stale)
	c.due.all(func(t turn) {
		if t.valid() {
			valid = append(valid, t)
		}
	})
	slices.SortFunc(valid, func(a, b turn) int { return cmp.Compare(a.due, b.due) })
	c.due, c.stale = timeline[turn]{}, 0
	for _, t := range valid {
		c.due.push(t)
	}
}

func (t turn) valid() bool { return t.lane.queued && t.lane.turn == t.turn }

// NextDue returns the due time of the oldest job that waits, or math.MaxInt64.
func (c *Core) NextDue() int64 {
	for {
		t := c.due.first()
		if t == nil {
			return math.MaxInt64
		}
		if t.valid() {
			return t.due
		}
		c.due.pop()
		c.stale--
	}
}

// Ready returns the due time of the oldest job, and whether a run of it may
// begin now.
func (c *Core) Ready(now int64) (due int64, ok bool) {
	due = c.NextDue()
	return due, due <= now && len(c.runs) < c.cfg.Concurrency
}

// Take hands out the oldest due jobs, as many as are likely to be done within
// the quantum, oldest first. It reports false when none is due or the shard
// has as many runs as it may.
func (c *Core) Take(now int64, r *Run) bool {
	if len(c.runs) >= c.cfg.Concurrency {
		return false
	}
	r.Items = r.Items[:0]
	for len(r.Items) < c.pace*c.cfg.BatchSize && c.NextDue() <= now {
		l := c.due.pop().lane
		l.queued = false
		r.grow()
		it := &r.Items[len(r.Items)-1]
		it.begin(l, c.cfg.MaxPayloads)
		l.item = it
		c.counts.Running++
	}
	if len(r.Items) == 0 {
		return false
	}
	r.taken, r.Elapsed = now, 0
	c.runs[r] = struct{}{}
	return true
}

// grow adds an item without moving the others: lanes point to them.
func (r *Run) grow() {
	if r.Items = r.Items[:len(r.Items)+1]; len(r.Items) > cap(r.Items) {
		panic("shard: bug: a run is too small for its items")
	}
}

// NewRun returns a run that is large enough for Take.
func (c *Core) NewRun() *Run { return &Run{Items: make([]Item, 0, maxPace*c.cfg.BatchSize)} }

// Reclaim takes back what workers have had for longer than the quantum and did
// not start: it stands behind a slow job and another worker could have it. It
// returns when to look again, or math.MaxInt64.
func (c *Core) Reclaim(now int64) (next int64) {
	next = math.MaxInt64
	if c.cfg.Concurrency == 1 {
		return next // nobody else may run them
	}
	for r := range c.runs {
		if len(r.Items) == 1 {
			continue
		}
		if at := r.taken + int64(Quantum); at > now {
			next = min(next, at)
			continue
		}
		for i := range r.Items {
			if it := &r.Items[i]; it.revoke() {
				c.putBack(it.lane, it)
			}
		}
	}
	return next
}

// Counts returns the figures of the shard.
func (c *Core) Counts() Counts {
	c.counts.Jobs = len(c.lanes)
	return c.counts
}

// Recorder makes a change durable in the next commit, and sets the Ref of each
// state. It does not block, and nobody waits for that commit. [journal.Log] is one.
type Recorder interface{ Record(*journal.Change) }

// Record writes the change that has gathered into log, and forgets it.
func (c *Core) Record(log Recorder) {
	if len(c.change.Ended)+len(c.change.States)+len(c.change.Buried) == 0 {
		return
	}
	log.Record(&c.change)
	for i, l := range c.stateOf {
		l.past.state, l.past.pending = c.change.States[i].Ref, 0
	}
	c.change.Ended = c.change.Ended[:0]
	clear(c.change.States)
	c.change.States = c.change.States[:0]
	clear(c.change.Buried)
	c.change.Buried = c.change.Buried[:0]
	clear(c.stateOf)
	c.stateOf = c.stateOf[:0]
}
