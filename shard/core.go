package shard

import (
	"cmp"

	"github.com/strandjobs/strand/journal"
)

// Core is the state of a shard. It is plain data: no clock, no goroutine, no
// I/O but reading entries back; times are Unix nanoseconds. One goroutine at a
// time may use it.
//
// What has to be written down gathers in a change. The caller records it after
// every method, through [Core.Record], before the effects can be seen.
type Core struct{ looks }

// Counts are figures of a shard. Gauges are of now, totals since the start.
type Counts struct {
	Jobs     int // ids with something to do
	Payloads int // payloads that wait or run
	Retrying int // jobs whose last run failed
	Halted   int // jobs that wait for RunNow
	Running  int // jobs handed to workers
	Parked   int // jobs that wait for something else than their time: a lock, a slot
	Paused   int // ids that a person has paused, with a job or without
	Prefixes int // that a person has paused

	// Merged are the payloads that ended because an equal one stands for them. Of
	// those, Replaced had been accepted as standing by themselves: a later one has
	// taken their place, or both met again after a run.
	Merged, Replaced uint64

	// Superseded are those of Merged that a newer state of their id has superseded,
	// whatever their bytes. SupersededDead are dead letters, which were Buried before.
	Superseded, SupersededDead uint64

	Done, Failed, Snoozed, Buried, Discarded, Deleted, Interrupted uint64
}

// NewCore returns the state of an empty shard of a queue.
func NewCore(queue uint32, cfg Config) *Core {
	cfg.Concurrency = cmp.Or(cfg.Concurrency, 1)
	cfg.BatchSize = cmp.Or(cfg.BatchSize, 1)
	cfg.foldEach = cmp.Or(cfg.foldEach, foldEach)
	if cfg.Single {
		cfg.BatchSize, cfg.OnFailure = 1, OnFailureBlock
	}
	if cfg.Merge == MergeSupersede {
		cfg.OnFailure, cfg.MaxPayloads = OnFailureMerge, 1
	}
	if cfg.Single && cfg.Throttle > 0 {
		cfg.MaxPayloads = 1 // each has a run of its own
	}
	c := new(Core)
	c.cfg, c.queue, c.pace = cfg, queue, 1
	c.runs, c.graves = make(map[*Run]struct{}), make(map[string]grave)
	return c
}

// deliver takes in a committed payload, at its position. It returns the
// position of the payload that it was merged into, or 0.
func (c *Core) deliver(e *journal.Entry, ref journal.Ref) (into journal.Position) {
	c.seen = max(c.seen, ref.Position())
	l := c.lanes.find(e.ID)
	if c.broken() {
		return 0
	}
	if c.cfg.Weighed && !c.loading {
		c.change.Surplus = c.change.Surplus.Plus(surplus(e, ref))
	}
	if c.supersedes() {
		return c.arrive(l, e, ref)
	}
	if e.Restored && len(c.outlived) > 0 {
		c.Forget(string(e.ID), e.Position)
	}
	if l == nil {
		l = c.lanes.add(e.ID)
		c.open(l, e.Due, e.Restored)
		c.rouse(l, e)
	} else if it := l.item(); it != nil && it.revoke() {
		c.putBack(l, it)
	}
	if l.item() != nil {
		c.freshOut(l, e)
	}
	first := l.n() == 0
	if into = c.add(l, Payload{e.Score, ref}, e); into != 0 {
		c.counts.Replaced-- // its caller hears of it at once
	}
	if c.cfg.Fold != nil && !c.loading {
		c.expectFold(l, ref, e.Restored) // not when payloads come back, one by one, which are older
	}
	switch {
	case l.item() != nil:
		c.behind(l, e, first)
	case e.Restored:
		c.freshStart(l, e.Due)
	case first && !l.holds():
		due := l.due
		if p := l.past(); c.loading && p != nil && p.resting {
			due = max(due, e.Due)
		}
		c.enqueue(l, due)
	default:
		c.fresh(l, e.Due)
	}
	return into
}

// add takes in a payload.
func (c *gather) add(l *lane, p Payload, e *journal.Entry) (into journal.Position) {
	c.came(e, p.Ref)
	return c.merge(l, p, e)
}

// merge puts a payload into its lane and ends the one that merging leaves over.
func (c *gather) merge(l *lane, p Payload, e *journal.Entry) (into journal.Position) {
	kept, ended := l.add(&c.lanes.entries, c.merging(), p, e.Payload)
	if b := l.bag(); b != nil {
		b.due = max(b.due, e.Due)
	}
	if c.loading && l.n() == 2 && c.cfg.OnFailure == OnFailureBlock {
		c.loosen(l)
	}
	if ended.IsZero() {
		return 0
	}
	c.counts.Merged++
	c.counts.Replaced++
	c.endPayload(ended)
	c.change.Merged = append(c.change.Merged, Merged{Position: ended.Position(), Into: kept.Ref.Position()})
	if ended.Position() < kept.Ref.Position() || c.moves() {
		// The job keeps its due time, although the payload that it may have
		// come from is gone.
		c.pinDue(l)
	}
	c.pinDueOut(l, ended.Position())
	if ended != p.Ref {
		return 0
	}
	return kept.Ref.Position()
}

// behind sets the due time of what arrives while its id runs: a job of its own,
// once the run is over.
func (c *timing) behind(l *lane, e *journal.Entry, first bool) {
	if first || e.Restored {
		c.open(l, e.Due, e.Restored)
	} else if c.moves() {
		l.due = c.moved(l.due, c.limitOf(l), e.Due)
	}
	if e.Restored {
		l.unpinned = true // it is older than what waits
	}
}

// freshStart makes a waiting job new and due at a time, because a payload came
// back to it from the morgue.
func (c *gather) freshStart(l *lane, due int64) {
	moved := l.hasState() || l.due != due
	c.bound(l, due)
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
	l := c.lanes.find([]byte(id))
	if l == nil || l.item() != nil {
		return false
	}
	c.setRetry(l, -1)
	return c.RetryNow(id, now)
}

// RetryNow is RunNow that leaves the retries of the job used up.
func (c *Core) RetryNow(id string, now int64) bool {
	l := c.lanes.find([]byte(id))
	if l == nil || l.item() != nil {
		return false
	}
	c.setHalted(l, false)
	l.unbound()
	c.enqueue(l, now)
	c.writeState(l)
	return true
}

// Has reports whether an id has anything to do.
func (c *looks) Has(id string) bool { return c.lanes.find([]byte(id)) != nil }

// Postpone takes back a started item that can't run now, none of whose payloads is
// done: its id waits until Let, or if not parked, for a worker. The worker lets
// go of the item, which stays in its run.
func (c *Core) Postpone(it *Item, parked bool) {
	it.Outcome, it.Claim = Outcome{}, nil
	switch removals := it.removals.Load(); {
	case removals != nil: // meanwhile
		it.Claim = (*removals)[0].Claim
		c.settle(c.now, it)
	case parked:
		c.Hold(it.ID, HoldWait)
		fallthrough
	default:
		c.undo(it.lane, it)
	}
	it.state.Store(revoked)
}

// Condemn ends the next run of a waiting id before it begins, as one that failed
// for the last time: see [Config.OnExhausted]. Under Config.Single that is the
// payload at a position. The recorder gets held, unless it is nil, as that of an
// item that ran. It reports whether the id, and that payload, waits.
func (c *Core) Condemn(now int64, id string, at journal.Position, reason string, held Held) bool {
	l := c.lanes.find([]byte(id))
	if l == nil || l.item() != nil || c.cfg.Single && !l.hasPayload(at) {
		return false
	}
	c.displace(l)
	var it Item
	judged, behind := c.condemned(l, &it, at)
	it.Claim = held
	it.Outcome = Outcome{Verdict: VerdictFailed, Error: reason}
	c.exhausted(now, l, &it, judged, behind, it.Retry)
	if held != nil {
		c.change.Claims = append(c.change.Claims, claim{held, VerdictFailed, it.over})
	}
	return true
}

// condemned hands out what Condemn is about, and what stands behind it.
func (c *Core) condemned(l *lane, it *Item, at journal.Position) (judged, behind []Payload) {
	if !c.cfg.Single {
		c.handOut(l, it, c.cfg.MaxPayloads)
		return it.Payloads, nil
	}
	c.handOut(l, it, 0)
	for l.n() > 0 { // what waited behind a held payload
		it.Payloads = append(it.Payloads, l.take())
	}
	it.held, it.partial = false, false
	it.moveFirst(at)
	return it.Payloads[:1], it.Payloads[1:]
}

// Counts returns the figures of the shard.
func (c *looks) Counts() Counts {
	c.counts.Jobs = c.lanes.len()
	return c.counts
}

type timing struct {
	cfg   Config
	set   *clockSet
	shift int64 // by how much the clock was set so far
}

type agenda struct {
	timing
	lanes lanes
	due   dueQueue

	paused   bool            // no id may run
	held     map[string]Hold // ids that may not run now, and why
	prefixes map[string]bool // of ids that may not either

	soon   int64 // what is due before it, when it comes to wait, is prompt; see Tick
	prompt int64 // the latest due time of a prompt job so far

	// counts are kept as changes happen, so that no call has to walk the lanes.
	counts Counts
}

type ledger struct {
	agenda
	queue   uint32
	loading bool
	loose   []*lane // lanes that Loaded has to look at again
	ages    ages

	change    Change
	stateOf   []*lane   // the lane of each state in change
	rewritten []*hashed // the payloads that change rewrites
	rested    rested    // ids that have nothing to do, and may not run again at once; under MergeSupersede see newest
}

type throttle struct {
	ledger
	now int64 // as of the last Tick
}

type dead struct {
	throttle
	graves   map[string]grave    // dead letters, under MergeSupersede: one of an id at most
	outlived map[string]outlived // ids with dead letters, under any other policy; see Late
}

type gather struct {
	dead
	seen  journal.Position // the highest so far
	folds []*Fold          // that nobody has got
}

type hands struct {
	gather
	ids    idArena
	spare  []*laneExtra // not in use
	runs   map[*Run]struct{}
	young  []*Run // of runs, those that reclaim has to look at, oldest first
	pace   int    // batches in the next run
	exempt int    // of runs, that don't count against Concurrency

	prefetched uint // has no meaning, but makes the compiler load what it counts
}

type ends struct{ hands }

type looks struct{ ends }
