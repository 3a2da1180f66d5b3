package journal

// admit adds a sealed block to the accounts.
func (c *chain) admit(b *Block) {
	c.blocks = append(c.blocks, b)
	c.size += b.size
	c.live += b.bytes
	c.hold(b)
}

// end takes the entry that r points to off the accounts. open is the block that
// is not in them yet.
func (c *chain) end(r Ref, open *Block) {
	if r.block != open { // which has nothing to read before it is sealed
		r, _ = r.resolve()
	}
	c.endHere(r, open)
}

// endHere is end for an entry that is where r says.
func (c *chain) endHere(r Ref, open *Block) {
	freed := r.block.mark(r.off, r.size)
	if r.block != open { // admitted when it was sealed
		c.live -= freed
		if r.block.live == 0 {
			c.release(r.block)
		}
	}
}

// trim takes the oldest blocks out of the log: the empty ones, and while less
// than half of the log is live also others, after carrying their live entries
// into b. It returns the blocks to delete in the commit of b.
//
// On a full disk every page counts, but what is carried has to fit into what is
// left of them.
func (c *chain) trim(b *writer, s strain) (drop []dropped) {
	budget := c.allowance(b, s)
	for len(c.blocks) > 0 {
		old := c.blocks[0]
		carry := old.live > 0
		if carry {
			entries := c.entriesOf(old)
			if entries == nil || budget <= 0 || !c.wasteful(c.size, c.live, s.tight()) || s.tight() && old.bytes > budget {
				break
			}
			budget -= c.carry(old, entries, b)
		}
		drop = old.leave(drop, carry)
		c.size -= old.size
		c.blocks[0] = nil
		c.blocks = c.blocks[1:]
		c.chilled = max(c.chilled-1, 0)
	}
	clear(c.thawed)
	return drop
}

// strain is what a block that is to be written asks of the disk, and what that has.
type strain struct {
	weight int  // of the block, with its changes
	room   room // that is there
	full   bool // appends are refused
}

func (s strain) tight() bool { return s.full || s.room.spare < 0 }

// allowance returns how much may be carried into b.
func (c *chain) allowance(b *writer, s strain) int {
	if s.tight() {
		return (s.room.bytes - s.weight) / 2
	}
	return min(max(c.minCarry, len(b.entries)), s.room.spare)
}

// wasteful reports whether carrying is worth it in a log of so many bytes.
func (c *chain) wasteful(size, live int, tight bool) bool {
	if tight {
		return 8*size > 9*live+tightSlack
	}
	return size > 2*live+c.trimSlack
}

// tightSlack is the dead weight that is left alone on a full disk.
const tightSlack = 16 << 10

// reclaimable reports whether an empty commit could make room on a disk that is
// full.
func (c *chain) reclaimable(r room) bool {
	if len(c.blocks) == 0 || !c.wasteful(c.size, c.live, true) {
		return false
	}
	old := c.blocks[0]
	return old.bytes < (r.bytes-headerSize)/2 && (old.live == 0 || c.entriesOf(old) != nil)
}

// leave lists what b is on disk among the blocks to delete.
func (b *Block) leave(drop []dropped, carried bool) []dropped {
	if len(b.parts) > 0 {
		for _, p := range b.parts {
			p.carried = carried
			drop = append(drop, p)
		}
		return drop
	}
	return append(drop, dropped{b.seq, b.size, carried})
}

// carry writes the live ones of the entries of old into b and returns their size.
func (c *chain) carry(old *Block, entries []byte, b *writer) int {
	c.live -= old.bytes
	c.release(old)
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

// inPieces notes that a block is on disk as several.
func (c *chain) inPieces(b *Block, parts []dropped) {
	c.size -= b.size
	b.size, b.parts = 0, parts
	for _, p := range parts {
		b.size += p.size
	}
	c.size += b.size
}

// takeBack forgets the newest block, of which nothing was written.
func (c *chain) takeBack() {
	n := len(c.blocks) - 1
	c.size -= c.blocks[n].size
	c.blocks = c.blocks[:n]
}
