package rest

import (
	"encoding/binary"
	"errors"
	"runtime"
	"syscall"

	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/pages"
)

// root reads the tree below the page that names the buckets.
func (w *wreck) root(id uint64) {
	w.tree(id, 0, func(flags uint32, key, v []byte, at int64) {
		if flags != pages.BucketFlag || len(v) < 16 {
			return
		}
		name := format.Bucket(key)
		w.within = map[format.Bucket]*copies{format.BucketQueues: w.queues, format.BucketState: w.keys}[name] // the others have no seals
		defer func() { w.within = nil }()
		each := func(_ uint32, key, v []byte, at int64) { w.value(name, key, v, span{at, len(v)}) }
		if root := binary.NativeEndian.Uint64(v); root != 0 {
			w.tree(root, 1, each)
			return
		}
		if inline := v[16:]; len(inline) >= pages.PageHeader {
			w.leaf(w.inline(id, inline), at+16, each)
		}
	})
}

func (w *wreck) inline(id uint64, v []byte) pages.Page {
	return pages.Page{ID: id, Flags: pages.LeafPage, Count: int(binary.NativeEndian.Uint16(v[10:])), B: v}
}

// visit gets a value, its flags and where it stands in the file.
type visit func(flags uint32, key, v []byte, at int64)

// tree visits what can be reached from a page.
func (w *wreck) tree(id uint64, depth int, f visit) {
	p, err := w.walk.Load(id, depth)
	if err != nil {
		w.hurt("%s", reasonOf(err))
		return
	}
	switch p.Flags {
	case pages.LeafPage:
		w.leaf(p, int64(id)*int64(w.walk.Size), f)
	case pages.BranchPage:
		for i := range p.Count {
			_, element, err := p.Key(i, nil, nil)
			if err != nil {
				w.hurt("%s", reasonOf(err))
				continue
			}
			w.tree(binary.NativeEndian.Uint64(element[8:]), depth+1, f)
		}
	default:
		w.hurt("page %d: unknown type %#x", id, p.Flags)
	}
}

// leaf visits the values of a page that begins at a place in the file.
func (w *wreck) leaf(p pages.Page, at int64, f visit) {
	within := w.within
	var first, last []byte
	room := p.Room()
	for i := range p.Count {
		flags, key, start, size, err := p.Element(i, nil, nil)
		if err == nil {
			err = room.Take(p.ID, len(key)+size)
		}
		if err != nil {
			w.hurt("%s", reasonOf(err))
			continue
		}
		if first == nil {
			first = key
		}
		last = key
		f(flags, key, p.B[start:start+size], at+int64(start))
	}
	if within != nil && first != nil { // what else is found between the keys of a page of the tree was deleted
		within.claimed = append(within.claimed, [2]string{string(first), string(last)})
	}
}

// leaves reads every page that looks like a leaf, in use or not.
func (w *wreck) leaves() {
	known := len(w.damage) // a page that is not in use may hold anything
	b := make([]byte, w.walk.Size)
	for id := uint64(2); id < w.pages && w.spare > 0; id++ {
		p, ok := w.lookLikeLeaf(id, b)
		w.spare -= int64(len(p.B))
		if !ok {
			if binary.NativeEndian.Uint64(b) == 0 {
				id = max(id, w.behindHole(id))
			}
			continue
		}
		any := func(_ uint32, key, v []byte, at int64) {
			w.spare -= int64(len(v))
			w.anyValue(key, v, span{at, len(v)})
		}
		w.beginPage()
		w.leaf(p, int64(id)*int64(w.walk.Size), func(flags uint32, key, v []byte, at int64) {
			if flags == pages.BucketFlag && len(v) >= 16+pages.PageHeader {
				w.beginPage()
				w.leaf(w.inline(id, v[16:]), at+16, any)
			} else if flags == 0 {
				any(flags, key, v, at)
			}
		})
		w.damage = w.damage[:min(known, len(w.damage))]
	}
	if w.spare <= 0 {
		w.hurt("the pages say that they hold more than the file can")
	}
}

// seekData is SEEK_DATA of Linux.
const seekData = 3

// behindHole returns the last page of the hole that a page is in, as far as the system says.
func (w *wreck) behindHole(id uint64) uint64 {
	if runtime.GOOS != "linux" {
		return id
	}
	at, err := w.f.Seek(int64(id)*int64(w.walk.Size), seekData)
	if errors.Is(err, syscall.ENXIO) { // up to the end
		return w.pages
	} else if err != nil {
		return id
	}
	return max(uint64(at)/uint64(w.walk.Size), id+1) - 1
}

func (w *wreck) beginPage() {
	w.queues.page()
	w.keys.page()
}

// lookLikeLeaf reads a page into b, which has the size of one.
func (w *wreck) lookLikeLeaf(id uint64, b []byte) (pages.Page, bool) {
	if _, err := w.f.ReadAt(b, int64(id)*int64(w.walk.Size)); err != nil {
		return pages.Page{}, false
	}
	n := binary.NativeEndian
	overflow := uint64(n.Uint32(b[12:]))
	if n.Uint64(b) != id || n.Uint16(b[8:]) != pages.LeafPage || overflow >= w.pages-id || overflow*uint64(w.walk.Size) > format.MaxAppendBytes {
		return pages.Page{}, false
	}
	if overflow > 0 {
		b = append(b[:w.walk.Size:w.walk.Size], make([]byte, overflow*uint64(w.walk.Size))...)
		if _, err := w.f.ReadAt(b[w.walk.Size:], int64(id+1)*int64(w.walk.Size)); err != nil {
			return pages.Page{}, false
		}
	}
	return pages.Page{ID: id, Flags: pages.LeafPage, Count: int(n.Uint16(b[10:])), B: b}, true
}
