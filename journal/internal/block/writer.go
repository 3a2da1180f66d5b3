package block

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/strandjobs/strand/journal/internal/format"
)

// Writer builds a block. Its entries and marks grow in buffers that a later block
// uses again, and are joined to one value when the block is sealed.
type Writer struct {
	Block *Block

	Entries []byte // begins with room for the header
	kept    bool   // the block keeps the buffer of entries
	Shown   bool   // what is written may be read at once, before it is sealed
	wanted  int    // how large the buffer shall be that the first entry makes
	End     int    // length of entries without marks, set when sealed
	Marks   []byte
	next    format.Position // after the last entry that is not in an older block, too
	last    format.Position // of the marks so far: they are written as differences
	moves   []move          // of entries that were carried into this block
	early   []*Block        // of what Rewrite has written
}

// NewWriter begins the block after t, with the buffers of an older one that the
// committer is through with; nil for none.
func NewWriter(old *Writer, t format.Manifest) Writer {
	if old == nil {
		old = &Writer{Entries: make([]byte, format.HeaderSize, 4<<10)}
	}
	return Writer{
		Block:   &Block{Seq: t.Seq + 1, First: t.Next, Base: time.Now().UnixNano()},
		next:    t.Next,
		Entries: old.Entries[:format.HeaderSize],
		wanted:  old.wanted,
		Marks:   old.Marks[:0],
		moves:   old.moves[:0],
		early:   old.early[:0],
	}
}

// Size is how long the block is so far.
func (b *Writer) Size() int { return len(b.Entries) + len(b.Marks) }

// Add writes e.
func (b *Writer) Add(e *format.Entry, moved bool) Ref {
	off, room := len(b.Entries), cap(b.Entries)
	if off == format.HeaderSize {
		b.Entries, room = slices.Grow(b.Entries, b.wanted), 0
	}
	b.Entries = format.AppendEntry(b.Entries, e, moved, b.Block.First, b.Block.Base)
	if b.Shown && cap(b.Entries) != room {
		// Who reads in the buffer before it finds there what there was, and in this one the rest.
		b.Block.Home.Store(&blockData{data: b.Entries[:cap(b.Entries)]})
	}
	size := len(b.Entries) - off
	if !moved {
		b.next = e.Position + 1
	}
	b.Block.Count++
	b.Block.Live++
	b.Block.Bytes += size
	return Ref{b.Block, e.Position, uint32(off), uint32(size)}
}

// Rewrite writes e at its old position, where it takes the place of another entry: the
// later block counts, so that one must not be in this block. The Ref may be read at
// once: until the block is sealed it is to a copy.
func (b *Writer) Rewrite(e *format.Entry) Ref {
	r := b.Add(e, true)
	c := &Block{Seq: b.Block.Seq, First: b.Block.First, Base: b.Block.Base, ahead: r.Off}
	c.Home.Store(&blockData{data: slices.Clone(b.Entries[r.Off:]), ahead: true})
	b.early = append(b.early, c)
	return Ref{c, r.pos, 0, r.Bytes}
}

// Read decodes the entry at off.
func (b *Writer) Read(off uint32) (e format.Entry, r Ref) {
	d := format.Decoder{B: b.Entries, Off: int(off)}
	d.Entry(&e, b.Block.First, b.Block.Base)
	return e, Ref{b.Block, e.Position, off, uint32(d.Off) - off}
}

// BeginMarks opens a list of n marks. A list that was just begun and follows
// another costs three bytes, so lists are not joined.
func (b *Writer) BeginMarks(n int) {
	b.Marks = append(b.Marks, byte(format.KindMarks))
	b.Marks = binary.AppendUvarint(b.Marks, uint64(n))
	b.last = b.Block.First
}

// MarkEnded writes one of the marks that BeginMarks has announced.
func (b *Writer) MarkEnded(p format.Position) {
	b.Marks = binary.AppendVarint(b.Marks, int64(p-b.last))
	b.last = p
}

// Seal puts entries and marks into one value, writes the header with the epoch, and returns it for the commit.
func (b *Writer) Seal(epoch uint64) []byte {
	value := b.Join()
	b.Stamp(value, epoch)
	return value
}

// Join joins the block into one value, with room for its header, and makes its
// entries readable. The value is valid until the block's buffers are reused.
func (b *Writer) Join() []byte {
	b.End = len(b.Entries)
	value := append(b.Entries, b.Marks...)
	b.Entries = value // keeps the larger buffer
	b.Block.Size = len(value)
	if b.Block.Live == 0 {
		b.Block.Home.Store(nil)
	} else {
		// Entries stay in memory for as long as one of them is live. The buffer
		// itself does if it fits, or else a copy of the right size.
		data := value[:b.End:b.End]
		if b.kept = cap(value)-b.End <= b.End/4; !b.kept {
			data = slices.Clone(data)
		}
		b.Block.Home.Store(&blockData{data: data})
	}
	return value
}

// Stamp writes the header into the value of a sealed block. It needs no lock: no
// reader looks at a header in memory.
func (b *Writer) Stamp(value []byte, epoch uint64) {
	h := format.Header{
		Seq: b.Block.Seq, Epoch: epoch, First: b.Block.First, Base: b.Block.Base,
		Entries: b.End - format.HeaderSize, Count: b.Block.Count,
	}
	h.Put(value)
}

// Retire makes the buffers of a committed block ready for another one. For the
// buffer that the block keeps there will be one of the same size, but not before
// it is needed: a burst may be over.
func (b *Writer) Retire() {
	b.wanted = 0
	if b.kept || b.Shown {
		b.wanted = len(b.Entries) - format.HeaderSize
		b.Entries, b.kept = make([]byte, format.HeaderSize), false
	}
}

// Reach has the block end before next: where its last positions were refused, an entry
// that has ended stands for them. Where none was there is none, which would end what has
// the position before.
func (b *Writer) Reach(next format.Position) {
	if b.next != next {
		r := b.Add(&format.Entry{Kind: format.KindState, Position: next - 1, Due: b.Block.Base}, false)
		b.Block.mark(r.Off, r.Bytes)
		b.BeginMarks(1)
		b.MarkEnded(r.pos)
	}
}

// Begin moves the beginning of a block without entries to that of the one before it, which
// was taken back.
func (b *Writer) Begin(seq uint64, first format.Position) {
	b.Block.Seq, b.Block.First, b.next = seq, first, first
}

// move is a block to whose entries there are Refs, and where those that are live
// were carried.
type move struct {
	from    *Block
	offsets map[uint32]uint32 // old → new
}

// moved notes where the entries of old went: first those that had been carried
// into old, for the blocks that their Refs name, then those that are old's own.
func (b *Writer) moved(old *Block, offsets map[uint32]uint32) {
	for _, origin := range old.Origins {
		further := make(map[uint32]uint32)
		for from, mid := range origin.Home.Load().offsets {
			if to, live := offsets[mid]; live {
				further[from] = to
				delete(offsets, mid)
			}
		}
		b.moves = append(b.moves, move{origin, further})
	}
	b.moves = append(b.moves, move{old, offsets})
	old.Origins = nil
}

// Settle makes the moves into b visible. The order counts: a reader on its way
// through a block in the middle starts again, and finds the new way then.
func (b *Writer) Settle() {
	for _, m := range b.moves {
		if len(m.offsets) == 0 {
			m.from.Home.Store(nil)
			continue
		}
		m.from.Home.Store(&blockData{Block: b.Block, offsets: m.offsets})
		b.Block.Origins = append(b.Block.Origins, m.from)
	}
	clear(b.moves)
	for _, c := range b.early {
		if !b.Block.Ended(c.ahead) {
			c.Home.Store(&blockData{Block: b.Block, offsets: map[uint32]uint32{0: c.ahead}})
			b.Block.Origins = append(b.Block.Origins, c)
		}
		c.ahead = 0
	}
	clear(b.early)
	b.early = b.early[:0]
}

// Clear takes out all entries of a block, which were refused.
func (b *Writer) Clear() {
	b.Entries = b.Entries[:format.HeaderSize]
	b.Block = &Block{Seq: b.Block.Seq, First: b.Block.First, Base: b.Block.Base}
	b.next = b.Block.First
}
