package shard

import (
	"cmp"
	"time"

	"github.com/strandjobs/strand/journal"
)

// Core is the state of a shard. It is plain data: no clock, no goroutine, no I/O but
// reading entries back; times are Unix nanoseconds. One goroutine at a time may use it.
//
// What has to be written down gathers in a change. The caller records it after every method, through [Core.Record],
// before it hands out a run. A [Shard] does so, also after what Do and Tell have called.
//
// It is layers, each of which embeds the one below and knows nothing of those above:
//
//	Core      what the shell and people call
//	looks     shows what there is, and changes nothing
//	ends      what becomes of a run that is over
//	hands     which payloads a worker gets, and what comes back from it
//	gather    what becomes of a payload that arrives for a lane
//	dead      dead letters, as far as an id has to know of them
//	throttle  ids that rest after a run
//	written   what is written down of jobs
//	ledger    what ends, and is counted
//	agenda    the lanes, and which is next
//	timing    when a lane is due
//
// Two of them are policies: gather with its file supersede, and timing with
// throttle. Each is asked when a payload arrives and when a run ends. What a queue has not
// configured is one comparison for a payload.
type Core struct{ looks }

// Counts are figures of a shard. Gauges are of now, totals since the start: of payloads, but Failed, Snoozed and
// Interrupted are of runs of an id.
type Counts struct {
	Jobs     int // ids with something to do
	Payloads int // payloads that wait or run
	Retrying int // jobs that have used up a retry
	Halted   int // jobs that wait for RunNow
	Running  int // jobs handed to workers
	Parked   int // jobs that wait for something else than their time: a lock, a slot
	Paused   int // ids that a person has paused, with a job or without
	Prefixes int // that a person has paused

	// Merged are the payloads that ended because an equal one stands for them. Of those, Replaced had been accepted as
	// standing by themselves: a later one has taken their place, or both met again after a run.
	Merged, Replaced uint64

	// Superseded are those of Merged that a newer state of their id has superseded,
	// whatever their bytes. SupersededDead are dead letters, which were Buried before.
	Superseded, SupersededDead uint64

	Done, Failed, Snoozed, Buried, Discarded, Deleted, Interrupted uint64
}

// NewCore returns the state of an empty shard of a queue.
func NewCore(queue uint32, cfg Config) *Core {
	cfg.Concurrency = cmp.Or(cfg.Concurrency, 1)
	cfg.BatchSize, cfg.foldEach = cmp.Or(cfg.BatchSize, 1), cmp.Or(cfg.foldEach, foldEach)
	if cfg.Single {
		cfg.BatchSize, cfg.Block = 1, true
	}
	if cfg.Merge == MergeSupersede {
		cfg.Block, cfg.MaxPayloads = false, 1
	}
	if cfg.Single && cfg.Throttle > 0 {
		cfg.MaxPayloads = 1 // each has a run of its own
	}
	c := new(Core)
	c.cfg, c.queue, c.pace = cfg, queue, 1
	c.runs = make(map[*Run]struct{})
	c.graves = make(map[string]grave)
	c.outlived = make(map[string]*outlived)
	c.owed = make(map[*lane]struct{})
	return c
}

// come is deliver for a payload that comes now. If its caller asked for no time, and the clock was set back while
// it was under way, it is due.
func (c *Core) come(e *journal.Entry, ref journal.Ref, hash uint32) (into journal.Position) {
	ahead := e.Due-c.now >= int64(clockStep) && !e.Restored && e.Due == e.AcceptedAt()
	if ahead {
		e.Accepted, e.Due = e.Due, c.now
	}
	if into = c.deliver(e, ref, hash); ahead {
		c.pinAhead(e)
	}
	return into
}

// deliver takes in a committed payload, at its position, whose id has this hash. It
// returns the position of the payload that it was merged into, or 0.
func (c *Core) deliver(e *journal.Entry, ref journal.Ref, hash uint32) (into journal.Position) {
	c.seen = max(c.seen, ref.Position())
	l := c.lanes.look(hash, e.ID)
	if c.broken() {
		return 0
	}
	if c.cfg.Weighed && !c.loading {
		more := weightOf(ref)
		if !e.Restored { // what comes back from the morgue was not announced
			more = more.Minus(Announced(e))
		}
		c.change.Surplus = c.change.Surplus.Plus(more)
	}
	if l != nil && l.item() != nil && l.item().revoke() {
		c.putBack(l, l.item())
	}
	keeps := c.cfg.PutOff != nil && !c.loading && l != nil && l.item() == nil && l.due <= c.now
	if c.supersedes() {
		into = c.arrive(l, e, ref, hash)
	} else {
		into = c.join(l, e, ref, hash)
	}
	if keeps && l.due > c.now && !c.Holds(string(e.ID), HoldWait) {
		id := string(e.ID)
		c.after(func() { c.cfg.PutOff(id) })
	}
	return into
}

// RunNow makes a waiting job due at a time, and lets a halted one go on. Anew: its retries
// are given back. It reports whether the id waits.
func (c *Core) RunNow(id string, now int64, anew bool) bool {
	l := c.lanes.find([]byte(id))
	if l == nil || l.item() != nil {
		return false
	}
	if anew {
		c.setRetry(l, -1)
	}
	c.setHalted(l, false)
	c.override(l, l.known().restEnd)
	l.past().unbound()
	c.enqueue(l, now)
	c.writeState(l)
	return true
}

// Hold keeps an id from running for a reason, until Let. What runs of it at the
// moment goes on, but for what no worker has begun. It reports whether the id was not
// held for that reason.
func (c *Core) Hold(id string, why Hold) bool {
	held := c.hold(id, c.held[id]|why)
	if held {
		c.Reconsider(id)
	}
	return held
}

// Let ends a reason to hold an id, which runs again when no other is left. It reports
// whether the id was held for that reason.
func (c *Core) Let(id string, why Hold) bool {
	let := c.unhold(id, why)
	if let {
		c.Reconsider(id)
	}
	return let
}

// Reconsider gives the job of an id the place that it should have, after a change of what
// holds it. Of a job that is held it takes back what its worker has not begun.
func (c *Core) Reconsider(id string) {
	l := c.lanes.find([]byte(id))
	if l == nil {
		return
	}
	switch it := l.item(); {
	case it == nil:
		c.enqueue(l, l.due)
	case c.why([]byte(id)) == 0:
	case it.revoke():
		c.putBack(l, it)
	case c.cfg.Single && len(it.Payloads) > 1:
		c.recall(it)
	}
}

// Pause keeps all ids from running, or ends that, and takes back what no worker has
// begun: what runs goes on, with the payload, the job or the batch in hand. A shard
// that is paused asks for no worker, and no timer wakes it.
func (c *Core) Pause(now int64, on bool) {
	if c.paused = on; !on {
		return
	}
	pace := c.pace // that runs are short now says nothing of jobs
	for r := range c.runs {
		c.takeApart(now, r)
	}
	c.pace = pace
}

// PausePrefix keeps the ids that begin so from running, or ends that. It holds for what
// arrives from now on. The caller calls Reconsider for each id that is there already: of
// millions, some at a time.
func (c *Core) PausePrefix(prefix string, on bool) {
	if c.prefixes == nil {
		c.prefixes = make(map[string]bool)
	}
	if delete(c.prefixes, prefix); on {
		c.prefixes[prefix] = true
	}
	c.counts.Prefixes = len(c.prefixes)
}

// Postpone takes back a started item that can't run now, none of whose payloads is done: if parked, the id is held
// until Let; otherwise it waits for the next free worker. The worker lets go of the item, which stays in its run.
func (c *Core) Postpone(it *Item, parked bool) {
	it.Outcome, it.Claim = Outcome{Unrun: true}, nil
	parked = parked && !c.overtakes(it)
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

// overtakes reports whether a payload has come, while an item was in hand, that runs before those of the item, and
// without them: it may not need what they wait for.
func (c *Core) overtakes(it *Item) bool {
	l := it.lane
	return c.cfg.MaxPayloads > 0 && !it.held && l.n() > 0 && l.first().before(it.Payloads[0])
}

// Successor returns what has taken the place of a payload while the core was loaded, and has
// what set says of that written down with it. Call it before anything else.
func (c *Core) Successor(at journal.Position, set func(journal.Position) journal.Set) journal.Position {
	to := at
	for _, m := range c.change.Merged {
		if m.Position == to && !m.Over {
			to = m.Into
		}
	}
	if to != at {
		c.change.Sets = append(c.change.Sets, journal.Cleared(at), set(to))
	}
	return to
}

// Condemn ends a payload of a waiting id that is at a position, or what has taken its place,
// as one that has failed for the last time: see [Config].Halt. Payloads that are over
// together, as without Config.Single under BuryAll, are those of the next run. The
// recorder gets held, unless it is nil, as that of an item that ran. Condemn reports whether
// the id, and that payload, waits.
func (c *Core) Condemn(now int64, id string, at journal.Position, reason string, held Held) bool {
	l := c.lanes.find([]byte(id))
	if l != nil && c.supersedes() {
		at = l.one.Ref.Position()
	}
	if l == nil || l.item() != nil || l.payload(at).IsZero() {
		return false
	}
	it := Item{Retry: l.retry(), Outcome: Outcome{Crashed: true}}
	switch {
	case c.cfg.Halt: // all of it stays where it is
		it.LastError, it.History = l.known().failures()
		p := l.remember()
		p.err, p.history, p.crashed = reason, it.Failed(now, reason), true
		if c.cfg.Block && (!c.cfg.Single || l.upNext().Ref.Position() == at) { // and not what is behind it
			it.begin(l, c.limit(1))
			c.returnTo(l, it.Payloads, true)
			l.past().unbound()
		}
		c.setHalted(l, true)
		c.displace(l)
		c.writeState(l)
	case c.cfg.Single || !c.cfg.BuryAll && c.cfg.Fold == nil:
		failed := len(l.held())
		c.Remove(now, id, &Removal{Verdict: VerdictCanceled, Reason: reason, Of: []journal.Position{at}, Claim: held, crashed: true})
		if left := len(l.held()); !c.cfg.Single && (failed == 0 || 0 < left && left < failed) {
			c.RunNow(id, now, true) // what it ran with starts again as if new
		}
		return true
	default:
		c.displace(l)
		c.handOut(l, &it, c.cfg.MaxPayloads)
		c.bury(now, &it, it.Payloads, reason)
		c.over(now, l, &it, nil)
	}
	if held != nil {
		c.change.Claims = append(c.change.Claims, claim{held, VerdictFailed, it.over})
	}
	return true
}

// Depart says that a dead letter of a superseding queue is about to be put back, or
// deleted. It reports whether that is still one; then the id is held until Departed, so
// that no newer payload runs before it is known what has become of the dead letter.
func (c *Core) Depart(id string, at journal.Position) bool {
	g, dead := c.graves[id]
	if !dead || g.at != at || g.leaving {
		return false
	}
	g.leaving = true
	c.graves[id] = g
	c.Hold(id, holdDead)
	return true
}

// Departed ends what a Depart that returned true has begun; it is not called after one that returned false. Gone: the
// dead letter is in the morgue no more.
func (c *Core) Departed(id string, at journal.Position, gone bool) {
	if g, dead := c.graves[id]; dead && g.at == at {
		g.leaving = false
		c.graves[id] = g
		if gone {
			delete(c.graves, id)
		} else if newer, over := c.newer(g.version, c.lanes.find([]byte(id)), id); over {
			c.exhume(id, newer)
		} else {
			c.succeed(id, newer)
		}
	}
	c.Let(id, holdDead)
}

// Config says how the jobs of a queue behave. The zero Config has no retries; the
// executor fills in its defaults.
type Config struct {
	// Quiet: a job waits until no payload has come for so long; 0: it does not. It gathers
	// from its first payload on: it is due Quiet after its latest payload, and at its limit,
	// MaxWait after its first one, at the latest; the time of a payload is when that is due by
	// itself. Payloads that come while it runs gather for the next run. A due time that was
	// decided upon, by a retry, a snooze, RunNow or a payload from the morgue, is its own
	// limit: the job is put off no more.
	Quiet   time.Duration
	MaxWait time.Duration // Quiet at least

	Throttle    time.Duration // between the end of a run and the next of its id; 0: none. Neither with Quiet nor with DuePull and DuePush
	MaxRetries  int           // retries before a job is exhausted; 0: the first failure exhausts it
	Concurrency int           // runs at a time, at most; 0 means 1
	Merge       Merge

	// What happens when a job has used up its retries, one of the two at most. By default the
	// oldest payload is buried, and the others start again as if new, due now.
	Halt, BuryAll bool

	// What a fresh payload does to the due time of a job that waits for it, and not for a retry:
	// an earlier one pulls it, a later one pushes it. One of the two at most, and none with Quiet.
	DuePull, DuePush bool

	// Block: failed payloads run again alone until they are done or buried, and everything
	// else of the id waits behind them. Without it they go back among the waiting ones, and
	// the retry gets all of them, in score order.
	Block bool

	// Pull: a fresh payload makes a job that waits for a retry due when it is itself, if that
	// is earlier. The retry count stays.
	Pull bool

	// Single: a handler gets one payload at a time, and each has an outcome of its
	// own; see Outcome.Done. A run goes through the payloads of an id in their order
	// and ends with the first one that is not done. Retry count and last error are
	// those of the payload that failed: so Block is set, too, and what arrives
	// later with a lower score can't take its turn, and its count with it.
	Single bool

	// Weighed: the recorder is told Change.Surplus, by itself if need be.
	Weighed bool

	foldEach int32 // see the constant; 0: that

	// Fold gets what waits for an id, to be folded, when a good deal does; see
	// [Core]. It must not block. Nil: payloads are not folded. With it Merge is
	// MergeKeepAll and MaxPayloads 0, and without Single; runs are in the order of
	// acceptance, whatever the scores.
	Fold func(*Fold)

	// PutOff is told, by the recorder, of a job that does not wait for something else, was due, and is put off by
	// what has come: what is kept for it, because its turn has come, is free. Nil: nothing is kept.
	PutOff func(id string)

	BatchSize   int // ids that a handler gets in one call; 0 means 1. Under Single it is 1, too.
	MaxPayloads int // payloads of one id in a run; 0 means all, under Single a few

	// Slack is how late a job may start that was put off for a hundred times as
	// long, or longer; 0: jobs start on time.
	Slack time.Duration

	// Short reports whether the disk has hardly any room: then a run is one call of a
	// handler, so that payloads end about in the order in which they are on the disk,
	// and make room as they do, before many of them take some. Nil: it has room.
	Short func() bool
}

// Exhausts says whether the outcome of it is a failure that no retry follows.
func (c *Config) Exhausts(it *Item) bool { return it.Outcome.Verdict == VerdictFailed && c.LastTry(it) }

// InHand returns the payloads that a handler gets at once, of a started item.
func (c *Config) InHand(it *Item) []Payload {
	if c.Single {
		return it.Payloads[it.Outcome.Done:][:1]
	}
	return it.inRun()
}

// LastTry says whether no retry follows if it fails.
func (c *Config) LastTry(it *Item) bool { return it.Retry+1 >= c.MaxRetries }
