package journal

// move is a block to whose entries somebody holds Refs, and where those that
// are live were carried.
type move struct {
	from    *Block
	offsets map[uint32]uint32 // old → new
}

// admit adds a sealed block to the accounts.
func (l *Log) admit(b *Block) {
	l.blocks = append(l.blocks, b)
	l.size += b.size
	l.live += b.bytes
	l.hold(b)
}

// end takes what is over according to c off the accounts and lists it among the
// marks. The accounts come first: they notice a bug of the consumer, and must
// not leave half a list behind.
func (l *Log) end(c *Change) {
	n := len(c.Ended) + len(c.Buried)
	if n == 0 {
		return
	}
	for _, r := range c.Ended {
		l.endOne(r)
	}
	for i := range c.Buried {
		l.endOne(c.Buried[i].Ref)
	}
	if l.volatile {
		return
	}
	l.open.beginMarks(n)
	for _, r := range c.Ended {
		l.open.markEnded(r.pos)
	}
	for i := range c.Buried {
		l.open.markEnded(c.Buried[i].Ref.pos)
	}
}

func (l *Log) endOne(r Ref) {
	if r.block != l.open.block { // which has nothing to read before it is sealed
		r, _ = r.resolve()
	}
	l.markDead(r)
}

// markDead takes the entry at r, which was resolved, off the accounts.
func (l *Log) markDead(r Ref) {
	freed := r.block.mark(r.off, r.size)
	if r.block != l.open.block { // admitted when it was sealed
		l.live -= freed
		if r.block.live == 0 {
			l.release(r.block)
			r.block.over = unit{l.open.block, len(l.open.cuts)}
		}
	}
}

// trim takes the oldest blocks out of the log: the empty ones, and while less
// than half of the log is live also others, after carrying their live entries
// into b. It returns the blocks to delete in the commit of b.
//
// On a full disk every page counts, but what is carried has to fit into what is
// left of them.
func (l *Log) trim(b *openBlock) (drop []dropped) {
	budget, tight := l.allowance(b, b.room)
	for len(l.blocks) > 0 {
		old := l.blocks[0]
		carry := old.live > 0
		if carry {
			entries := l.entriesOf(old)
			if entries == nil || budget <= 0 || !l.wasteful(l.size, l.live, tight) || tight && old.bytes > budget {
				break
			}
			budget -= l.carry(old, entries, b)
		}
		drop = old.leave(drop, carry)
		l.size -= old.size
		l.blocks[0] = nil
		l.blocks = l.blocks[1:]
		l.chilled = max(l.chilled-1, 0)
	}
	clear(l.thawed)
	return drop
}

// allowance returns how much may be carried into b on a disk that has so much
// room, and whether it is short of it.
func (l *Log) allowance(b *openBlock, r room) (budget int, tight bool) {
	if l.tight(r) {
		return (r.bytes - b.weight()) / 2, true
	}
	return min(max(l.cfg.minCarry, len(b.entries)), r.spare), false
}

// tight reports whether appends are refused on a disk that has so much room.
func (l *Log) tight(r room) bool { return l.full || r.spare < 0 }

// wasteful reports whether carrying is worth it in a log of so many bytes.
func (l *Log) wasteful(size, live int, tight bool) bool {
	if tight {
		return 8*size > 9*live+tightSlack
	}
	return size > 2*live+l.cfg.trimSlack
}

// tightSlack is the dead weight that is left alone on a full disk.
const tightSlack = 16 << 10

// reclaimable reports whether an empty commit could make room on a full disk.
func (l *Log) reclaimable(r room) bool {
	if !l.full || len(l.blocks) == 0 || !l.wasteful(l.size, l.live, true) {
		return false
	}
	old := l.blocks[0]
	return old.bytes < (r.bytes-headerSize)/2 && (old.live == 0 || l.entriesOf(old) != nil)
}

// leave lists what b is on disk among the blocks to delete.
func (b *Block) leave(drop []dropped, carried bool) []dropped {
	if len(b.parts) > 0 {
		for _, p := range b.parts {
			p.carried, p.over = carried, b.over
			drop = append(drop, p)
		}
		return drop
	}
	return append(drop, dropped{b.seq, b.size, carried, b.over})
}

// carry writes the live ones of the entries of old into b and returns their size.
func (l *Log) carry(old *Block, entries []byte, b *openBlock) int {
	l.live -= old.bytes
	l.release(old)
	before := len(b.entries)
	offsets := make(map[uint32]uint32, old.live)
	d := decoder{b: entries, off: headerSize}
	var e Entry
	for range old.count {
		off := uint32(d.off)
		d.entry(&e, old.first, old.base)
		if !old.ended(off) {
			offsets[off] = b.add(&e, true).off
		}
	}
	b.moved(old, offsets)
	return len(b.entries) - before
}

// moved notes where the entries of old went: first those that had been carried
// into old, for the blocks that their Refs name, then those that are old's own.
func (b *openBlock) moved(old *Block, offsets map[uint32]uint32) {
	for _, origin := range old.origins {
		further := make(map[uint32]uint32)
		for from, mid := range origin.home.Load().offsets {
			if to, live := offsets[mid]; live {
				further[from] = to
				delete(offsets, mid)
			}
		}
		b.moves = append(b.moves, move{origin, further})
	}
	b.moves = append(b.moves, move{old, offsets})
	old.origins = nil
}

// settle makes the moves into b visible. The order counts: a reader on its way
// through a block in the middle starts again, and finds the new way then.
func (b *openBlock) settle() {
	for _, m := range b.moves {
		if len(m.offsets) == 0 {
			m.from.home.Store(nil)
			continue
		}
		m.from.home.Store(&home{block: b.block, offsets: m.offsets})
		b.block.origins = append(b.block.origins, m.from)
	}
	clear(b.moves)
}
