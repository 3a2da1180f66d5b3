package journal

import "encoding/binary"

// root reads the tree below the page that names the buckets.
func (w *wreck) root(id uint64) {
	w.tree(id, 0, func(flags uint32, key, v []byte, at int64) {
		if flags != bucketFlag || len(v) < 16 {
			return
		}
		name := bucket(key)
		w.within = w.copiesOf(name)
		defer func() { w.within = nil }()
		each := func(_ uint32, key, v []byte, at int64) { w.value(name, key, v, span{at, len(v)}) }
		if root := binary.NativeEndian.Uint64(v); root != 0 {
			w.tree(root, 1, each)
			return
		}
		if inline := v[16:]; len(inline) >= pageHeader {
			w.leaf(w.inline(id, inline), at+16, each)
		}
	})
}

func (w *wreck) inline(id uint64, v []byte) page {
	return page{id: id, flags: leafPage, count: int(binary.NativeEndian.Uint16(v[10:])), b: v}
}

// copiesOf is where the values of a bucket go, nil for one that has no seals.
func (w *wreck) copiesOf(name bucket) *copies {
	switch name {
	case bucketQueues:
		return w.queues
	case bucketState:
		return w.keys
	}
	return nil
}

// visit gets a value, its flags and where it stands in the file.
type visit func(flags uint32, key, v []byte, at int64)

// tree visits what can be reached from a page.
func (w *wreck) tree(id uint64, depth int, f visit) {
	p, err := w.walk.load(id, depth)
	if err != nil {
		w.hurt("%s", reasonOf(err))
		return
	}
	switch p.flags {
	case leafPage:
		w.leaf(p, int64(id)*int64(w.walk.size), f)
	case branchPage:
		for i := range p.count {
			_, element, err := p.key(i, nil, nil)
			if err != nil {
				w.hurt("%s", reasonOf(err))
				continue
			}
			w.tree(binary.NativeEndian.Uint64(element[8:]), depth+1, f)
		}
	default:
		w.hurt("page %d: unknown type %#x", id, p.flags)
	}
}

// leaf visits the values of a page that begins at a place in the file.
func (w *wreck) leaf(p page, at int64, f visit) {
	within := w.within
	var first, last []byte
	room := p.room()
	for i := range p.count {
		flags, key, start, size, err := p.element(i)
		if err == nil {
			err = room.take(p.id, len(key)+size)
		}
		if err != nil {
			w.hurt("%s", reasonOf(err))
			continue
		}
		if first == nil {
			first = key
		}
		last = key
		f(flags, key, p.b[start:start+size], at+int64(start))
	}
	if within != nil && first != nil {
		within.claim(first, last)
	}
}

// element returns a key of a leaf and where its value is in the page.
func (p page) element(i int) (flags uint32, key []byte, start, size int, err error) {
	key, e, err := p.key(i, nil, nil)
	if err != nil {
		return 0, nil, 0, 0, err
	}
	n := binary.NativeEndian
	start = pageHeader + i*elementHeader + int(n.Uint32(e[4:])) + int(n.Uint32(e[8:]))
	size = int(n.Uint32(e[12:]))
	if start > len(p.b) || size > len(p.b)-start {
		return 0, nil, 0, 0, damaged("page %d: value %d is outside", p.id, i)
	}
	return n.Uint32(e), key, start, size, nil
}

// leaves reads every page that looks like a leaf, in use or not.
func (w *wreck) leaves() {
	known := len(w.damage) // a page that is not in use may hold anything
	b := make([]byte, w.walk.size)
	for id := uint64(2); id < w.pages && w.spare > 0; id++ {
		p, ok := w.lookLikeLeaf(id, b)
		w.spare -= int64(len(p.b))
		if !ok {
			continue
		}
		any := func(_ uint32, key, v []byte, at int64) {
			w.spare -= int64(len(v))
			w.anyValue(key, v, span{at, len(v)})
		}
		w.beginPage()
		w.leaf(p, int64(id)*int64(w.walk.size), func(flags uint32, key, v []byte, at int64) {
			if flags == bucketFlag && len(v) >= 16+pageHeader {
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

func (w *wreck) beginPage() {
	w.queues.page()
	w.keys.page()
}

// lookLikeLeaf reads a page into b, which has the size of one.
func (w *wreck) lookLikeLeaf(id uint64, b []byte) (page, bool) {
	if _, err := w.f.ReadAt(b, int64(id)*int64(w.walk.size)); err != nil {
		return page{}, false
	}
	n := binary.NativeEndian
	overflow := uint64(n.Uint32(b[12:]))
	if n.Uint64(b) != id || n.Uint16(b[8:]) != leafPage || overflow >= w.pages-id || overflow*uint64(w.walk.size) > maxAppendBytes {
		return page{}, false
	}
	if overflow > 0 {
		b = append(b[:w.walk.size:w.walk.size], make([]byte, overflow*uint64(w.walk.size))...)
		if _, err := w.f.ReadAt(b[w.walk.size:], int64(id+1)*int64(w.walk.size)); err != nil {
			return page{}, false
		}
	}
	return page{id: id, flags: leafPage, count: int(n.Uint16(b[10:])), b: b}, true
}
