package journal

import (
	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// remainder is what is to be written of a block without what was refused: the
// results with their follow-ups, and what was carried into it. It goes to disk in pieces that each end
// where a call of Record did; the last one has what was carried, and tells where
// the block ends. In memory the block stays one.
type remainder struct {
	b     *openBlock
	whole *store.Transaction

	// What is written already.
	unit  int // index of the next cut; len(cuts) for what comes after the last one
	from  cut
	parts []store.Dropped
	drop  []store.Dropped // not deleted yet
	first Position
}

// left is the number of units that are not written: calls, and the end.
func (m *remainder) left() int { return len(m.b.cuts) + 1 - m.unit }

// fitting returns how many units may be written at once into so many bytes; one at least.
func (m *remainder) fitting(bytes int) int {
	n := 0
	for bytes -= format.HeaderSize; n < m.left(); n++ {
		to := m.end(n + 1)
		size := to.entries - m.from.entries + to.marks - m.from.marks
		if size+weigh(m.b.changes[m.from.changes:to.changes]) > bytes {
			break
		}
	}
	return max(n, 1)
}

// end is where the next n units end.
func (m *remainder) end(n int) cut {
	if n == m.left() {
		return cut{m.b.End, len(m.b.Marks), len(m.b.changes)}
	}
	return m.b.cuts[m.unit+n-1]
}

// piece makes the transaction of the next n units, and what notes that it is on disk.
func (m *remainder) piece(n int) (t *store.Transaction, wrote func()) {
	to, last := m.end(n), n == m.left()
	t = &store.Transaction{Changes: m.b.changes[m.from.changes:to.changes], Drop: m.drop, Manifest: m.whole.Manifest}
	t.Seq = m.b.Block.Seq + uint64(len(m.parts))
	t.Manifest.Seq = t.Seq
	p := block.NewWriter(nil, format.Manifest{Seq: t.Seq - 1, Next: m.first})
	p.Block.Base = m.b.Block.Base
	next := max(m.entries(&p, to), m.first)
	m.marks(&p, to)
	if last {
		p.Reach(t.Manifest.Next)
	} else {
		t.Manifest.Next = next
		t.Drop, t.Manifest.Oldest = m.freed(t.Manifest, to)
	}
	t.Block = p.Seal(t.Manifest.Epoch)
	return t, func() {
		m.parts = append(m.parts, store.Dropped{Seq: t.Seq, Size: len(t.Block)})
		m.unit, m.from, m.drop, m.first = m.unit+n, to, m.drop[len(t.Drop):], t.Manifest.Next
	}
}

// entries writes the states and follow-ups up to a place, and what was carried. What of it has
// ended is written, too: its end may be in a later piece, or in the block after
// this one, and must not be on disk before what was recorded before it. It returns
// the position after the last new one.
func (m *remainder) entries(p *block.Writer, to cut) (next Position) {
	b := m.b
	d := format.Decoder{B: b.Entries[:to.entries], Off: m.from.entries}
	for d.Off < to.entries {
		var e Entry
		off := d.Off
		d.Entry(&e, b.Block.First, b.Block.Base)
		switch {
		case off >= b.carried, e.Position < b.Block.First && b.stays(uint32(off)):
			p.Add(&e, true)
		case e.Kind == KindState || b.stays(uint32(off)):
			p.Add(&e, false)
			next = e.Position + 1
		}
	}
	return next
}

// marks writes the marks up to a place.
func (m *remainder) marks(p *block.Writer, to cut) {
	d := format.Decoder{B: m.b.Marks[:to.marks], Off: m.from.marks}
	for d.Off < to.marks {
		d.Byte() // their kind
		var ended []Position
		d.Marks(m.b.Block.First, func(p Position) { ended = append(ended, p) })
		p.BeginMarks(len(ended))
		for _, position := range ended {
			p.MarkEnded(position)
		}
	}
}

// freed returns the blocks that can go before what comes after a place is written,
// and which one is the oldest then. Those whose entries are carried can't, nor those
// that only become empty with what comes after it.
func (m *remainder) freed(t format.Manifest, to cut) (drop []store.Dropped, oldest uint64) {
	for i, d := range m.drop {
		if d.Carried || d.Marks > to.marks && d.Entries > to.entries {
			return m.drop[:i], d.Seq
		}
	}
	return m.drop, t.Oldest
}
