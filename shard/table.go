package shard

// table finds values by the hash of their key; the caller compares the keys. It
// is an open-addressing table in segments (extendible hashing): a segment grows
// up to segmentSlots, then splits in two, and two that have become empty join
// again. So no insertion or removal moves more than one segment, and nothing stays
// of a burst.
//
// Not a map: it grows piecewise, too (Go 1.24), but does not shrink, and to copy what
// is left of 10⁷ ids takes 280 ms. With one from hash to value in the place of the
// table, an id took 2 to 3 bytes more, and a job 2 to 10 % more processor time with a
// million others waiting, 22 % when these are drained (Go 1.26, the better of several
// rounds in turns).
//
// The zero table is empty. The zero V stands for no value.
type table[V comparable] struct {
	dir     []*segment[V] // by the first bits of a hash
	shift   uint8         // of a hash, to get these
	deepest int           // segments with a single place in dir
	n       int
}

// segment holds the values whose hashes have their first bits in common. They
// are found by linear probing from the last bits of the hash.
type segment[V comparable] struct {
	slots []slot[V] // a power of two
	used  int
	shift uint8 // 32 − the number of common bits
}

type slot[V comparable] struct {
	hash  uint32
	value V
}

const (
	hashBits      = 32
	firstSlots    = 8
	keptSlots     = 128 // by a table that has become empty, at most
	segmentSlots  = 1024
	fullSixteenth = 13 // of a segment's slots in sixteenths: probing gets slow above
)

// find returns a value with this hash for which same is true, or zero.
func (t *table[V]) find(hash uint32, same func(V) bool) V {
	var none V
	if t.n == 0 {
		return none
	}
	s := t.dir[hash>>t.shift]
	for i := s.home(hash); ; i = s.next(i) {
		if at := &s.slots[i]; at.value == none || at.hash == hash && same(at.value) {
			return at.value
		}
	}
}

// prefetch loads the slot where the search for a hash begins. See
// lanes.prefetched.
func (t *table[V]) prefetch(hash uint32) slot[V] {
	if t.n == 0 {
		return slot[V]{}
	}
	s := t.dir[hash>>t.shift]
	return s.slots[s.home(hash)]
}

func (t *table[V]) insert(hash uint32, v V) {
	if t.dir == nil {
		t.dir, t.shift, t.deepest = []*segment[V]{{slots: make([]slot[V], firstSlots), shift: hashBits}}, hashBits, 1
	}
	s := t.dir[hash>>t.shift]
	for 16*s.used >= fullSixteenth*len(s.slots) {
		if len(s.slots) < segmentSlots || !t.mayDouble() && s.shift == t.shift {
			s.resize(4 * len(s.slots))
		} else {
			t.split(s, hash)
		}
		s = t.dir[hash>>t.shift]
	}
	s.insert(hash, v)
	t.n++
}

// remove takes a value out that was inserted with this hash.
func (t *table[V]) remove(hash uint32, v V) {
	s := t.dir[hash>>t.shift]
	i := s.home(hash)
	for s.slots[i].value != v {
		i = s.next(i)
	}
	s.remove(i)
	if t.n--; t.n == 0 && len(s.slots) > keptSlots {
		*t = table[V]{}
	} else if s.used < len(s.slots)/8 {
		t.join(s, hash)
	}
}

// mayDouble reports whether a larger dir would be worth it: hashes that are
// alike must not make it grow.
func (t *table[V]) mayDouble() bool { return len(t.dir) <= t.n/(segmentSlots/16) }

// split makes two segments of one, by one more bit. The old one stays as the
// first of them: memory that is fresh costs more than a copy.
func (t *table[V]) split(s *segment[V], hash uint32) {
	if s.shift == t.shift {
		t.double()
	}
	shift := s.shift - 1
	var room [segmentSlots]slot[V]
	old := append(room[:0], s.slots...)
	clear(s.slots)
	low, high := s, &segment[V]{slots: make([]slot[V], len(s.slots)), shift: shift}
	low.used, low.shift = 0, shift
	for _, at := range old {
		switch half := at.hash >> shift & 1; {
		case at == slot[V]{}:
		case half == 0:
			low.insert(at.hash, at.value)
		default:
			high.insert(at.hash, at.value)
		}
	}
	t.place(low, hash&^(1<<shift))
	t.place(high, hash|1<<shift)
}

// join makes one segment of two that differ in their last common bit: the first
// takes the values of the other one in.
func (t *table[V]) join(s *segment[V], hash uint32) {
	if s.shift == hashBits {
		return
	}
	buddy := t.dir[(hash^1<<s.shift)>>t.shift]
	if buddy.shift != s.shift || s.used+buddy.used > segmentSlots/4 {
		return
	}
	if len(s.slots) > segmentSlots {
		s.resize(segmentSlots)
	}
	for _, at := range buddy.slots {
		if at != (slot[V]{}) {
			s.insert(at.hash, at.value)
		}
	}
	if s.shift == t.shift {
		t.deepest -= 2
	}
	s.shift++
	t.place(s, hash)
	for t.deepest == 0 {
		t.halve()
	}
}

// place puts a segment where hashes with the first bits of this one lead.
func (t *table[V]) place(s *segment[V], hash uint32) {
	n := 1 << (s.shift - t.shift)
	from := int(hash>>s.shift) * n
	for i := from; i < from+n; i++ {
		t.dir[i] = s
	}
	if n == 1 {
		t.deepest++
	}
}

func (t *table[V]) double() {
	dir := make([]*segment[V], 2*len(t.dir))
	for i := range dir {
		dir[i] = t.dir[i/2]
	}
	t.dir, t.deepest = dir, 0
	t.shift--
}

func (t *table[V]) halve() {
	dir := make([]*segment[V], len(t.dir)/2)
	t.shift++
	for i := range dir {
		if dir[i] = t.dir[2*i]; dir[i].shift == t.shift {
			t.deepest++
		}
	}
	t.dir = dir
}

func (s *segment[V]) home(hash uint32) uint32 { return hash & uint32(len(s.slots)-1) }

func (s *segment[V]) next(i uint32) uint32 { return (i + 1) & uint32(len(s.slots)-1) }

func (s *segment[V]) insert(hash uint32, v V) {
	var none V
	i := s.home(hash)
	for s.slots[i].value != none {
		i = s.next(i)
	}
	s.slots[i], s.used = slot[V]{hash, v}, s.used+1
}

// remove empties slot i and moves up what was pushed behind it, so that no
// tombstones gather.
func (s *segment[V]) remove(i uint32) {
	var none V
	mask := uint32(len(s.slots) - 1)
	for j := s.next(i); s.slots[j].value != none; j = s.next(j) {
		if (j-s.home(s.slots[j].hash))&mask >= (j-i)&mask {
			s.slots[i] = s.slots[j]
			i = j
		}
	}
	s.slots[i] = slot[V]{}
	s.used--
}

func (s *segment[V]) resize(slots int) {
	old := s.slots
	s.slots, s.used = make([]slot[V], min(slots, max(segmentSlots, 2*len(old)))), 0
	for _, at := range old {
		if at != (slot[V]{}) {
			s.insert(at.hash, at.value)
		}
	}
}
