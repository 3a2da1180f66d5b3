package shard

import (
	"hash/maphash"
	"iter"
	"math/bits"

	"github.com/strandjobs/strand/journal"
)

// lanes are the lanes of a shard: numbered places in slabs, found by id. Numbers
// rather than pointers tie them together, because the collector has to look at
// every pointer, and there may be millions.
//
// A lane knows its id by what it holds: the id stands in the journal beside
// each payload, and a second copy would cost as much as all else in the table.
type lanes struct {
	byID  table[number]
	slabs []slab
	open  []uint32 // slabs that may have room; the last one is used first
	idle  int      // slabs in memory without a lane; Invariant: at most one

	entries entryReader
}

// number is that of a lane. 0 is none.
type number uint32

// A slab has one lane less than a word has bits: with them it fills a size
// class of the allocator, and no lane has the number 0.
const (
	slabBits  = 6
	slabLanes = 1<<slabBits - 1
	allFree   = ^uint64(1) // bit 0 stands for no lane
)

// slab is room for some lanes. It has no memory while all of them are free,
// except for one.
type slab struct {
	lanes *[slabLanes]lane
	free  uint64 // a bit for each lane
	open  bool   // it is in lanes.open
}

func (s *slab) used() uint64 { return allFree &^ s.free }

var hashSeed = maphash.MakeSeed() // of this process only, so no user can aim at collisions

func hashOf(data []byte) uint32 { return uint32(maphash.Bytes(hashSeed, data)) }

// len returns the number of lanes in use.
func (ls *lanes) len() int { return ls.byID.n }

// find returns the lane of an id, or nil. After an error nothing is found.
func (ls *lanes) find(id []byte) *lane {
	n := ls.byID.find(hashOf(id), func(n number) bool { return ls.at(n).has(&ls.entries, id) })
	if n == 0 || ls.entries.err != nil {
		return nil
	}
	return ls.at(n)
}

// at returns a lane, which may be free; nil when its slab has no memory.
func (ls *lanes) at(n number) *lane {
	s := &ls.slabs[n>>slabBits]
	if s.lanes == nil {
		return nil
	}
	return &s.lanes[n&(1<<slabBits-1)-1]
}

// all lists the lanes in use, in no particular order.
func (ls *lanes) all() iter.Seq[*lane] {
	return func(yield func(*lane) bool) {
		for _, s := range ls.slabs {
			for used := s.used(); used != 0; used &= used - 1 {
				if !yield(&s.lanes[bits.TrailingZeros64(used)-1]) {
					return
				}
			}
		}
	}
}

// add returns a new lane for an id that has none.
func (ls *lanes) add(id []byte) *lane {
	if len(ls.open) == 0 {
		ls.open = append(ls.open, uint32(len(ls.slabs)))
		ls.slabs = append(ls.slabs, slab{free: allFree, open: true})
	}
	index := ls.open[len(ls.open)-1]
	s := &ls.slabs[index]
	switch {
	case s.lanes == nil:
		s.lanes = new([slabLanes]lane)
	case s.free == allFree:
		ls.idle--
	}
	place := bits.TrailingZeros64(s.free)
	if s.free &^= 1 << place; s.free == 0 {
		s.open, ls.open = false, ls.open[:len(ls.open)-1]
	}
	l := &s.lanes[place-1]
	*l = lane{number: number(index<<slabBits | uint32(place))}
	ls.byID.insert(hashOf(id), l.number)
	return l
}

// remove takes a lane away, whose id has this hash.
func (ls *lanes) remove(l *lane, hash uint32) {
	n := l.number
	ls.byID.remove(hash, n)
	*l = lane{}
	index := uint32(n >> slabBits)
	s := &ls.slabs[index]
	if s.free |= 1 << (n & (1<<slabBits - 1)); !s.open {
		s.open, ls.open = true, append(ls.open, index)
	}
	switch {
	case ls.len() == 0 && len(ls.slabs) > 1:
		*ls = lanes{entries: ls.entries} // a burst is over
	case s.free != allFree:
	case ls.idle > 0:
		s.lanes = nil
	default:
		ls.idle++
	}
}

// entryReader reads what lanes stand for. An entry may have left memory, and then
// the disk may fail. The first error sticks: from then on nothing that is read
// means anything, and the core hands out, merges and records nothing any more.
type entryReader struct{ err error }

// read decodes an entry into e, and reports whether it could.
func (r *entryReader) read(ref journal.Ref, e *journal.Entry) bool {
	r.fail(ref.Read(e))
	return r.err == nil
}

// id returns the id of an entry.
func (r *entryReader) id(ref journal.Ref) []byte {
	id, err := ref.ID()
	r.fail(err)
	return id
}

func (r *entryReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}
