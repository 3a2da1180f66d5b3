package shard

import (
	"cmp"
	"slices"

	"github.com/strandjobs/strand/journal"
)

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
	// Over is called when the outcome counts, or does not. It must not block.
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
	if n := b.len(); f.fold != nil || n < max(2*f.left, f.left+c.cfg.foldEach) || f.bytes < 2*f.leftBytes {
		return
	}
	out := l.held() // or in hand: it may come back, and what is older stands before it
	if it := l.item(); it != nil {
		out = it.Payloads
	}
	var after journal.Position
	for _, p := range out {
		after = max(after, p.Ref.Position())
	}
	fold := &Fold{ID: string(l.id(&c.lanes.entries)), bag: b, members: make([]*hashed, 0, b.len())}
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
