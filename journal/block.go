package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync/atomic"
)

// formatVersion is that of the file, kept in the meta bucket and the end mark. A
// reader refuses anything above it. Version 1 had no checksums on state keys and
// no sums of the side buckets; the first commit to a file of that version makes
// it one of the present. See [bolt.migrate].
const formatVersion = 2

// blockVersion is written into every block, and into what is buried. Version 1 had
// no metadata, no history of failures, and no time of acceptance beside due time
// and score; it is read as if it were of the present.
const blockVersion = 2

// The header of a block, little endian:
//
//	 0  magic "STRB"        4
//	 4  version             1
//	 5  reserved, zero      3
//	 8  CRC32C of all else  4
//	12  length of the rest  4   from byte 16 to the end of the marks
//	16  sequence            8
//	24  epoch               8
//	32  first position      8
//	40  base time           8   Unix ns, from which due times are counted
//	48  length of entries   4
//	52  number of entries   4
const headerSize = 56

var (
	blockMagic = [4]byte{'S', 'T', 'R', 'B'}
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// header is the decoded header of a block.
type header struct {
	seq, epoch uint64
	first      Position
	base       int64
	entries    int // bytes
	count      int
}

func (h *header) put(b []byte) {
	copy(b, blockMagic[:])
	b[4], b[5], b[6], b[7] = blockVersion, 0, 0, 0
	binary.LittleEndian.PutUint32(b[12:], uint32(len(b)-16))
	binary.LittleEndian.PutUint64(b[16:], h.seq)
	binary.LittleEndian.PutUint64(b[24:], h.epoch)
	binary.LittleEndian.PutUint64(b[32:], uint64(h.first))
	binary.LittleEndian.PutUint64(b[40:], uint64(h.base))
	binary.LittleEndian.PutUint32(b[48:], uint32(h.entries))
	binary.LittleEndian.PutUint32(b[52:], uint32(h.count))
	binary.LittleEndian.PutUint32(b[8:], blockChecksum(b))
}

func blockChecksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:8], castagnoli), castagnoli, b[12:])
}

// parseHeader checks all of b, which is filed under seq, and returns its header.
func parseHeader(b []byte, seq uint64) (h header, err error) {
	corrupt := func(format string, args ...any) (header, error) {
		return header{}, &CorruptError{Block: seq, Offset: -1, Reason: fmt.Sprintf(format, args...)}
	}
	if len(b) < headerSize || [4]byte(b[:4]) != blockMagic {
		return corrupt("no block header in %d bytes", len(b))
	}
	if got, want := blockChecksum(b), binary.LittleEndian.Uint32(b[8:]); got != want {
		return corrupt("checksum %08x, want %08x", got, want)
	}
	if b[4] > blockVersion {
		return header{}, fmt.Errorf("%w: block %d has version %d, this is version %d", ErrTooNew, seq, b[4], blockVersion)
	}
	if n := int(binary.LittleEndian.Uint32(b[12:])); n != len(b)-16 {
		return corrupt("length %d, want %d", len(b)-16, n)
	}
	if b[4] == 0 || [3]byte(b[5:8]) != [3]byte{} {
		return corrupt("reserved bytes are set, or no version")
	}
	h = header{
		seq:     binary.LittleEndian.Uint64(b[16:]),
		epoch:   binary.LittleEndian.Uint64(b[24:]),
		first:   Position(binary.LittleEndian.Uint64(b[32:])),
		base:    int64(binary.LittleEndian.Uint64(b[40:])),
		entries: int(binary.LittleEndian.Uint32(b[48:])),
		count:   int(binary.LittleEndian.Uint32(b[52:])),
	}
	if h.seq != seq {
		return corrupt("holds block %d", h.seq)
	}
	if h.entries > len(b)-headerSize {
		return corrupt("%d bytes of entries in %d", h.entries, len(b)-headerSize)
	}
	return h, nil
}

// scan reads a checked block: every entry with its offset, then every ended
// position. Either function may be nil.
func (h *header) scan(b []byte, entry func(off uint32, size int, e *Entry), ended func(Position)) error {
	d := decoder{b: b[:headerSize+h.entries], off: headerSize}
	corrupt := func() error {
		return &CorruptError{Block: h.seq, Offset: d.off, Reason: d.err.Error()}
	}
	var e Entry
	for range h.count {
		off := d.off
		d.entry(&e, h.first, h.base)
		if d.err != nil {
			return corrupt()
		}
		if entry != nil {
			entry(uint32(off), d.off-off, &e)
		}
	}
	if d.off != len(d.b) {
		d.fail(fmt.Errorf("%d bytes after the last entry", len(d.b)-d.off))
		return corrupt()
	}
	if ended == nil {
		return nil
	}
	for d.b = b; d.off < len(b); {
		if k := Kind(d.byte()); k != kindMarks {
			d.fail(fmt.Errorf("marks of unknown kind %d", k))
			return corrupt()
		}
		if d.marks(h.first, ended); d.err != nil {
			return corrupt()
		}
	}
	return nil
}

// Block is one block of the log, kept in memory while any of its entries is
// live or the log still holds it.
type Block struct {
	seq   uint64
	first Position
	base  int64

	// home is where the entries are to be read. It is set when the block is
	// sealed, when they leave memory, and when those that are live are carried
	// forward.
	home atomic.Pointer[home]

	// Guarded by the mutex of the log.
	size  int      // bytes on disk, header and marks included
	count int      // entries
	live  int      // entries that did not end yet
	bytes int      // of these; an entry that was carried here counts as it was first written
	held  int      // bytes of memory that its entries count for in Log.held
	dead  []uint64 // one bit for every four bytes: an entry that starts there ended

	// parts are the blocks on disk that hold it together, when a full disk made
	// it be written in pieces, without what was refused. Nil: it is one, and as
	// it is in memory.
	parts []dropped

	// origins are the older blocks whose home is this one: somebody holds Refs
	// to entries in them that were carried here.
	origins []*Block
}

// home holds the entries of a block, or where they went. At rest it is at most
// one step away: when entries are carried again, the home of the block that
// their Refs name is set anew. A chain would grow with every trim for as long
// as one old entry lives.
type home struct {
	data    []byte            // header and entries, without marks
	cold    *cold             // instead of data: they are on disk only
	block   *Block            // instead of both: the block that took the live entries
	offsets map[uint32]uint32 // old → new
}

// mark notes that the entry at off ended. No two entries share a bit, because
// none is shorter than five bytes.
// It returns the bytes that are live no more.
func (b *Block) mark(off, size uint32) int {
	word, bit := off>>8, uint64(1)<<(off>>2&63)
	if int(word) >= len(b.dead) { // once for all, unless the block is still open
		b.dead = append(make([]uint64, 0, max(int(word)+len(b.dead)/2, b.size>>8)+1), b.dead...)
		b.dead = b.dead[:cap(b.dead)]
	}
	if b.dead[word]&bit != 0 {
		panic(fmt.Sprintf("journal: bug: block %d: the entry at byte %d ended twice", b.seq, off))
	}
	b.dead[word] |= bit
	freed := min(int(size), b.bytes)
	// An open block has no home yet, and may get more entries: it has to
	// remember which ones ended.
	if b.live--; b.live == 0 && b.home.Load() != nil {
		freed = b.bytes
		b.home.Store(nil) // nothing is left that anybody may read
		b.dead, b.origins = nil, nil
	}
	b.bytes -= freed
	return freed
}

func (b *Block) ended(off uint32) bool {
	word, bit := off>>8, uint64(1)<<(off>>2&63)
	return int(word) < len(b.dead) && b.dead[word]&bit != 0
}

// Ref points to a live entry. It stays valid when the entry is carried forward.
// The zero Ref points nowhere. Refs are values; any goroutine may read one.
type Ref struct {
	block *Block
	pos   Position
	off   uint32
	size  uint32
}

// IsZero reports whether r points nowhere.
func (r Ref) IsZero() bool { return r.block == nil }

// Position returns the position of the entry.
func (r Ref) Position() Position { return r.pos }

// Size returns how many bytes the entry took when it was written.
func (r Ref) Size() int { return int(r.size) }

// resolve follows an entry to where it is now.
func (r Ref) resolve() (Ref, *home) {
	for h := r.block.home.Load(); ; {
		at, rest := r.follow(h)
		if rest != nil {
			return at, rest
		}
		// Either the entry was carried once more since we looked, and its own
		// block knows by now, or it ended.
		again := r.block.home.Load()
		if again == h {
			panic(fmt.Sprintf("journal: bug: entry %d of block %d was used after it ended", r.pos, r.block.seq))
		}
		h = again
	}
}

// follow walks from home to home. Nil: the way was lost.
func (r Ref) follow(h *home) (Ref, *home) {
	for h != nil && h.block != nil {
		off, found := h.offsets[r.off]
		if !found {
			return r, nil
		}
		r.block, r.off = h.block, off
		h = r.block.home.Load()
	}
	return r, h
}

// Read decodes the entry into e. The entry must have been delivered and not
// have ended.
//
// It reads the disk when the entry has left memory: see [Config.MemoryBudget].
// Then it may return an error, and the log fails with it: ErrCorrupt with the
// number of the block, or what the disk says, both under ErrFailed. After Close
// it is ErrClosed.
func (r Ref) Read(e *Entry) error {
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
	if h.cold != nil {
		err = r.readBack(func(d *decoder, b *Block) {
			id, due = d.head()
			due += b.base
		})
		return id, due, err
	}
	d := decoder{b: h.data, off: int(at.off)}
	id, due = d.head()
	return id, at.block.base + due, nil
}

// Prefetch brings the beginning of the entry into the processor's cache if it is
// in memory, under the conditions of Read: whoever is about to read many waits
// for all of them together. What it returns has no meaning; without a use the
// compiler would leave the load out.
func (r Ref) Prefetch() byte {
	at, h := r.resolve()
	if h.cold != nil {
		return 0
	}
	return h.data[at.off]
}

// read returns the size of the entry where it is now.
func (r Ref) read(e *Entry) (size uint32, err error) {
	at, h := r.resolve()
	if h.cold != nil {
		err = r.readBack(func(d *decoder, b *Block) {
			from := d.off
			d.entry(e, b.first, b.base)
			size = uint32(d.off - from)
		})
		return size, err
	}
	d := decoder{b: h.data, off: int(at.off)}
	d.entry(e, at.block.first, at.block.base)
	if d.err != nil {
		bugAt(at, d.err)
	}
	return uint32(d.off) - at.off, nil
}

// readBack calls f with a decoder at the entry, and the block that it is in: a
// second time if it does not have all of the entry.
func (r Ref) readBack(f func(*decoder, *Block)) error {
	for {
		at, h := r.resolve()
		var bug, err error
		if h.cold == nil {
			d := decoder{b: h.data, off: int(at.off)}
			f(&d, at.block)
			bug = d.err
		} else {
			bug, err = h.cold.decode(int(at.off), max(int(r.size), guessedEntry), func(d *decoder) { f(d, at.block) })
		}
		switch {
		case bug != nil:
			bugAt(at, bug)
		case err == nil:
			return nil
		case at.block.home.Load() == h:
			return h.cold.reader.fail(err)
		}
		// Carried forward meanwhile, and gone from where we looked.
	}
}

// bugAt: every block was checked when it was built or read.
func bugAt(at Ref, err error) {
	panic(fmt.Sprintf("journal: bug: block %d at byte %d: %v", at.block.seq, at.off, err))
}
