package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// bbolt trusts its pages, and rebuilds the list of free ones on a goroutine of
// its own, where a panic or a fault ends the process. So before bbolt sees a
// file, checkPages reads it, without a memory map, and checks everything that
// bbolt relies on: both meta pages, that every page is where it says it is and
// referenced once, that elements lie inside their page, and the order of keys.
// What is inside the values is not looked at here.
//
// Sizes and numbers are those of bbolt's data file version 2, in the byte order
// of the machine.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	pageHeader    = 16 // id 8, flags 2, count 2, overflow 4
	elementHeader = 16 // leaf: flags, position, key, value; branch: position, key, page
	metaSize      = 64
	metaSummed    = 56 // bytes of a meta page that its checksum covers

	branchPage   = 0x01
	leafPage     = 0x02
	metaPage     = 0x04
	freelistPage = 0x10
	bucketFlag   = 0x01
	noFreelist   = ^uint64(0)

	maxDepth = 64 // of a tree of pages; a real one has five levels at most
)

type pageWalk struct {
	f       *os.File
	size    int      // of a page
	end     uint64   // pages in use are below it
	seen    []uint64 // one bit for each
	buffers [maxDepth][]byte
}

func checkPages(path string) error {
	f, err := openFile(path)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return errors.Join(walkPages(f, path), f.Close())
}

// checkPagesIn is checkPages for a name in a place.
func checkPagesIn(p *place, name string) error {
	f, err := p.open(name, os.O_RDONLY)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return errors.Join(walkPages(f, p.path(name)), f.Close())
}

func walkPages(f *os.File, path string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	m, size, err := readMetas(f, path)
	if err != nil {
		return err
	}
	w := &pageWalk{f: f, size: size, end: m.end}
	if int64(m.end) > info.Size()/int64(size) {
		return damaged("%d pages in use, the file has %d", m.end, info.Size()/int64(size))
	}
	w.seen = make([]uint64, m.end/64+1)
	if err := w.tree(m.root, nil, nil, 0); err != nil {
		return err
	}
	if m.freelist == noFreelist {
		return nil
	}
	return w.freelist(m.freelist)
}

type boltMeta struct{ root, freelist, end, txid uint64 }

// readMetas returns the younger meta page and the size of pages. Both must be
// sound. bbolt would make do with one, but when that is the older one, the last
// commit is lost without a word.
func readMetas(f io.ReaderAt, path string) (boltMeta, int, error) {
	buf := make([]byte, pageHeader+metaSize)
	if first, size, ok := readMeta(f, buf, 0, 0); ok {
		second, _, ok := readMeta(f, buf, 1, size)
		// They are written by turns. After a hot copy the first turn is odd.
		younger, older := first, second
		if second.txid > first.txid {
			younger, older = second, first
		}
		if skipped := younger.txid - older.txid; !ok || skipped < 1 || skipped > 2 {
			return boltMeta{}, 0, damaged("bbolt's meta page 1 or 0; the last commit may be missing")
		}
		return younger, size, nil
	}
	for size := 1 << 9; size <= 1<<16; size *= 2 {
		if _, _, ok := readMeta(f, buf, 1, size); ok {
			return boltMeta{}, 0, damaged("bbolt's meta page 0; the last commit may be missing")
		}
	}
	return boltMeta{}, 0, fmt.Errorf("%w: %s is no bbolt file of version %d", ErrNotJournal, path, boltVersion)
}

func readMeta(f io.ReaderAt, buf []byte, id uint64, at int) (m boltMeta, size int, ok bool) {
	if _, err := f.ReadAt(buf, int64(at)); err != nil {
		return m, 0, false
	}
	b, n := buf[pageHeader:], binary.NativeEndian
	if n.Uint64(buf) != id || n.Uint16(buf[8:]) != metaPage {
		return m, 0, false
	}
	sum := fnv.New64a()
	sum.Write(b[:metaSummed])
	if n.Uint32(b) != boltMagic || n.Uint32(b[4:]) != boltVersion || n.Uint64(b[metaSummed:]) != sum.Sum64() {
		return m, 0, false
	}
	size = int(n.Uint32(b[8:]))
	m = boltMeta{root: n.Uint64(b[16:]), freelist: n.Uint64(b[32:]), end: n.Uint64(b[40:]), txid: n.Uint64(b[48:])}
	return m, size, size >= 512 && size <= 1<<16 && size&(size-1) == 0
}

// page is a page with its overflow.
type page struct {
	id    uint64
	flags uint16
	count int
	b     []byte
}

// load reads a page for the first time, with its overflow.
func (w *pageWalk) load(id uint64, depth int) (p page, err error) {
	if depth == maxDepth {
		return p, damaged("page %d: the tree is deeper than %d", id, maxDepth)
	}
	if err := w.claim(id, 1); err != nil {
		return p, err
	}
	b := w.buffers[depth]
	if cap(b) < w.size {
		b = make([]byte, w.size)
	}
	b = b[:w.size]
	if _, err := w.f.ReadAt(b, int64(id)*int64(w.size)); err != nil {
		return p, err
	}
	n := binary.NativeEndian
	p = page{id: id, flags: n.Uint16(b[8:]), count: int(n.Uint16(b[10:]))}
	if n.Uint64(b) != id {
		return p, damaged("page %d says it is page %d", id, n.Uint64(b))
	}
	if overflow := uint64(n.Uint32(b[12:])); overflow > 0 {
		if err := w.claim(id+1, overflow); err != nil {
			return p, err
		}
		b = append(b, make([]byte, int(overflow)*w.size)...)
		if _, err := w.f.ReadAt(b[w.size:], int64(id+1)*int64(w.size)); err != nil {
			return p, err
		}
	}
	p.b, w.buffers[depth] = b, b
	return p, nil
}

// claim notes that n pages from id on are in use.
func (w *pageWalk) claim(id, n uint64) error {
	if id < 2 || id >= w.end || n > w.end-id {
		return damaged("page %d: outside the file", id)
	}
	for ; n > 0; id, n = id+1, n-1 {
		word, bit := id/64, uint64(1)<<(id%64)
		if w.seen[word]&bit != 0 {
			return damaged("page %d: used twice", id)
		}
		w.seen[word] |= bit
	}
	return nil
}

// tree checks the pages below id, whose keys are from low on, and below high;
// nil means no bound.
func (w *pageWalk) tree(id uint64, low, high []byte, depth int) error {
	p, err := w.load(id, depth)
	if err != nil {
		return err
	}
	switch p.flags {
	case branchPage:
		return w.branch(p, low, high, depth)
	case leafPage:
		return w.leaf(p, low, high, depth)
	}
	return damaged("page %d: unknown type %#x", id, p.flags)
}

func (w *pageWalk) branch(p page, low, high []byte, depth int) error {
	if p.count == 0 {
		return damaged("page %d: a branch without children", p.id)
	}
	var next []byte
	room := p.room()
	for i := range p.count {
		key, e, err := p.key(i, low, high)
		if err == nil {
			err = room.take(p.id, len(key))
		}
		if err != nil {
			return err
		}
		if next = high; i+1 < p.count {
			// Its own turn comes; until then it bounds the child.
			if next, _, err = p.key(i+1, key, high); err != nil {
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

func (w *pageWalk) leaf(p page, low, high []byte, depth int) error {
	room := p.room()
	for i := range p.count {
		key, e, err := p.key(i, low, high)
		if err != nil {
			return err
		}
		low = key
		n := binary.NativeEndian
		start := pageHeader + i*elementHeader + int(n.Uint32(e[4:])) + int(n.Uint32(e[8:]))
		size := int(n.Uint32(e[12:]))
		if size > len(p.b)-start {
			return damaged("page %d: value %d is outside", p.id, i)
		}
		if err := room.take(p.id, len(key)+size); err != nil {
			return err
		}
		switch n.Uint32(e) {
		case 0:
		case bucketFlag:
			if err := w.bucket(p.id, p.b[start:start+size], depth); err != nil {
				return err
			}
		default:
			return damaged("page %d: value %d has unknown flags", p.id, i)
		}
	}
	return nil
}

// pageRoom is how much the elements of a page can hold together. Those of a page
// that was made up may lie on top of each other, and fill the memory.
type pageRoom int

func (p page) room() pageRoom { return pageRoom(len(p.b) - pageHeader) }

func (r *pageRoom) take(id uint64, size int) error {
	if *r -= pageRoom(elementHeader + size); *r < 0 {
		return damaged("page %d: its values are larger than it is", id)
	}
	return nil
}

// bucket checks the tree of a bucket, or the one page that is part of its value.
func (w *pageWalk) bucket(id uint64, v []byte, depth int) error {
	if len(v) < 16 {
		return damaged("page %d: a bucket of %d bytes", id, len(v))
	}
	n := binary.NativeEndian
	if root := n.Uint64(v); root != 0 {
		return w.tree(root, nil, nil, depth+1)
	}
	v = v[16:]
	if len(v) < pageHeader || n.Uint16(v[8:]) != leafPage {
		return damaged("page %d: a bucket without a page", id)
	}
	return w.leaf(page{id: id, count: int(n.Uint16(v[10:])), b: v}, nil, nil, depth)
}

// key returns the i-th key and its element. The first key of a page may equal
// low, which is what its parent has for it; all others are above it.
func (p page) key(i int, low, high []byte) (key, element []byte, err error) {
	at := pageHeader + i*elementHeader
	if at+elementHeader > len(p.b) {
		return nil, nil, damaged("page %d: element %d is outside", p.id, i)
	}
	element = p.b[at : at+elementHeader]
	n := binary.NativeEndian
	pos, size := int(n.Uint32(element)), int(n.Uint32(element[4:]))
	if p.flags != branchPage {
		pos, size = int(n.Uint32(element[4:])), int(n.Uint32(element[8:]))
	}
	if at += pos; at > len(p.b) || size > len(p.b)-at {
		return nil, nil, damaged("page %d: key %d is outside", p.id, i)
	}
	key = p.b[at : at+size]
	if order := bytes.Compare(low, key); low != nil && (order > 0 || order == 0 && i > 0) {
		return nil, nil, damaged("page %d: key %d is out of order", p.id, i)
	}
	if high != nil && bytes.Compare(key, high) >= 0 {
		return nil, nil, damaged("page %d: key %d belongs to the next page", p.id, i)
	}
	return key, element, nil
}

// freelist checks a list of free pages. A log writes none; a tool may have.
func (w *pageWalk) freelist(id uint64) error {
	p, err := w.load(id, 0)
	if err != nil {
		return err
	}
	if p.flags != freelistPage {
		return damaged("page %d: not a list of free pages", id)
	}
	n, at, count := binary.NativeEndian, pageHeader, uint64(p.count)
	if count == 0xFFFF {
		count, at = n.Uint64(p.b[at:]), at+8
	}
	if count > uint64(len(p.b)-at)/8 {
		return damaged("page %d: a list of %d free pages", id, count)
	}
	for ; count > 0; count, at = count-1, at+8 {
		if err := w.claim(n.Uint64(p.b[at:]), 1); err != nil {
			return err
		}
	}
	return nil
}
