package block

import (
	"math/bits"

	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// Chain is the blocks of a log, oldest first, and the accounts of them: what they
// take on disk and in memory, and how much of it is live. It says which of them
// are to leave memory, and which the log.
//
// The mutex of the log guards it, except for what is said to belong to the committer.
type Chain struct {
	Blocks []*Block // sealed, ascending; Invariant: each delete takes a prefix
	Size   int      // bytes of all blocks
	Live   int      // bytes of live entries in these blocks
	Held   int      // bytes of memory that the entries of these blocks take

	sizes   [128]int // how many large blocks have something live, by class; what the first has does not matter
	evicted int      // blocks at the beginning that were looked at to be let go from memory
	Reader  *reader  // of what left memory; nil: nothing does
	budget  int      // of bytes held
	settled int      // of these, taken while the log is read
	limits  Limits

	// pagedIn are the entries of blocks that the next commit may carry. They
	// belong to the committer.
	pagedIn map[*Block][]byte
}

// Limits say what a [Chain] keeps in memory and what it carries forward.
type Limits struct {
	Memory    int // bytes of entries that stay in memory; below zero: all
	TrimSlack int // dead weight that is left alone
	MinCarry  int // that one commit may carry, however little it writes
}

// NewChain returns the accounts of a log that has no blocks yet. What has left memory is
// read back from s; failed is told when it can't be, perhaps more than once.
func NewChain(s store.Store, most Limits, failed func(error)) *Chain {
	c := &Chain{limits: most, pagedIn: map[*Block][]byte{}}
	if most.Memory >= 0 {
		windows := min(most.Memory/8, maxWindows)
		c.budget = most.Memory - windows
		c.Reader = &reader{store: s, failed: failed, limit: windows}
	}
	return c
}

// ReadBacks is how often the disk was read for entries that are not in memory.
func (c *Chain) ReadBacks() uint64 {
	if c.Reader == nil {
		return 0
	}
	return c.Reader.Reads.Load()
}

// Admit adds a sealed block to the accounts.
func (c *Chain) Admit(b *Block) {
	c.Blocks = append(c.Blocks, b)
	c.Size += b.Size
	c.Live += b.Bytes
	if h := b.Home.Load(); h != nil {
		b.held = len(h.data)
		c.Held += b.held
	}
	if b.Live > 0 {
		c.sized(b, b.Size)
	}
}

// Small is what a block may have that finds room in any reserve when it is carried.
const Small = 32 << 10

// sized counts a block among those of so many bytes, in classes of a quarter of a power of two; 0: nothing
// of it is live. A file that was made to do harm may have one that is larger than all classes.
func (c *Chain) sized(b *Block, bytes int) {
	c.sizes[b.class]--
	b.class = 0
	if n := bits.Len(uint(bytes)); bytes > Small {
		b.class = uint8(min(4*(n-1)+bytes>>(n-3)&3, len(c.sizes)-1))
	}
	c.sizes[b.class]++
}

// Kept returns how much room the largest block needs to be carried on a full disk, beside what is
// kept for results, if one with so many bytes is added.
func (c *Chain) Kept(largest int) int {
	for class := len(c.sizes) - 1; class > 0; class-- {
		if c.sizes[class] > 0 {
			largest = max(largest, (5+class%4)<<(class/4-2))
			break
		}
	}
	return max(largest-Small, 0) / 2 * 3
}

// Fits reports whether so many bytes are to be taken into a block that has some: there is room to carry
// that later, too, or there never will be.
func (c *Chain) Fits(bytes, has int, r store.Room) bool {
	kept := c.Kept(has+bytes) - r.Kept
	return bytes+kept <= r.Spare || bytes <= r.Spare && c.Hopeless(bytes, r)
}

// Hopeless reports whether even an empty log has no room for so many bytes in one block and to carry that.
func (c *Chain) Hopeless(bytes int, r store.Room) bool {
	return bytes+c.Kept(bytes) > r.Spare+r.Kept+c.Size
}

// gone takes a block of which nothing is live any more off memory and sizes.
func (c *Chain) gone(b *Block) {
	c.Held, b.held = c.Held-b.held, 0
	c.sized(b, 0)
}

// End takes the entry that r points to off the accounts. open is the block that
// is not in them yet, and gets the mark of it.
func (c *Chain) End(r Ref, open *Writer) {
	switch {
	case r.Block == open.Block: // where nothing has moved
	case r.Block.ahead != 0:
		r.Block.Home.Store(nil)
		r.Block, r.Off = open.Block, r.Block.ahead
	default:
		r, _ = r.resolve()
	}
	c.EndHere(r, open)
}

// EndHere is End for an entry that is where r says.
func (c *Chain) EndHere(r Ref, open *Writer) {
	freed := r.Block.mark(r.Off, r.Bytes)
	if r.Block != open.Block { // admitted when it was sealed
		c.Live -= freed
		if r.Block.Live == 0 {
			c.gone(r.Block)
			r.Block.over = place{open.Block, len(open.Entries), len(open.Marks)}
		}
	}
}

// mostDropped is about how many blocks one commit deletes. Millions may have run empty behind one
// that is carried only now, and a store needs time for each.
const mostDropped = 1024

// Trim takes the oldest blocks out of the log: the empty ones, and while less
// than half of the log is live also others, after carrying their live entries
// into b. It returns the blocks to delete in the commit of b, see mostDropped.
//
// On a full disk every page counts, but what is carried has to fit into what is
// left of them. There it is little at a time, or one block: a large one would be in
// the way of those behind it when it is the oldest, and less room is left by then.
func (c *Chain) Trim(b *Writer, s Strain) (drop []store.Dropped) {
	budget, first := c.allowance(b, s), true
	for len(c.Blocks) > 0 && len(drop) < mostDropped {
		old := c.Blocks[0]
		carry := old.Live > 0
		if carry {
			entries := c.entriesOf(old)
			if entries == nil || budget <= 0 || !c.wasteful(c.Size, c.Live, s) || !s.bears(old.Bytes, budget, first) {
				break
			}
			carried := c.carry(old, entries, b)
			budget, s.Room.Spare, first = budget-carried, s.Room.Spare-carried, false
		}
		drop = old.leave(drop, carry, b.Block)
		c.Size -= old.Size
		c.Blocks[0] = nil
		c.Blocks = c.Blocks[1:]
		c.evicted = max(c.evicted-1, 0)
	}
	clear(c.pagedIn)
	return drop
}

// Strain is what a block that is to be written asks of the disk, and what that has.
type Strain struct {
	Weight int        // of the block, with its changes
	Room   store.Room // that is there
	Full   bool       // appends are refused
}

func (s Strain) tight() bool { return s.Full || s.Room.Spare < 0 }

// Reserve is what only results may take.
func (s Strain) Reserve() int { return max(s.Room.Bytes-s.Room.Spare-s.Room.Kept-s.Weight, 0) }

// bears reports whether a block may be carried. The first takes less than there is, because a part
// of a block that finds no room stands in the way of all that comes after it.
func (s Strain) bears(bytes, budget int, first bool) bool {
	return bytes <= s.Room.Spare || s.tight() && (bytes <= budget || first && bytes <= (s.Room.Bytes-s.Weight)/4*3)
}

// little is how much is carried at a time on a tight disk, but for a first block that is larger.
func (s Strain) little() int { return min((s.Room.Bytes-s.Weight)/2, s.Reserve()/4) }

// allowance returns how much may be carried into b.
func (c *Chain) allowance(b *Writer, s Strain) int {
	if s.tight() {
		return s.little()
	}
	return min(max(c.limits.MinCarry, len(b.Entries)), s.Room.Spare)
}

// wasteful reports whether carrying is worth it in a log of so many bytes. On a tight disk it is when a
// sixteenth of the reserve is dead weight, beside the headers of blocks that have what is carried at a time.
func (c *Chain) wasteful(size, live int, s Strain) bool {
	if s.tight() {
		return size-live > s.Reserve()/16+2*format.HeaderSize*(1+live/max(s.little(), 1))
	}
	return size > 2*live+c.limits.TrimSlack
}

// Reclaimable reports whether an empty commit could make room on a disk that is full. least is
// the dead weight before the last one: one that gave nothing back is not followed at once.
func (c *Chain) Reclaimable(r store.Room, least *int) bool {
	dead := c.Size - c.Live
	s := Strain{Weight: format.HeaderSize, Room: r, Full: true}
	if len(c.Blocks) == 0 || dead >= *least || !c.wasteful(c.Size, c.Live, s) {
		return false
	}
	*least = dead
	old := c.Blocks[0]
	return s.bears(old.Bytes, 0, true) && (old.Live == 0 || c.entriesOf(old) != nil)
}

// leave lists what b is on disk among the blocks to delete in the commit of next.
func (b *Block) leave(drop []store.Dropped, carried bool, next *Block) []store.Dropped {
	var after place
	if b.over.block == next {
		after = place{entries: b.over.entries + 1, marks: b.over.marks + 1}
	}
	parts := b.parts
	if len(parts) == 0 {
		parts = []store.Dropped{{Seq: b.Seq, Size: b.Size}}
	}
	for _, p := range parts {
		drop = append(drop, store.Dropped{Seq: p.Seq, Size: p.Size, Carried: carried, Entries: after.entries, Marks: after.marks})
	}
	return drop
}

// carry writes the live ones of the entries of old into b and returns their size.
func (c *Chain) carry(old *Block, entries []byte, b *Writer) int {
	c.Live -= old.Bytes
	c.gone(old)
	before := len(b.Entries)
	offsets := make(map[uint32]uint32, old.Live)
	d := format.Decoder{B: entries, Off: format.HeaderSize}
	var e format.Entry
	for range old.Count {
		off := uint32(d.Off)
		d.Entry(&e, old.First, old.Base)
		if !old.Ended(off) {
			offsets[off] = b.Add(&e, true).Off
		}
	}
	b.moved(old, offsets)
	return len(b.Entries) - before
}

// InPieces notes that a block is on disk as several.
func (c *Chain) InPieces(b *Block, parts []store.Dropped) {
	c.Size -= b.Size
	b.Size, b.parts = 0, parts
	for _, p := range parts {
		b.Size += p.Size
	}
	if b.Live > 0 {
		c.sized(b, b.Size)
	}
	c.Size += b.Size
}

// TakeBack forgets the newest block, of which nothing was written.
func (c *Chain) TakeBack() {
	n := len(c.Blocks) - 1
	c.Size -= c.Blocks[n].Size
	c.Blocks = c.Blocks[:n]
}
