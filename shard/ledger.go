package shard

import (
	"slices"

	"github.com/strandjobs/strand/journal"
)

// ledger is what ends. It gathers in a change, until Record; what is counted goes
// with it.
type ledger struct {
	agenda
	ages      ages
	change    Change
	rewritten []*hashed // the payloads that change rewrites
}

// Change is what a shard decided, with what its recorder may want to add to the
// same commit.
type Change struct {
	journal.Change
	Merged []Merged // of Ended
	Claims []claim  // of items that were settled and jobs that were removed: the recorder calls Settle and then Release
	Staged []any    // see Item.Stage
	After  func()   // the recorder calls it when all is recorded, for Outcome.Say and Config.PutOff; nil: nothing

	// Heirs are the newest payloads of ids of which an older one was condemned. The recorder
	// calls Condemn for them, and then Let, with HoldSuspect.
	Heirs map[string]journal.Position

	Deleted []journal.Position // of Ended: by a person

	Over    Weight // of the payloads among Ended and Buried
	Surplus Weight // under Config.Weighed: of what was taken in, less what Announced says of it; mostly below zero
}

// empty reports whether there is nothing to be recorded.
func (c *Change) empty() bool {
	n := len(c.Ended) + len(c.States) + len(c.Buried) + len(c.Claims) + len(c.Exhumed) + c.Room
	return n == 0 && c.Surplus == (Weight{}) && c.After == nil
}

// Merged is a payload that another one replaces.
type Merged struct {
	Position, Into journal.Position
	Over           bool // Into has ended before: it has run, or is dead
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
