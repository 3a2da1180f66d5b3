// Package feed passes events from many writers on to readers, through a bounded ring
// that no reader holds up.
//
//	writers ── Put ──► ring of the newest events ◄── Next ── readers, each at a place of its own
//
// # What is promised
//
//   - Events have ascending numbers. One whose Put began after another's had returned
//     has a higher number.
//   - A reader gets all events that it wants, in the order of their numbers, each
//     once, or is told how many numbers it has missed before it gets the next one.
//   - A writer waits for other writers and for readers no longer than it takes to
//     copy some events.
//   - A reader that goes on from a number, because an earlier one had come that far,
//     is told when there may have been events since that are not in the ring:
//     overwritten ones, and those of a kind or a source that no reader wanted then.
//   - While there is no reader, there is no ring, and a [Source] costs its writers one
//     atomic load. When the last reader has gone, the ring stays until it has been
//     filled once more, so that the reader may come back.
//
// # What is not promised
//
//   - That a number is an event which the reader wants: numbers count what any of the
//     readers wanted.
//
// # Why one ring under one mutex
//
// Rings of the workers' own, merged by number, would spare the writers each other.
// With two of them on two processors a Put takes 30 to 60 ns here, which is little
// beside the clock that is read for each event, and a merge has to wait for the
// slowest writer before it may hand out a number.
package feed

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Kinds is a set of kinds: kind k is in it if bit k is set. There are 64 kinds at
// most.
type Kinds uint64

// Of returns a set of kinds.
func Of(kinds ...uint8) (all Kinds) {
	for _, k := range kinds {
		all |= 1 << k
	}
	return all
}

// Has reports whether a kind is in the set.
func (k Kinds) Has(kind uint8) bool { return k&(1<<kind) != 0 }

const maxKinds = 64

// Source is where events come from: what they are filtered by before they are made.
// It belongs to one Feed.
type Source struct {
	Name   string
	wanted atomic.Uint64    // Kinds; written under Feed.mu
	since  [maxKinds]uint64 // numbers from which on the wanted kinds are in the ring; guarded by Feed.mu
}

// Wants reports whether an event of one of these kinds should be put. It may change
// at any time: Put looks again.
func (s *Source) Wants(kinds Kinds) bool { return Kinds(s.wanted.Load())&kinds != 0 }

// Watched reports whether an event of any kind should be put.
func (s *Source) Watched() bool { return s.wanted.Load() != 0 }

// Event is an event with what it is filtered by.
type Event[E any] struct {
	Number uint64 // set by Put
	Source *Source
	Kind   uint8
	Value  E
}

// Feed is the ring. Its methods may be called from any goroutine, with Sources that
// were added to it.
type Feed[E any] struct {
	size    uint64
	witness func(Event[E]) // nil: none; set before the first source

	// mu guards what follows. Nothing is called under it.
	mu      sync.Mutex
	sources []*Source
	all     Kinds         // what is wanted of all sources, also of those to come
	ring    []Event[E]    // by number modulo size; nil: off
	first   uint64        // the oldest number that may be in the ring
	next    uint64        // the number of the next event
	readers int           // that are at it
	until   uint64        // without readers the ring goes at this number
	wake    chan struct{} // closed by the next Put; nil: no reader waits
	closed  bool
}

// New returns a feed that keeps the newest events, size of them.
func New[E any](size int) *Feed[E] { return &Feed[E]{size: uint64(size), first: 1, next: 1} }

// SetWitness has witness called with every event of all sources, on the goroutine that puts
// it and before any reader gets it; its Number is not set. Call it before Add.
func (f *Feed[E]) SetWitness(witness func(Event[E])) {
	f.witness, f.all = witness, ^Kinds(0)
}

// Add makes a source known, before it has events.
func (f *Feed[E]) Add(s *Source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sources = append(f.sources, s)
	s.wanted.Store(uint64(f.all))
}

// Put hands events of one source to the readers that want them, in this order.
func (f *Feed[E]) Put(s *Source, events ...Event[E]) {
	if f.witness != nil {
		for i := range events {
			e := events[i] // by value: a pointer would have what every caller puts escape
			e.Source = s
			f.witness(e)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.ring == nil {
		return
	}
	wanted, began := Kinds(s.wanted.Load()), f.next
	for i := range events {
		if e := &events[i]; wanted.Has(e.Kind) {
			e.Source = s
			f.push(e)
		}
	}
	if f.readers == 0 && f.next >= f.until {
		f.off()
		return
	}
	if f.next != began {
		f.rouse()
	}
}

// push gives an event its number, and the place of the oldest one. mu is held.
func (f *Feed[E]) push(e *Event[E]) {
	slot := &f.ring[f.next%f.size]
	*slot = *e
	slot.Number = f.next
	f.next++
	f.first = max(f.first, f.next-min(f.next, f.size))
}

// off lets the ring go: whoever comes back now has missed something. mu is held.
func (f *Feed[E]) off() {
	f.ring = nil
	f.first = f.next
	if f.witness != nil {
		return // who wants all, still
	}
	f.all = 0
	for _, s := range f.sources {
		s.wanted.Store(0)
	}
}

// Close ends the feed: readers get what there is, and then end.
func (f *Feed[E]) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.rouse()
}

// rouse wakes all readers that wait. mu is held.
func (f *Feed[E]) rouse() {
	if f.wake != nil {
		close(f.wake)
		f.wake = nil
	}
}

// Filter says which events a reader wants.
type Filter struct {
	Kinds   Kinds
	Sources []*Source // nil: all, also those to come
}

func (w *Filter) has(s *Source, kind uint8) bool {
	return s != nil && w.Kinds.Has(kind) && (w.Sources == nil || slices.Contains(w.Sources, s))
}

// Open returns a reader of what happens from now on. Until the reader begins to read, the
// ring is kept for one lap only.
func (f *Feed[E]) Open(want Filter) *Reader[E] {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.widen(&want)
	return &Reader[E]{feed: f, want: want, next: f.next}
}

// OpenAfter returns a reader of what has happened since the event of a number. False:
// no event has that number.
func (f *Feed[E]) OpenAfter(want Filter, number uint64) (*Reader[E], bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if number == 0 || number >= f.next {
		return nil, false
	}
	f.widen(&want)
	return &Reader[E]{feed: f, want: want, next: number + 1}, true
}

// widen sees to it that what a reader wants gets into the ring. mu is held.
func (f *Feed[E]) widen(want *Filter) {
	if f.closed {
		return
	}
	if f.ring == nil {
		f.ring = make([]Event[E], f.size)
	}
	widened := false
	for _, s := range f.sources {
		if want.Sources != nil && !slices.Contains(want.Sources, s) {
			continue
		}
		had := Kinds(s.wanted.Load())
		for kind := range uint8(maxKinds) {
			if want.Kinds.Has(kind) && !had.Has(kind) {
				s.since[kind], widened = f.next+1, true
			}
		}
		s.wanted.Store(uint64(had | want.Kinds))
	}
	if want.Sources == nil {
		f.all |= want.Kinds
	}
	if widened {
		f.push(&Event[E]{}) // a number for all that was not put: who has read up to here has missed it
	}
	f.until = f.next + f.size
}
