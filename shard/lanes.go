package shard

import (
	"hash/maphash"
	"iter"
	"math/bits"
	"sync"

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

	prefetched uint // has no meaning, but makes the compiler load what it counts
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

// spareSlabs are for the next burst of any shard, unless the collector takes them: what is in them
// is zero.
var spareSlabs = sync.Pool{New: func() any { return new([slabLanes]lane) }}

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
func (ls *lanes) find(id []byte) *lane { return ls.look(hashOf(id), id) }

// look is find for an id with this hash.
func (ls *lanes) look(hash uint32, id []byte) *lane {
	n := ls.byID.find(hash, func(n number) bool { return ls.at(n).has(&ls.entries, id) })
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

// add returns a new lane for an id that has none, and this hash.
func (ls *lanes) add(hash uint32) *lane {
	if len(ls.open) == 0 {
		ls.open = append(ls.open, uint32(len(ls.slabs)))
		ls.slabs = append(ls.slabs, slab{free: allFree, open: true})
	}
	index := ls.open[len(ls.open)-1]
	s := &ls.slabs[index]
	switch {
	case s.lanes == nil:
		s.lanes = spareSlabs.Get().(*[slabLanes]lane)
	case s.free == allFree:
		ls.idle--
	}
	place := bits.TrailingZeros64(s.free)
	if s.free &^= 1 << place; s.free == 0 {
		s.open, ls.open = false, ls.open[:len(ls.open)-1]
	}
	l := &s.lanes[place-1]
	*l = lane{number: number(index<<slabBits | uint32(place))}
	ls.byID.insert(hash, l.number)
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
	case ls.len() == 0 && len(ls.slabs) > 1: // a burst is over
		for _, s := range ls.slabs {
			if s.lanes != nil {
				spareSlabs.Put(s.lanes)
			}
		}
		*ls = lanes{entries: ls.entries}
	case s.free != allFree:
	case ls.idle > 0:
		spareSlabs.Put(s.lanes)
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

// What a job needs is not in the cache when the backlog is large, and to wait for
// one load after the other is what it costs most then. Loads that don't depend
// on each other go on at the same time: so those of a whole run come first, and
// those of several entries that arrive. Without that, draining 10⁶ ids takes half as
// much processor time again, twice as much if they are due in another order than
// they came in; draining 10⁶ payloads of one id, 64 at a time, takes a fifth more.

// prefetchIDs loads what handing out up to n lanes that stand in line begins
// with: their ids, which are beside their payloads.
func (ls *lanes) prefetchIDs(next number, now int64, n int) {
	for ; next != 0 && n > 0; n-- {
		l := ls.at(next)
		if l.due > now {
			break
		}
		if !l.one.Ref.IsZero() {
			ls.prefetched += uint(l.one.Ref.Prefetch())
		}
		next = l.next
	}
}

// prefetchID loads what taking in an entry of an id begins with.
func (ls *lanes) prefetchID(id []byte) { ls.prefetched += uint(ls.byID.prefetch(hashOf(id)).hash) }

// prefetchIncoming loads what taking in entries begins with: the slots of their
// ids, and those of equal payloads where an id has many.
func (ls *lanes) prefetchIncoming(as []incoming) {
	for i := range as {
		as[i].hash = hashOf(as[i].ID)
		as[i].lane = ls.byID.prefetch(as[i].hash).value
	}
	for i := range as {
		if as[i].lane == 0 {
			continue
		}
		if b := ls.at(as[i].lane).bag(); b != nil && b.index != nil {
			ls.prefetched += uint(b.index.prefetch(hashOf(as[i].Payload)).hash)
		}
	}
}

// prefetchEqual loads what handing out some of the many payloads of a lane begins
// with: their places in the index of equal ones. When all go, it goes as a whole.
func (ls *lanes) prefetchEqual(l *lane, limit int) {
	b := l.bag()
	if b == nil || b.index == nil || limit == 0 || limit >= b.len() {
		return
	}
	next := b.order.inOrder.values()
	for _, h := range next[:min(limit, len(next))] {
		ls.prefetched += uint(b.index.prefetch(h.hash).hash)
	}
}

// prefetchSlots loads what dropping the lanes of a run begins with, if there are
// several.
func (ls *lanes) prefetchSlots(r *Run) {
	if len(r.Items) < 2 {
		return
	}
	for i := range r.Items {
		ls.prefetched += uint(ls.byID.prefetch(r.Items[i].hash).hash)
	}
}
