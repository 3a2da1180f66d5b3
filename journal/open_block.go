package journal

import (
	"encoding/binary"
	"slices"
	"time"
)

// openBlock is the block that appends go to. It is guarded by Log.mu until it
// is sealed; then it belongs to the committer.
type openBlock struct {
	block  *Block
	commit *commit

	// Reused by a later block. The value on disk is entries and marks in one
	// piece, so both grow here and are joined when the block is sealed.
	entries []byte // begins with room for the header
	kept    bool   // the block keeps the buffer of entries
	wanted  int    // how large the buffer shall be that the first entry makes
	end     int    // length of entries without marks, set when sealed
	marks   []byte
	last    Position // of the marks so far: they are written as differences
	moves   []move   // of entries that were carried into this block

	deliveries []*Delivery // by route; nil where there is none
	routes     []uint32    // routes in use, in order of first use

	// posted are the entries whose appender does not wait: for each offset, that
	// of the first entry of the same call. Nil when there are none.
	posted map[uint32]uint32

	changes  []change // of side buckets
	restored []change // of the morgue, undone when the block is refused

	skipped Position // the block begins with positions that were refused, up to this one
	cuts    []cut    // after each call of Record
	carried int      // length of entries before those that were carried here
	calls   int      // of Append, whose callers wait
	refused bool     // its appenders were sent away: only results are to be written
	final   bool     // the last one: no room is waited for
	room    room     // that the disk had when it was sealed
}

// cut is a place where a block can be cut in two, because a call ended there.
type cut struct{ entries, marks, changes int }

func (b *openBlock) cut() cut { return cut{len(b.entries), len(b.marks), len(b.changes)} }

// newOpenBlock begins the block after t, with the buffers of an older one that
// the committer is through with.
func newOpenBlock(old *openBlock, t tail) *openBlock {
	if old == nil {
		old = &openBlock{entries: make([]byte, headerSize, 4<<10)}
	}
	b := &openBlock{
		block:      &Block{seq: t.seq + 1, first: t.next, base: time.Now().UnixNano()},
		commit:     &commit{first: t.next, done: make(chan struct{})},
		entries:    old.entries[:headerSize],
		wanted:     old.wanted,
		marks:      old.marks[:0],
		moves:      old.moves[:0],
		deliveries: old.deliveries,
		routes:     old.routes[:0],
		changes:    old.changes[:0],
		restored:   old.restored[:0],
		cuts:       old.cuts[:0],
	}
	clear(b.deliveries)
	return b
}

func (b *openBlock) size() int { return len(b.entries) + len(b.marks) }

func (b *openBlock) empty() bool {
	return b.size() == headerSize && len(b.changes)+len(b.restored) == 0
}

// add writes e.
func (b *openBlock) add(e *Entry, moved bool) Ref {
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

// keep notes that the entry at off stays when the block is refused, together
// with the others of its call, which begins at offset call.
func (b *openBlock) keep(off, call uint32) {
	if b.posted == nil {
		b.posted = make(map[uint32]uint32)
	}
	b.posted[off] = call
}

// read decodes the entry at off.
func (b *openBlock) read(off uint32) (e Entry, r Ref) {
	d := decoder{b: b.entries, off: int(off)}
	d.entry(&e, b.block.first, b.block.base)
	return e, Ref{b.block, e.Position, off, uint32(d.off) - off}
}

// route notes that the entry at off is to be delivered to route, and returns
// what is to hold it.
func (b *openBlock) route(route, off uint32) *Delivery {
	for int(route) >= len(b.deliveries) {
		b.deliveries = append(b.deliveries, nil)
	}
	d := b.deliveries[route]
	if d == nil {
		d = newDelivery(b, route)
		b.deliveries[route] = d
		b.routes = append(b.routes, route)
	}
	d.offsets = append(d.offsets, off)
	return d
}

// weight is about what the block takes on disk, with its changes.
func (b *openBlock) weight() int {
	return b.size() + weigh(b.changes) + weigh(b.restored)
}

// changeWeight is what a change takes beside its key and value: a part of the
// page that is written again for it.
const changeWeight = 1 << 10

func weigh(changes []change) (n int) {
	for _, c := range changes {
		n += changeWeight + len(c.key) + len(c.value)
	}
	return n
}

// beginMarks opens a list of n marks. A list that was just begun and follows
// another costs three bytes, so lists are not joined.
func (b *openBlock) beginMarks(n int) {
	b.marks = append(b.marks, byte(kindMarks))
	b.marks = binary.AppendUvarint(b.marks, uint64(n))
	b.last = b.block.first
}

func (b *openBlock) markEnded(p Position) {
	b.marks = binary.AppendVarint(b.marks, int64(p-b.last))
	b.last = p
}

// seal joins the block and stamps it.
func (b *openBlock) seal(epoch uint64, volatile bool) []byte {
	value := b.join()
	if !volatile {
		b.stamp(value, epoch)
	}
	return value
}

// join joins the block into one value, with room for its header, and makes its
// entries readable. The value is valid until the block's buffers are reused.
func (b *openBlock) join() []byte {
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
func (b *openBlock) stamp(value []byte, epoch uint64) {
	h := header{
		seq: b.block.seq, epoch: epoch, first: b.block.first, base: b.block.base,
		entries: b.end - headerSize, count: b.block.count,
	}
	h.put(value)
}

// retire makes the buffers of a committed block ready for another one. For the
// buffer that the block keeps there will be one of the same size, but not before
// it is needed: a burst may be over.
func (b *openBlock) retire() {
	b.wanted = 0
	if b.kept {
		b.wanted = len(b.entries) - headerSize
		b.entries, b.kept = make([]byte, headerSize), false
	}
}
