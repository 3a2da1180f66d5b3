package block

import (
	"fmt"
	"sync/atomic"

	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// Block is one block of the log, kept in memory while any of its entries is
// live or the log still holds it.
type Block struct {
	Seq   uint64
	First format.Position
	Base  int64

	// Home is where the entries are to be read. It is set when the block is sealed, when
	// they leave memory, and when those that are live are carried forward.
	Home atomic.Pointer[blockData]

	// Guarded by the mutex of the log.
	Size  int      // bytes on disk, header and marks included
	Count int      // entries
	Live  int      // entries that did not end yet
	Bytes int      // of these; an entry that was carried here counts as it was first written
	class uint8    // of its size in Chain.sizes; 0: it is none of these
	held  int      // bytes of memory that its entries count for in Chain.Held
	dead  []uint64 // one bit for every four bytes: an entry that starts there ended

	over place // where the entry that ended last did

	ahead uint32 // of a copy of one entry of the open block: where that is; 0: it is none

	// parts are the blocks on disk that hold it together, when a full disk made it be
	// written in pieces, without what was refused. Nil: it is one, and as it is in memory.
	parts []store.Dropped

	// Origins are the older blocks whose home is this one: there are Refs to
	// entries in them that were carried here.
	Origins []*Block
}

// place is one in a block.
type place struct {
	block          *Block
	entries, marks int // bytes before it
}

// blockData holds the entries of a block, or where they went. At rest it is at most one
// step away: when entries are carried again, the home of the block that their Refs name is
// set anew. A chain would grow with every trim for as long as one old entry lives.
type blockData struct {
	data    []byte            // header and entries, without marks
	Cold    *cold             // instead of data: they are on disk only
	Block   *Block            // instead of both: the block that took the live entries
	offsets map[uint32]uint32 // old → new
	ahead   bool              // data is a copy of one entry of the open block
}

// mark notes that the entry at off ended. No two entries share a bit, because none is
// shorter than five bytes. It returns the bytes that are live no more.
func (b *Block) mark(off, size uint32) int {
	word, bit := off>>8, uint64(1)<<(off>>2&63)
	if int(word) >= len(b.dead) { // once for all, unless the block is still open
		b.dead = append(make([]uint64, 0, max(int(word)+len(b.dead)/2, b.Size>>8)+1), b.dead...)
		b.dead = b.dead[:cap(b.dead)]
	}
	if b.dead[word]&bit != 0 {
		panic(fmt.Sprintf("journal: bug: block %d: the entry at byte %d ended twice", b.Seq, off))
	}
	b.dead[word] |= bit
	freed := min(int(size), b.Bytes)
	// An open block, which has no size yet, may get more entries: it has to
	// remember which ones ended.
	if b.Live--; b.Live == 0 && b.Size > 0 {
		freed = b.Bytes
		b.Home.Store(nil) // nothing is left that may be read
		b.dead, b.Origins = nil, nil
	}
	b.Bytes -= freed
	return freed
}

// Ended reports whether the entry at off has ended.
func (b *Block) Ended(off uint32) bool {
	word, bit := off>>8, uint64(1)<<(off>>2&63)
	return int(word) < len(b.dead) && b.dead[word]&bit != 0
}

// Read decodes the entry that stood at off when the block was sealed, wherever it is now.
func (b *Block) Read(off uint32, e *format.Entry) (Ref, error) {
	r := Ref{Block: b, Off: off}
	size, err := r.read(e)
	r.Bytes, r.pos = size, e.Position
	return r, err
}

// Ref points to a live entry. It stays valid when the entry is carried forward.
// The zero Ref points nowhere. Refs are values; any goroutine may read one.
type Ref struct {
	Block *Block
	pos   format.Position
	Off   uint32
	Bytes uint32
}

// IsZero reports whether r points nowhere.
func (r Ref) IsZero() bool { return r.Block == nil }

// Position returns the position of the entry.
func (r Ref) Position() format.Position { return r.pos }

// Size returns how many bytes the entry took when it was written.
func (r Ref) Size() int { return int(r.Bytes) }

// Fresh reports whether the entry was rewritten in the block that is still open.
func (r Ref) Fresh() bool {
	h := r.Block.Home.Load()
	return h != nil && h.ahead
}

// resolve follows an entry to where it is now.
func (r Ref) resolve() (Ref, *blockData) {
	for h := r.Block.Home.Load(); ; {
		at, rest := r.follow(h)
		if rest != nil {
			return at, rest
		}
		// Either the entry was carried once more since we looked, and its own
		// block knows by now, or it ended.
		again := r.Block.Home.Load()
		if again == h {
			r.gone()
		}
		h = again
	}
}

func (r Ref) gone() {
	panic(fmt.Sprintf("journal: bug: entry %d of block %d was used after it ended", r.pos, r.Block.Seq))
}

// follow walks from home to home. Nil: the way was lost.
func (r Ref) follow(h *blockData) (Ref, *blockData) {
	for h != nil && h.Block != nil {
		off, found := h.offsets[r.Off]
		if !found {
			return r, nil
		}
		r.Block, r.Off = h.Block, off
		h = r.Block.Home.Load()
	}
	return r, h
}

// Read decodes the entry into e. The entry must have been delivered and not have ended.
//
// It reads the disk when the entry has left memory: see Config.MemoryBudget. Then it may
// return an error, and the log fails with it: ErrCorrupt with the number of the block, or
// what the disk says, both under ErrFailed. After Close it is ErrClosed.
func (r Ref) Read(e *format.Entry) error {
	_, err := r.read(e)
	return err
}

// ID returns the id of the entry, under the same condition, or an error of
// Read. It must not be changed.
func (r Ref) ID() ([]byte, error) {
	id, _, err := r.Head()
	return id, err
}

// Head returns the id of the entry and its due time, in Unix nanoseconds, under
// the same conditions. It is cheaper than Read.
func (r Ref) Head() (id []byte, due int64, err error) {
	at, h := r.resolve()
	if h.Cold != nil {
		err = r.readBack(func(d *format.Decoder, b *Block) {
			id, due = d.Head()
			due += b.Base
		})
		return id, due, err
	}
	d := format.Decoder{B: h.data, Off: int(at.Off)}
	id, due = d.Head()
	return id, at.Block.Base + due, nil
}

// Prefetch brings the beginning of the entry into the processor's cache if it is in memory,
// under the conditions of Read: a caller about to read many waits for all of them together.
// What it returns has no meaning; without a use the compiler would leave the load out.
func (r Ref) Prefetch() byte {
	at, h := r.resolve()
	if h.Cold != nil {
		return 0
	}
	return h.data[at.Off]
}

// read returns the size of the entry where it is now.
func (r Ref) read(e *format.Entry) (size uint32, err error) {
	at, h := r.resolve()
	if h.Cold != nil {
		err = r.readBack(func(d *format.Decoder, b *Block) {
			from := d.Off
			d.Entry(e, b.First, b.Base)
			size = uint32(d.Off - from)
		})
		return size, err
	}
	d := format.Decoder{B: h.data, Off: int(at.Off)}
	d.Entry(e, at.Block.First, at.Block.Base)
	if d.Err != nil {
		bugAt(at, d.Err)
	}
	return uint32(d.Off) - at.Off, nil
}

// readBack is decode for an entry that has not ended. An error has the log stop.
func (r Ref) readBack(f func(*format.Decoder, *Block)) error {
	h, err := r.decode(f)
	if err != nil {
		return h.Cold.reader.fail(err)
	}
	if h == nil {
		r.gone()
	}
	return nil
}

// decode calls f with a decoder at the entry, and the block that it is in: a second time
// if it does not have all of the entry. It returns where that was; nil: it has ended, and
// is gone.
func (r Ref) decode(f func(*format.Decoder, *Block)) (*blockData, error) {
	for h := r.Block.Home.Load(); h != nil; {
		at, rest := r.follow(h)
		var bug, err error
		switch {
		case rest == nil: // it was carried once more since we looked, or ended
		case rest.Cold == nil:
			d := format.Decoder{B: rest.data, Off: int(at.Off)}
			f(&d, at.Block)
			bug = d.Err
		default:
			bug, err = rest.Cold.decode(int(at.Off), max(int(r.Bytes), guessedEntry), func(d *format.Decoder) { f(d, at.Block) })
		}
		if bug != nil {
			bugAt(at, bug)
		}
		if rest != nil && err == nil {
			return rest, nil
		}
		again := r.Block.Home.Load()
		if again == h {
			return rest, err
		}
		h = again // carried forward meanwhile, and gone from where we looked
	}
	return nil, nil
}

// bugAt: every block was checked when it was built or read.
func bugAt(at Ref, err error) {
	panic(fmt.Sprintf("journal: bug: block %d at byte %d: %v", at.Block.Seq, at.Off, err))
}

// Peek decodes the entry into e for a caller who can't know whether it has ended: one
// who got the Ref from its owner a moment ago, and looks on while the owner goes on.
// False: it has ended, and is gone. True of one that has ended, and is still there.
//
// The zero Ref is not found. Like Read it may read the disk, but an error does not have the
// log stop.
func (r Ref) Peek(e *format.Entry) (found bool, err error) {
	if r.IsZero() {
		return false, nil
	}
	h, err := r.decode(func(d *format.Decoder, b *Block) { d.Entry(e, b.First, b.Base) })
	return h != nil && err == nil, err
}

// PeekID is Peek for the id alone, which is cheaper. It must not be changed.
func (r Ref) PeekID() (id []byte, found bool, err error) {
	if r.IsZero() {
		return nil, false, nil
	}
	if at, rest := r.follow(r.Block.Home.Load()); rest != nil && rest.Cold == nil {
		d := format.Decoder{B: rest.data, Off: int(at.Off)} // no allocation: there may be millions
		id, _ = d.Head()
		return id, true, nil
	}
	h, err := r.decode(func(d *format.Decoder, _ *Block) { id, _ = d.Head() })
	return id, h != nil && err == nil, err
}
