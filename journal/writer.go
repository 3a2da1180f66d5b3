package journal

import (
	"encoding/binary"
	"slices"
	"time"
)

// writer builds a block. Its entries and marks grow in buffers that a later block
// uses again, and are joined to one value when the block is sealed.
type writer struct {
	block *Block

	entries []byte // begins with room for the header
	kept    bool   // the block keeps the buffer of entries
	wanted  int    // how large the buffer shall be that the first entry makes
	end     int    // length of entries without marks, set when sealed
	marks   []byte
	last    Position // of the marks so far: they are written as differences
	moves   []move   // of entries that were carried into this block
}

// newWriter begins the block after t, with the buffers of an older one that the
// committer is through with; nil for none.
func newWriter(old *writer, t tail) writer {
	if old == nil {
		old = &writer{entries: make([]byte, headerSize, 4<<10)}
	}
	return writer{
		block:   &Block{seq: t.seq + 1, first: t.next, base: time.Now().UnixNano()},
		entries: old.entries[:headerSize],
		wanted:  old.wanted,
		marks:   old.marks[:0],
		moves:   old.moves[:0],
	}
}

func (b *writer) size() int { return len(b.entries) + len(b.marks) }

// add writes e.
func (b *writer) add(e *Entry, moved bool) Ref {
	off := len(b.entries)
	if off == headerSize {
		b.entries = slices.Grow(b.entries, b.wanted)
	}
	b.entries = appendEntry(b.entries, e, moved, b.block.first, b.block.base)
	size := len(b.entries) - off
	b.block.count++
	b.block.live++
	b.block.bytes += size
	return Ref{b.block, e.Position, uint32(off), uint32(size)}
}

// read decodes the entry at off.
func (b *writer) read(off uint32) (e Entry, r Ref) {
	d := decoder{b: b.entries, off: int(off)}
	d.entry(&e, b.block.first, b.block.base)
	return e, Ref{b.block, e.Position, off, uint32(d.off) - off}
}

// beginMarks opens a list of n marks. A list that was just begun and follows
// another costs three bytes, so lists are not joined.
func (b *writer) beginMarks(n int) {
	b.marks = append(b.marks, byte(kindMarks))
	b.marks = binary.AppendUvarint(b.marks, uint64(n))
	b.last = b.block.first
}

func (b *writer) markEnded(p Position) {
	b.marks = binary.AppendVarint(b.marks, int64(p-b.last))
	b.last = p
}

// seal joins the block and stamps it.
func (b *writer) seal(epoch uint64, volatile bool) []byte {
	value := b.join()
	if !volatile {
		b.stamp(value, epoch)
	}
	return value
}

// join joins the block into one value, with room for its header, and makes its
// entries readable. The value is valid until the block's buffers are reused.
func (b *writer) join() []byte {
	b.end = len(b.entries)
	value := append(b.entries, b.marks...)
	b.entries = value // keeps the larger buffer
	b.block.size = len(value)
	if b.block.live > 0 {
		// Entries stay in memory for as long as one of them is live. The buffer
		// itself does if it fits, or else a copy of the right size.
		data := value[:b.end:b.end]
		if b.kept = cap(value)-b.end <= b.end/4; !b.kept {
			data = slices.Clone(data)
		}
		b.block.home.Store(&home{data: data})
	}
	return value
}

// stamp writes the header into the value of a sealed block. It needs no lock:
// nobody else reads a header in memory.
func (b *writer) stamp(value []byte, epoch uint64) {
	h := header{
		seq: b.block.seq, epoch: epoch, first: b.block.first, base: b.block.base,
		entries: b.end - headerSize, count: b.block.count,
	}
	h.put(value)
}

// retire makes the buffers of a committed block ready for another one. For the
// buffer that the block keeps there will be one of the same size, but not before
// it is needed: a burst may be over.
func (b *writer) retire() {
	b.wanted = 0
	if b.kept {
		b.wanted = len(b.entries) - headerSize
		b.entries, b.kept = make([]byte, headerSize), false
	}
}

// reach has the block end before next: an entry that has ended stands for those
// that were refused.
func (b *writer) reach(next Position) {
	r := b.add(&Entry{Kind: KindState, Position: next - 1, Due: b.block.base}, false)
	b.block.mark(r.off, r.size)
	b.beginMarks(1)
	b.markEnded(r.pos)
}

// move is a block to whose entries somebody holds Refs, and where those that
// are live were carried.
type move struct {
	from    *Block
	offsets map[uint32]uint32 // old → new
}

// moved notes where the entries of old went: first those that had been carried
// into old, for the blocks that their Refs name, then those that are old's own.
func (b *writer) moved(old *Block, offsets map[uint32]uint32) {
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
func (b *writer) settle() {
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

// clear takes out all entries of a block, which were refused.
func (b *writer) clear() {
	b.entries = b.entries[:headerSize]
	b.block = &Block{seq: b.block.seq, first: b.block.first, base: b.block.base}
}
