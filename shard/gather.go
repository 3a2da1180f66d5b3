package shard

import (
	"cmp"
	"slices"

	"github.com/strandjobs/strand/journal"
)

// gather says what becomes of a payload that arrives for a lane: all are kept, equal ones
// are merged, or the newest supersedes the others, see [MergeSupersede].
//
// When a payload arrives: join puts it beside the others of its id, and arrive in their
// place. What that changes about the due time of its job, as timing has it, is written down.
// When a run ends: returnTo puts what is to run again among those that came meanwhile.
type gather struct {
	dead
	seen  journal.Position // the highest so far
	folds []*Fold          // that nobody has got
}

// join takes in a payload that stands beside those of its id, whose lane is l; nil: it has
// none yet. It returns the position of an equal one that it was merged into, or 0.
func (c *gather) join(l *lane, e *journal.Entry, ref journal.Ref, hash uint32) (into journal.Position) {
	if e.Restored && len(c.outlived) > 0 {
		c.Forget(string(e.ID), e.Position)
	}
	if l == nil {
		l = c.lanes.add(hash)
		c.open(l, e.Due, e.Restored)
		c.rouse(l, e)
	}
	if l.item() != nil {
		c.freshOut(l, e)
	}
	var next journal.Ref
	if len(c.held) > 0 {
		next = l.upNext().Ref
	}
	first := l.n() == 0
	c.came(e, ref)
	if first {
		l.one = Payload{e.Score, ref}
	} else if into = c.merge(l, Payload{e.Score, ref}, e); into != 0 {
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
		if c.loading && l.known().resting {
			due = l.remember().dueAfter(e.Due, due)
		}
		c.enqueue(l, due)
	default:
		c.fresh(l, e.Due)
	}
	leavesSome := 0 < c.cfg.MaxPayloads && c.cfg.MaxPayloads < l.n()
	if len(c.held) > 0 && leavesSome && l.item() == nil && l.upNext().Ref != next && c.unhold(string(e.ID), HoldWait) {
		c.enqueue(l, l.due) // it may not need what the one waits for that was the next
	}
	return into
}

// merge puts a payload into its lane and ends the one that merging leaves over.
func (c *gather) merge(l *lane, p Payload, e *journal.Entry) (into journal.Position) {
	policy := c.cfg.Merge
	if c.loading && c.cfg.Block { // which payloads failed says a state, which comes last: nothing is to merge with them before loaded
		policy = MergeKeepAll
	}
	kept, ended := l.add(&c.lanes.entries, policy, p, e.Payload)
	if b := l.bag(); b != nil {
		b.due = max(b.due, e.Due)
	}
	if c.loading && l.n() == 2 && c.cfg.Block {
		c.loosen(l)
	}
	if ended.IsZero() {
		return 0
	}
	c.replace(ended, kept.Ref.Position(), false)
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

// fresh lets a payload move the due time of a job that waits. While there is no state
// of the job, a replay of its payloads moves it as they did; so it is written down only
// if there is one.
func (c *gather) fresh(l *lane, due int64) {
	if c.keepsDue(l) {
		return
	}
	holds, limit := l.retry() < 0 && (l.holds() || c.loading && c.willHold(l)), c.limitOf(l)
	to := c.freshDue(l, l.due, limit, due, holds)
	if c.gathering(l) && !l.halted && !holds {
		c.bound(l, limit)
		if c.atLimit(l, to, limit) {
			c.enqueue(l, to)
			c.writeState(l)
			return
		}
	}
	if to == l.due {
		return
	}
	c.enqueue(l, to)
	if !l.known().hasState() {
		return
	}
	if !c.loading {
		c.writeState(l)
		return
	}
	// loaded writes the new due time down, unless a state follows: the next start won't
	// find the payload that it came from if that has been merged by then.
	l.remember().pulled = true
	c.loosen(l)
}

// atLimit reports whether a job that is put off no more has no state to say so: what is
// left of a run is due, and a replay would not know that.
func (c *gather) atLimit(l *lane, due, limit int64) bool {
	return c.debounces() && due == limit && !l.known().hasState() && !c.loading
}

// willHold reports, while loading, whether payloads of a job have failed that are held
// when all is loaded.
func (c *gather) willHold(l *lane) bool {
	if !c.cfg.Block || !l.known().hasState() {
		return false
	}
	var e journal.Entry
	c.lanes.entries.read(l.past().state, &e)
	return len(e.Failed) > 0 && e.Failed[0] != 0
}

// freshOut is fresh for a job whose item is out: it says when that is due if nothing
// comes of the run, as a replay would. What came back from the morgue is behind it.
func (c *gather) freshOut(l *lane, e *journal.Entry) {
	it := l.item()
	if e.Restored {
		c.writeStateOut(l, it) // a replay has it in its old place
		return
	}
	if c.keepsDue(l) {
		return
	}
	due, limit := c.undone(it)
	to := c.freshDue(l, due, limit, e.Due, it.held)
	if to != due {
		it.undone, it.moved = it.undone+to-due, true
		if p := l.known(); p.pending > 0 || !p.state.IsZero() && p.state.Position() > e.Position {
			c.writeStateOut(l, it) // a replay has that last: this one had been accepted, and not delivered
		}
	}
	if l.retry() >= 0 {
		it.limit = it.undone // as limitOf
	}
	if !it.held && l.retry() < 0 && c.atLimit(l, to, limit) {
		c.writeStateOut(l, it)
	}
}

// freshStart makes a waiting job new and due at a time, because a payload came
// back to it from the morgue.
func (c *gather) freshStart(l *lane, due int64) {
	moved := l.known().hasState() || l.due != due
	c.override(l, l.known().restEnd)
	l.past().unbound()
	c.bound(l, due)
	c.setRetry(l, -1)
	c.setHalted(l, false)
	c.enqueue(l, due)
	if moved {
		c.writeState(l)
	}
}

// Under [Config].Fold the payloads that a run gets are made one by its worker, see
// [Item.Fold]: nothing is written down for that but their ends. What waits for long would
// be many, however; so from time to time it is folded while it waits, by whoever gets the
// [Fold], and then written down as the payload that its first one is from then on.

// foldEach is how many more payloads of an id wait before they are folded where they wait.
const foldEach = 256

// Fold is what waits for an id, to be folded. It belongs to who got it, until
// [Shard.Folded]; what waits may be handed out or end meanwhile, and then it does not
// count.
type Fold struct {
	Shard *Shard
	ID    string

	// Groups is the outcome.
	Groups []FoldGroup
	// Over is called once, with whether the outcome counts. Who folds sets it, never to nil. It must not block.
	Over func(applied bool)

	bag      *bag
	members  []*hashed // in the order of acceptance
	refs     []journal.Ref
	restored bool // one came back from the morgue
}

// FoldGroup are two or more payloads that become one.
type FoldGroup struct {
	From, To int // from the first up to the one before To
	Payload  []byte
	Room     int // on the disk, see journal.Rewrite
}

// Len returns how many payloads there are, in the order of acceptance.
func (f *Fold) Len() int { return len(f.refs) }

// Read reads a payload. False: it is gone.
func (f *Fold) Read(i int, e *journal.Entry) (found bool, err error) {
	found, err = f.refs[i].Peek(e)
	f.restored = f.restored || found && e.Restored
	return found, err
}

// folding is when the payloads of a bag are folded.
type folding struct {
	fold      *Fold // that is out; nil: none
	left      int   // payloads that the last one has left
	leftBytes int   // and what they weigh
	bytes     int   // that have come since
}

// expectFold asks for a fold if enough has come: foldEach payloads, as many as the last
// one could not fold, and twice the bytes that it has left. So what is written is at most
// half of what came.
func (c *gather) expectFold(l *lane, fresh journal.Ref, restored bool) {
	b := l.bag()
	if b == nil {
		return
	}
	if b.folding == nil {
		b.folding = new(folding)
	}
	f := b.folding
	if restored {
		f.fold = nil // its place may be in the middle
	}
	f.bytes += fresh.Size()
	if n := b.len(); f.fold != nil || n < max(2*f.left, f.left+int(c.cfg.foldEach)) || f.bytes < 2*f.leftBytes {
		return
	}
	id := string(l.id(&c.lanes.entries))
	if c.Holds(id, HoldSuspect) {
		return // what ends the process may be the fold
	}
	out := l.held() // or in hand: it may come back, and what is older stands before it
	if it := l.item(); it != nil {
		out = it.Payloads
	}
	var after journal.Position
	for _, p := range out {
		after = max(after, p.Ref.Position())
	}
	fold := &Fold{ID: id, bag: b, members: make([]*hashed, 0, b.len())}
	for h := range b.order.all {
		if !h.gone && h.Ref.Position() > after {
			fold.members = append(fold.members, h)
		}
	}
	slices.SortFunc(fold.members, func(a, b *hashed) int { return cmp.Compare(a.Ref.Position(), b.Ref.Position()) })
	for _, h := range fold.members {
		if h.Ref.Fresh() {
			return // it was written a moment ago; the next payload asks again
		}
		fold.refs = append(fold.refs, h.Ref)
	}
	if len(fold.refs) < 2 {
		return
	}
	f.fold, f.bytes = fold, 0
	c.folds = append(c.folds, fold)
}

// takeFolds returns what has gathered to be folded.
func (c *gather) takeFolds() (folds []*Fold) {
	folds, c.folds = c.folds, nil
	return folds
}

// folded carries out a fold, unless something has become of its payloads. It reports
// whether it did.
func (c *gather) folded(fold *Fold) bool {
	l := c.lanes.find([]byte(fold.ID))
	if c.broken() || l == nil || l.bag() != fold.bag || fold.bag.folding.fold != fold {
		return false
	}
	f := fold.bag.folding
	f.fold, f.left, f.leftBytes = nil, len(fold.members), 0
	for _, g := range fold.Groups {
		first := fold.members[g.From]
		for _, h := range fold.members[g.From+1 : g.To] {
			fold.bag.forget(h)
			c.replace(h.Ref, first.Ref.Position(), false)
		}
		c.change.Rewritten = append(c.change.Rewritten, journal.Rewrite{Ref: first.Ref, Payload: g.Payload, Room: g.Room})
		c.rewritten = append(c.rewritten, first)
		f.left -= g.To - g.From - 1
		f.leftBytes += len(g.Payload)
	}
	if c.moves() || fold.restored {
		c.pinDue(l) // a replay would miss what has moved it
		c.pinDueOut(l, fold.refs[0].Position())
	}
	return len(fold.Groups) > 0
}

// Fold says that the first n payloads of an item, less those that are parts of the
// outcome, became one with these bytes, nil if they are one; the others wait for the next
// run. It is for the worker, before the handler is called.
func (it *Item) Fold(n int, payload []byte) { it.behind, it.Folded = len(it.Payloads)-n, payload }

// inRun returns the payloads that the run of the item is about.
func (it *Item) inRun() []Payload { return it.Payloads[:len(it.Payloads)-it.behind] }
