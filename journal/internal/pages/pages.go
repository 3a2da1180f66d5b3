package pages

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
)

// Sizes and numbers are those of bbolt's data file version 2, in the byte order
// of the machine.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	PageHeader    = 16 // id 8, flags 2, count 2, overflow 4
	ElementHeader = 16 // leaf: flags, position, key, value; branch: position, key, page
	MetaSize      = 64
	MetaSummed    = 56 // bytes of a meta page that its checksum covers

	BranchPage   = 0x01
	LeafPage     = 0x02
	metaPage     = 0x04
	freelistPage = 0x10
	BucketFlag   = 0x01
	noFreelist   = ^uint64(0)

	maxDepth = 64 // of a tree of pages; a real one has five levels at most
)

// Walk reads the pages of a file, each once.
type Walk struct {
	F       *os.File
	Size    int      // of a page
	End     uint64   // pages in use are below it
	Seen    []uint64 // one bit for each
	buffers [maxDepth][]byte
}

// Check reads all pages of a file that bbolt would use. It matches ErrCorrupt, or
// ErrNotJournal for what is no file of bbolt.
func Check(path string) error {
	f, err := directory.OpenFile(path)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return errors.Join(walkPages(f, path), f.Close())
}

// CheckIn is Check for a name in a place.
func CheckIn(p *directory.Dir, name string) error {
	f, err := p.OpenRegular(name, os.O_RDONLY)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return errors.Join(walkPages(f, p.Path(name)), f.Close())
}

func walkPages(f *os.File, path string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	m, size, err := ReadMetas(f, path)
	if err != nil {
		return err
	}
	w := &Walk{F: f, Size: size, End: m.End}
	if most := Possible(info, size); m.End > most {
		return format.Damaged("%d pages in use, the file has %d", m.End, most)
	}
	w.Seen = make([]uint64, m.End/64+1)
	if err := w.tree(m.Root, nil, nil, 0); err != nil {
		return err
	}
	if m.freelist == noFreelist {
		return nil
	}
	return w.freelist(m.freelist)
}

// A file of which the disk has less than a part in maxHole is nearly all hole, however well
// the disk compresses. Up to fewPages it does not matter.
const (
	maxHole  = 256
	fewPages = 1 << 20
)

// Possible is how many pages of a size a file can have: those that are a hole in a file
// that was made to do harm take memory, too, and no room on the disk.
func Possible(info os.FileInfo, size int) uint64 {
	pages := uint64(info.Size()) / uint64(size)
	if given, known := directory.Given(info); known {
		return min(pages, fewPages+uint64(given)/uint64(size)*maxHole)
	}
	return pages
}

// Meta is what a meta page says: where the tree is, where the file ends, and the
// number of the last transaction.
type Meta struct{ Root, freelist, End, Txid uint64 }

// ReadMetas returns the younger meta page and the size of pages. Both must be
// sound. bbolt would make do with one, but when that is the older one, the last
// commit is lost without a word.
func ReadMetas(f io.ReaderAt, path string) (Meta, int, error) {
	buf := make([]byte, PageHeader+MetaSize)
	if first, size, ok := readMeta(f, buf, 0, 0); ok {
		second, _, ok := readMeta(f, buf, 1, size)
		// They are written by turns. After a hot copy the first turn is odd.
		younger, older := first, second
		if second.Txid > first.Txid {
			younger, older = second, first
		}
		if skipped := younger.Txid - older.Txid; !ok || skipped < 1 || skipped > 2 {
			return Meta{}, 0, format.Damaged("bbolt's meta page 1 or 0; the last commit may be missing")
		}
		return younger, size, nil
	}
	for size := 1 << 9; size <= 1<<16; size *= 2 {
		if _, _, ok := readMeta(f, buf, 1, size); ok {
			return Meta{}, 0, format.Damaged("bbolt's meta page 0; the last commit may be missing")
		}
	}
	if GuessSize(f) != 0 {
		return Meta{}, 0, format.Damaged("both meta pages of bbolt")
	}
	return Meta{}, 0, fmt.Errorf("%w: %s is no bbolt file of version %d", format.ErrNotJournal, path, boltVersion)
}

// GuessSize returns the size of pages at which most of the first ones say that they
// are where they are; 0 if there is none.
func GuessSize(f io.ReaderAt) (best int) {
	most, b := 1, make([]byte, 8)
	for size := 1 << 9; size <= 1<<16; size *= 2 {
		hits := 0
		for id := int64(2); id < 1000; id++ {
			if _, err := f.ReadAt(b, id*int64(size)); err == nil && binary.NativeEndian.Uint64(b) == uint64(id) {
				hits++
			}
		}
		if hits > most {
			best, most = size, hits
		}
	}
	return best
}

func readMeta(f io.ReaderAt, buf []byte, id uint64, at int) (m Meta, size int, ok bool) {
	n := binary.NativeEndian
	if _, err := f.ReadAt(buf, int64(at)); err != nil || n.Uint64(buf) != id || n.Uint16(buf[8:]) != metaPage {
		return m, 0, false
	}
	return ParseMeta(buf[PageHeader:])
}

// ParseMeta reads what a meta page has behind its header. It believes the checksum.
func ParseMeta(b []byte) (m Meta, size int, ok bool) {
	n, sum := binary.NativeEndian, fnv.New64a()
	sum.Write(b[:MetaSummed])
	if n.Uint32(b) != boltMagic || n.Uint32(b[4:]) != boltVersion || n.Uint64(b[MetaSummed:]) != sum.Sum64() {
		return m, 0, false
	}
	size = int(n.Uint32(b[8:]))
	m = Meta{Root: n.Uint64(b[16:]), freelist: n.Uint64(b[32:]), End: n.Uint64(b[40:]), Txid: n.Uint64(b[48:])}
	return m, size, size >= 512 && size <= 1<<16 && size&(size-1) == 0
}

// Page is a page with its overflow.
type Page struct {
	ID    uint64
	Flags uint16
	Count int
	B     []byte
}

// Load reads a page for the first time, with its overflow.
func (w *Walk) Load(id uint64, depth int) (p Page, err error) {
	if depth == maxDepth {
		return p, format.Damaged("page %d: the tree is deeper than %d", id, maxDepth)
	}
	if err := w.claim(id, 1); err != nil {
		return p, err
	}
	b := w.buffers[depth]
	if cap(b) < w.Size {
		b = make([]byte, w.Size)
	}
	b = b[:w.Size]
	if _, err := w.F.ReadAt(b, int64(id)*int64(w.Size)); err != nil {
		return p, err
	}
	n := binary.NativeEndian
	p = Page{ID: id, Flags: n.Uint16(b[8:]), Count: int(n.Uint16(b[10:]))}
	if n.Uint64(b) != id {
		return p, format.Damaged("page %d says it is page %d", id, n.Uint64(b))
	}
	if overflow := uint64(n.Uint32(b[12:])); overflow > 0 {
		if overflow*uint64(w.Size) > 2*format.MaxAppendBytes {
			return p, format.Damaged("page %d: %d pages more, which is larger than any value", id, overflow)
		}
		if err := w.claim(id+1, overflow); err != nil {
			return p, err
		}
		b = append(b, make([]byte, int(overflow)*w.Size)...)
		if _, err := w.F.ReadAt(b[w.Size:], int64(id+1)*int64(w.Size)); err != nil {
			return p, err
		}
	}
	p.B, w.buffers[depth] = b, b
	return p, nil
}

// claim notes that n pages from id on are in use.
func (w *Walk) claim(id, n uint64) error {
	if id < 2 || id >= w.End || n > w.End-id {
		return format.Damaged("page %d: outside the file", id)
	}
	for ; n > 0; id, n = id+1, n-1 {
		word, bit := id/64, uint64(1)<<(id%64)
		if w.Seen[word]&bit != 0 {
			return format.Damaged("page %d: used twice", id)
		}
		w.Seen[word] |= bit
	}
	return nil
}

// tree checks the pages below id, whose keys are from low on, and below high;
// nil means no bound.
func (w *Walk) tree(id uint64, low, high []byte, depth int) error {
	p, err := w.Load(id, depth)
	if err != nil {
		return err
	}
	switch p.Flags {
	case BranchPage:
		return w.branch(p, low, high, depth)
	case LeafPage:
		return w.leaf(p, low, high, depth)
	}
	return format.Damaged("page %d: unknown type %#x", id, p.Flags)
}

func (w *Walk) branch(p Page, low, high []byte, depth int) error {
	if p.Count == 0 {
		return format.Damaged("page %d: a branch without children", p.ID)
	}
	var next []byte
	room := p.Room()
	for i := range p.Count {
		key, e, err := p.Key(i, low, high)
		if err == nil {
			err = room.Take(p.ID, len(key))
		}
		if err != nil {
			return err
		}
		if next = high; i+1 < p.Count {
			// Its own turn comes; until then it bounds the child.
			if next, _, err = p.Key(i+1, key, high); err != nil {
				return err
			}
		}
		if err := w.tree(binary.NativeEndian.Uint64(e[8:]), key, next, depth+1); err != nil {
			return err
		}
		low = key
	}
	return nil
}

func (w *Walk) leaf(p Page, low, high []byte, depth int) error {
	room := p.Room()
	for i := range p.Count {
		flags, key, start, size, err := p.Element(i, low, high)
		if err == nil {
			err = room.Take(p.ID, len(key)+size)
		}
		if err != nil {
			return err
		}
		low = key
		switch flags {
		case 0:
		case BucketFlag:
			if err := w.bucket(p.ID, p.B[start:start+size], depth); err != nil {
				return err
			}
		default:
			return format.Damaged("page %d: value %d has unknown flags", p.ID, i)
		}
	}
	return nil
}

// Room is how much the elements of a page can hold together. Those of a page
// that was made up may lie on top of each other, and fill the memory.
type Room int

// Room is that of a page of which nothing was read yet.
func (p Page) Room() Room { return Room(len(p.B) - PageHeader) }

// Take counts an element with so many bytes.
func (r *Room) Take(id uint64, size int) error {
	if *r -= Room(ElementHeader + size); *r < 0 {
		return format.Damaged("page %d: its values are larger than it is", id)
	}
	return nil
}

// bucket checks the tree of a bucket, or the one page that is part of its value.
func (w *Walk) bucket(id uint64, v []byte, depth int) error {
	if len(v) < 16 {
		return format.Damaged("page %d: a bucket of %d bytes", id, len(v))
	}
	n := binary.NativeEndian
	if root := n.Uint64(v); root != 0 {
		return w.tree(root, nil, nil, depth+1)
	}
	v = v[16:]
	if len(v) < PageHeader || n.Uint16(v[8:]) != LeafPage {
		return format.Damaged("page %d: a bucket without a page", id)
	}
	return w.leaf(Page{ID: id, Count: int(n.Uint16(v[10:])), B: v}, nil, nil, depth)
}

// Key returns the i-th key and its element. The first key of a page may equal
// low, which is what its parent has for it; all others are above it.
func (p Page) Key(i int, low, high []byte) (key, element []byte, err error) {
	at := PageHeader + i*ElementHeader
	if at+ElementHeader > len(p.B) {
		return nil, nil, format.Damaged("page %d: element %d is outside", p.ID, i)
	}
	element = p.B[at : at+ElementHeader]
	n := binary.NativeEndian
	pos, size := int(n.Uint32(element)), int(n.Uint32(element[4:]))
	if p.Flags != BranchPage {
		pos, size = int(n.Uint32(element[4:])), int(n.Uint32(element[8:]))
	}
	if at += pos; at > len(p.B) || size > len(p.B)-at {
		return nil, nil, format.Damaged("page %d: key %d is outside", p.ID, i)
	}
	key = p.B[at : at+size]
	if order := bytes.Compare(low, key); low != nil && (order > 0 || order == 0 && i > 0) {
		return nil, nil, format.Damaged("page %d: key %d is out of order", p.ID, i)
	}
	if high != nil && bytes.Compare(key, high) >= 0 {
		return nil, nil, format.Damaged("page %d: key %d belongs to the next page", p.ID, i)
	}
	return key, element, nil
}

// Element returns a key of a leaf, as Key does, and where its value is in the page.
func (p Page) Element(i int, low, high []byte) (flags uint32, key []byte, start, size int, err error) {
	key, e, err := p.Key(i, low, high)
	if err != nil {
		return 0, nil, 0, 0, err
	}
	n := binary.NativeEndian
	start = PageHeader + i*ElementHeader + int(n.Uint32(e[4:])) + int(n.Uint32(e[8:]))
	size = int(n.Uint32(e[12:]))
	if start > len(p.B) || size > len(p.B)-start {
		return 0, nil, 0, 0, format.Damaged("page %d: value %d is outside", p.ID, i)
	}
	return n.Uint32(e), key, start, size, nil
}

// freelist checks a list of free pages. A log writes none; a tool may have.
func (w *Walk) freelist(id uint64) error {
	p, err := w.Load(id, 0)
	if err != nil {
		return err
	}
	if p.Flags != freelistPage {
		return format.Damaged("page %d: not a list of free pages", id)
	}
	n, at, count := binary.NativeEndian, PageHeader, uint64(p.Count)
	if count == 0xFFFF {
		count, at = n.Uint64(p.B[at:]), at+8
	}
	if count > uint64(len(p.B)-at)/8 {
		return format.Damaged("page %d: a list of %d free pages", id, count)
	}
	for ; count > 0; count, at = count-1, at+8 {
		if err := w.claim(n.Uint64(p.B[at:]), 1); err != nil {
			return err
		}
	}
	return nil
}
