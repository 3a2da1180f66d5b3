package shard

import (
	"bytes"

	"github.com/strandjobs/strand/journal"
)

// Merge says what becomes of two payloads of one waiting id with equal bytes.
// Only equal payloads are merged, but for MergeSupersede.
type Merge uint8

const (
	// MergeKeepAll keeps both: for events, each of which counts. The default.
	MergeKeepAll Merge = iota
	// MergeMinScore keeps the one with the lower score; the earlier one when they
	// are equal: Lowkiq's set.
	MergeMinScore
	// MergeKeepFirst keeps the one that was accepted first.
	MergeKeepFirst
	// MergeKeepLast keeps the one that was accepted last.
	MergeKeepLast
	// MergeSupersede keeps the newest, whatever the bytes: the one with the highest
	// score, and of equal scores, or where one has none, the one that was accepted last. It is not about what
	// waits alone: see the package comment. It is without Block, and a run
	// has one payload of an id. Neither with FreshDue, Pull nor Fold.
	MergeSupersede
)

// merging returns the policy for payloads that come in. Under Config.Block it
// takes a state, which comes last, to know which payloads failed. These must
// not merge with what waits behind them, so nothing does before Loaded.
func (c *gather) merging() Merge {
	if c.loading && c.cfg.Block {
		return MergeKeepAll
	}
	return c.cfg.Merge
}

// merge puts a payload into its lane and ends the one that merging leaves over.
func (c *gather) merge(l *lane, p Payload, e *journal.Entry) (into journal.Position) {
	kept, ended := l.add(&c.lanes.entries, c.merging(), p, e.Payload)
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

// replaces reports whether p stays rather than old, which has equal bytes.
func replaces(m Merge, p, old Payload) bool {
	switch m {
	case MergeKeepFirst:
		return p.Ref.Position() < old.Ref.Position()
	case MergeKeepLast:
		return p.Ref.Position() > old.Ref.Position()
	}
	return p.before(old)
}

func sameBytes(r *entryReader, p Payload, data []byte) bool {
	var e journal.Entry
	return r.read(p.Ref, &e) && bytes.Equal(e.Payload, data)
}
