package journal

// remainder is what is to be written of a block without what was refused: the
// results, and what was carried into it. It goes to disk in pieces that each end
// where a call of Record did; the last one has what was carried, and tells where
// the block ends. In memory the block stays one.
type remainder struct {
	l     *Log
	b     *openBlock
	whole *transaction

	// What is written already.
	unit  int // index of the next cut; len(cuts) for what comes after the last one
	from  cut
	parts []dropped
	drop  []dropped // not deleted yet
	first Position

	// What the last piece made is when it is written.
	next remainderEnd
}

// remainderEnd is where a piece ends.
type remainderEnd struct {
	unit int
	at   cut
	size int
	drop []dropped
	tail tail
}

func newRemainder(l *Log, b *openBlock, whole *transaction) *remainder {
	return &remainder{l: l, b: b, whole: whole, from: cut{entries: headerSize}, drop: whole.drop, first: b.block.first}
}

// left is the number of units that are not written: calls, and the end.
func (m *remainder) left() int { return len(m.b.cuts) + 1 - m.unit }

// fitting returns how many units may be written at once into so many bytes; one
// at least.
func (m *remainder) fitting(bytes int) int {
	n := 0
	for bytes -= headerSize; n < m.left(); n++ {
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
		return cut{m.b.end, len(m.b.marks), len(m.b.changes)}
	}
	return m.b.cuts[m.unit+n-1]
}

// piece makes the transaction of the next n units.
func (m *remainder) piece(n int) *transaction {
	to, last := m.end(n), n == m.left()
	t := m.whole.tail
	t.seq = m.b.block.seq + uint64(len(m.parts))
	p := newWriter(nil, tail{seq: t.seq - 1, next: m.first})
	p.block.base = m.b.block.base
	next := m.entries(&p, to)
	m.marks(&p, to)
	drop := m.drop
	next = max(next, m.first)
	if last && next < t.next {
		p.reach(t.next)
	} else if !last {
		t.next = next
		drop, t.oldest = m.freed(t)
	}
	block := p.seal(t.epoch, false)
	m.next = remainderEnd{unit: m.unit + n, at: to, size: len(block), drop: m.drop[len(drop):], tail: t}
	return &transaction{seq: t.seq, block: block, drop: drop, changes: m.b.changes[m.from.changes:to.changes], tail: t}
}

// entries writes the states up to a place, and what was carried, unless they
// ended meanwhile. It returns the position after the last new one.
func (m *remainder) entries(p *writer, to cut) (next Position) {
	m.l.mu.Lock()
	defer m.l.mu.Unlock()
	b := m.b
	d := decoder{b: b.entries[:to.entries], off: m.from.entries}
	for d.off < to.entries {
		var e Entry
		off := d.off
		d.entry(&e, b.block.first, b.block.base)
		switch {
		case b.block.ended(uint32(off)):
		case off >= b.carried:
			p.add(&e, true)
		case e.Kind == KindState:
			p.add(&e, false)
			next = e.Position + 1
		}
	}
	return next
}

// marks writes the marks up to a place.
func (m *remainder) marks(p *writer, to cut) {
	d := decoder{b: m.b.marks[:to.marks], off: m.from.marks}
	for d.off < to.marks {
		d.byte() // their kind
		var ended []Position
		d.marks(m.b.block.first, func(p Position) { ended = append(ended, p) })
		p.beginMarks(len(ended))
		for _, position := range ended {
			p.markEnded(position)
		}
	}
}

// freed returns the blocks that can go before the rest is written, and which
// one is the oldest then.
func (m *remainder) freed(t tail) (drop []dropped, oldest uint64) {
	for i, d := range m.drop {
		if d.carried {
			return m.drop[:i], d.seq
		}
	}
	return m.drop, t.oldest
}

// wrote notes that the last piece is on disk.
func (m *remainder) wrote() {
	m.parts = append(m.parts, dropped{seq: m.next.tail.seq, size: m.next.size})
	m.unit, m.from, m.drop, m.first = m.next.unit, m.next.at, m.next.drop, m.next.tail.next
}

// settle notes in the accounts what the block is on disk. The caller holds mu.
func (m *remainder) settle() {
	b := m.b.block
	m.l.chain.inPieces(b, m.parts)
	m.l.open.block.seq += uint64(len(m.parts) - 1)
	m.l.tail.seq += uint64(len(m.parts) - 1)
}
