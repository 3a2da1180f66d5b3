package shard

import (
	"slices"

	"github.com/strandjobs/strand/journal"
)

// ledger is what a shard writes down. It gathers in a change, until Record; what is
// counted goes with it.
type ledger struct {
	agenda
	loose []*lane            // lanes that Loaded has to look at again
	owed  map[*lane]struct{} // lanes whose state the disk had no room for; see again
	ages  ages

	change    Change
	stateOf   []subject // whose each state in change is
	rewritten []*hashed // the payloads that change rewrites
	rested    rested    // ids that have nothing to do, and may not run again at once; under MergeSupersede see newest
}

// subject is whose a state is: that of a lane, or of an id that rests.
type subject struct {
	lane  *lane // nil: the id rests
	rests string
}

// Change is what a shard decided, with what its recorder may want to add to the
// same commit.
type Change struct {
	journal.Change
	Merged []Merged // of Ended
	Claims []claim  // of items that were settled, and of jobs that a person has removed
	Staged []any    // see Item.Stage
	After  func()   // what is to be said and done when it is recorded, see Outcome.Say and Config.PutOff; nil: nothing

	// Heirs are the newest payloads of ids of which an older one was condemned. The recorder
	// calls Condemn for them, and then Let, with HoldSuspect.
	Heirs map[string]journal.Position

	Deleted []journal.Position // of Ended: by a person

	Over    Weight // of the payloads among Ended and Buried
	Surplus Weight // under Config.Weighed: of what was taken in, beyond what Announced says of it
}

// empty reports whether there is nothing to be recorded.
func (c *Change) empty() bool {
	n := len(c.Ended) + len(c.States) + len(c.Buried) + len(c.Claims) + len(c.Exhumed) + c.Room
	return n == 0 && c.Surplus == (Weight{}) && c.After == nil
}

// Merged is a payload that another one replaces.
type Merged struct {
	Position, Into journal.Position
	Over           bool // that one has ended, too: it was superseded by what has run, or is dead
}

// Held is what a job has while it runs. It is the recorder's: a Core only carries it.
type Held interface {
	// Settle ends it as the verdict says, and returns what belongs into the commit of
	// the item; over: none of the item's payloads runs again.
	Settle(v Verdict, over bool) []journal.Set
	// Release lets others have it, once that is recorded.
	Release(over bool)
}

// claim is what was held for an item while it ran.
type claim struct {
	Held
	Verdict Verdict
	Over    bool // none of the item's payloads runs again
}

// Recorder makes a change durable in the next commit, and sets the Ref of each
// state. It does not wait for that commit.
type Recorder interface{ Record(*Change) }

func (c *ledger) came(e *journal.Entry, ref journal.Ref) {
	c.counts.Payloads++
	c.ages.came(e, ref.Position())
}

func (c *ledger) went(ref journal.Ref) {
	c.counts.Payloads--
	c.change.Over = c.change.Over.Plus(weightOf(ref))
	c.ages.went(ref.Position())
}

func (c *ledger) end(ref journal.Ref) { c.change.Ended = append(c.change.Ended, ref) }

func (c *ledger) endPayload(ref journal.Ref) {
	c.went(ref)
	c.end(ref)
}

func (c *ledger) endAll(payloads []Payload) {
	c.change.Ended = slices.Grow(c.change.Ended, len(payloads))
	for _, p := range payloads {
		c.endPayload(p.Ref)
	}
}

// replace ends a payload, for which the one at a position stands from now on. Over: that one
// has ended, too.
func (c *ledger) replace(gone journal.Ref, into journal.Position, over bool) {
	c.counts.Merged++
	c.counts.Replaced++
	c.endPayload(gone)
	c.change.Merged = append(c.change.Merged, Merged{gone.Position(), into, over})
}

// combine ends all but the first of payloads that were folded and are over together.
func (c *ledger) combine(it *Item, judged []Payload) []Payload {
	if it.Folded == nil || len(judged) < 2 {
		return judged
	}
	it.combined = true
	for _, p := range judged[1:] {
		c.replace(p.Ref, judged[0].Ref.Position(), false)
	}
	return judged[:1]
}

// supersede is replace by a newer payload, whatever the bytes.
func (c *ledger) supersede(p Payload, into journal.Position, over bool) {
	c.counts.Superseded++
	c.replace(p.Ref, into, over)
}

func (c *ledger) delete(payloads []Payload) {
	for _, p := range payloads {
		c.endPayload(p.Ref)
		c.change.Deleted = append(c.change.Deleted, p.Ref.Position())
	}
	c.counts.Deleted += uint64(len(payloads))
}

// takeStaged adds what was staged with those of the first n payloads of an item, which
// are done, that have not ended before.
func (c *ledger) takeStaged(it *Item, n int) {
	from := len(c.change.Staged)
	for s := it.staged.Load(); s != nil && s.payload >= it.settled; s = s.next {
		if s.payload < n {
			c.change.Staged = append(c.change.Staged, s.what)
		}
	}
	slices.Reverse(c.change.Staged[from:])
}

// after has the recorder call f as well; nil: nothing.
func (c *ledger) after(f func()) {
	if first := c.change.After; first != nil && f != nil {
		c.change.After = func() {
			first()
			f()
		}
	} else if f != nil {
		c.change.After = f
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

// loosen has Loaded look at a lane again.
func (c *ledger) loosen(l *lane) {
	if !l.loose {
		l.loose = true
		c.loose = append(c.loose, l)
	}
}

// drop forgets an id with nothing left. It has this hash.
func (c *ledger) drop(l *lane, hash uint32) {
	if c.broken() {
		return // it is not known whether this is its id
	}
	c.endState(l)
	c.setRetry(l, -1)
	c.setHalted(l, false)
	c.lanes.remove(l, hash)
	if c.lanes.len() == 0 {
		c.due = dueQueue{} // turns that are stale must not outlive the lanes
	}
}

// writeState writes down what is known about a waiting job, instead of what
// was written before.
func (c *ledger) writeState(l *lane) {
	if c.loading {
		return // a fold of the log adds nothing to the log
	}
	delete(c.owed, l)
	p := l.remember()
	p.resting = false
	c.replaceState(p)
	if p.pending == 0 {
		c.change.States = append(c.change.States, journal.JobState{})
		c.stateOf = append(c.stateOf, subject{lane: l})
		p.pending = len(c.change.States)
	}
	e := &c.change.States[p.pending-1].Entry
	last, failures := p.failures()
	*e = journal.Entry{
		Queue: c.queue, ID: l.id(&c.lanes.entries), Due: l.due,
		Retry: l.retry(), Halted: l.halted, Crashed: l.halted && p.crashed, Error: []byte(last), History: failures,
	}
	if p.bounded && !l.holds() && l.retry() < 0 {
		e.Failed = append(e.Failed, 0, journal.Position(p.limit)) // see gathers
	}
	if p.restEnd != 0 {
		e.Due, e.Failed = p.own, []journal.Position{0, journal.Position(p.restEnd), l.about()} // see restsUntil
	}
	if c.supersedes() && e.Failed == nil {
		e.Failed = append(e.Failed, l.about()) // see stale
	}
	for _, h := range p.held {
		e.Failed = append(e.Failed, h.Ref.Position())
	}
}

// endState ends what is written about a job that is over, and takes back what gathers
// in the change: its lane may be another id's before that is recorded.
func (c *ledger) endState(l *lane) {
	if p := l.past(); p != nil {
		delete(c.owed, l)
		c.replaceState(p)
		c.unwrite(p)
	}
}

// replaceState ends the state that the log has.
func (c *ledger) replaceState(p *runHistory) {
	if !p.state.IsZero() {
		c.end(p.state)
		p.state = journal.Ref{}
	}
}

// unwrite takes a state out of the change. The last one there gets its place.
func (c *ledger) unwrite(p *runHistory) {
	if p.pending == 0 {
		return
	}
	at, last := p.pending-1, len(c.stateOf)-1
	p.pending = 0
	if at < last {
		c.stateOf[at], c.change.States[at] = c.stateOf[last], c.change.States[last]
		if moved := c.stateOf[at].lane; moved != nil {
			moved.past().pending = at + 1
		}
	}
	c.stateOf[last], c.change.States[last] = subject{}, journal.JobState{}
	c.stateOf, c.change.States = c.stateOf[:last], c.change.States[:last]
}

// Record writes the change that has gathered into log, and forgets it. After an
// error of the Core it writes nothing.
func (c *ledger) Record(log Recorder) {
	if c.broken() || c.change.empty() {
		return
	}
	log.Record(&c.change)
	rewritten, at := c.rewritten, c.change.Rewritten
	for i, of := range c.stateOf {
		state := c.change.States[i].Ref
		if of.lane == nil {
			rest := c.rested.byID[of.rests]
			rest.state = state
			c.rested.byID[of.rests] = rest
			continue
		}
		p := of.lane.past()
		p.state, p.pending = state, 0
	}
	c.change.Ended, c.change.States = emptied(c.change.Ended), emptied(c.change.States)
	c.change.Buried, c.change.Exhumed = emptied(c.change.Buried), emptied(c.change.Exhumed)
	c.change.Sets, c.change.Merged = emptied(c.change.Sets), emptied(c.change.Merged)
	c.change.Claims, c.change.Deleted = emptied(c.change.Claims), emptied(c.change.Deleted)
	c.change.Staged = emptied(c.change.Staged)
	c.change.FollowUps, c.change.Heirs, c.change.After, c.change.Room = journal.FollowUps{}, nil, nil, 0
	c.change.Over, c.change.Surplus = Weight{}, Weight{}
	c.stateOf = emptied(c.stateOf)
	if len(rewritten) > 0 {
		c.rewritten, c.change.Rewritten = nil, nil
		for i, h := range rewritten {
			if c.cfg.Weighed {
				c.change.Surplus.Bytes += at[i].Ref.Size() - h.Ref.Size() // the recorder is told how they have grown
			}
			h.Ref = at[i].Ref
		}
		c.Record(log)
	}
}

// emptied returns s for the next use, unless a burst has made it large.
func emptied[T any](s []T) []T {
	if cap(s) > 1<<12 {
		return nil
	}
	clear(s)
	return s[:0]
}

// Weight is what payloads count for in a backlog.
type Weight struct {
	Payloads int
	Bytes    int // in the journal, ids included
}

// Plus returns the sum of two weights.
func (w Weight) Plus(o Weight) Weight { return Weight{w.Payloads + o.Payloads, w.Bytes + o.Bytes} }

// Minus returns the difference of two weights.
func (w Weight) Minus(o Weight) Weight { return Weight{w.Payloads - o.Payloads, w.Bytes - o.Bytes} }

// announcedOverhead is more than the journal adds to a payload and its id.
const announcedOverhead = 64

// Announced is what an enqueued payload counts for before its shard has taken it in
// and knows how many bytes it takes, which are a little fewer.
func Announced(e *journal.Entry) Weight {
	return Weight{1, len(e.ID) + len(e.Payload) + len(e.Metadata) + announcedOverhead}
}

func weightOf(ref journal.Ref) Weight { return Weight{1, ref.Size()} }
