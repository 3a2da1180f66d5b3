package tell

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// Witness hears of all that happens to jobs, whether there are readers or not, on the goroutine
// that tells it. Its methods must not block, nor keep what they get a pointer to.
type Witness interface {
	// Accepted hears of a payload before its shard does, after the commit, and before
	// Told does.
	Accepted(queue string, e *journal.Entry)
	// Told hears of each event. Its Number is 0, and it has no Token.
	Told(e events.Event)
}

// words are the kinds there are. Where one stands is its number in the ring, from 1 on.
var words = [...]events.Kind{1: events.Accepted, events.Requeued, events.Merged, events.Parked, events.Started, events.Progress,
	events.Done, events.Failed, events.Snoozed, events.Discarded, events.Cancelled, events.Interrupted, events.Buried,
	events.Halted, events.Deleted, events.Paused, events.Resumed, events.Committed}

var numbers = func() map[events.Kind]uint8 {
	numbers := make(map[events.Kind]uint8, len(words))
	for i, k := range words[1:] {
		numbers[k] = uint8(i + 1)
	}
	return numbers
}()

// kinds is a set of kinds: that of number k is in it if bit k is set.
type kinds uint64

func (k kinds) has(kind uint8) bool { return k&(1<<kind) != 0 }

// of returns a set of kinds.
func of(some ...events.Kind) (all kinds) {
	for _, k := range some {
		all |= 1 << numbers[k]
	}
	return all
}

// Kinds that are asked for together.
var (
	arrivals  = of(events.Accepted, events.Requeued)
	verdicts  = of(events.Done, events.Failed, events.Snoozed, events.Discarded, events.Cancelled, events.Interrupted, events.Halted)
	successes = of(events.Done, events.Cancelled)
	calls     = verdicts | of(events.Started)
	commits   = of(events.Committed)
)

// Source tells what happens in a queue, which is what events are filtered by before they are made.
// The zero Source is never watched.
type Source struct {
	name   string
	feed   *Feed
	core   *shard.Config
	wanted atomic.Uint64      // kinds; written under Feed.mu
	since  [len(words)]uint64 // numbers from which on the wanted kinds are in the ring; guarded by Feed.mu
	recent kinds              // that readers have begun, or ceased, to want since the last narrow; guarded by Feed.mu
}

// wants reports whether an event of one of these kinds should be put. It may change
// at any time: put looks again.
func (s *Source) wants(some kinds) bool { return kinds(s.wanted.Load())&some != 0 }

// Watched reports whether an event of any kind should be told.
func (s *Source) Watched() bool { return s.wanted.Load() != 0 }

// slot is an event with what it is filtered by.
type slot struct {
	source *Source
	kind   uint8
	events.Event
}

func (s *Source) slot(e events.Event) slot {
	e.Queue = s.name
	return slot{s, numbers[e.Kind], e}
}

// Feed is the ring of an executor. The zero Feed is off; see Open. Its methods may be called
// by any goroutine, but for Open, which comes first.
type Feed struct {
	size    uint64  // of the ring; 0: it is off
	life    uint64  // names the executor in tokens
	self    Source  // of what is about no queue
	witness Witness // nil: there is none

	// mu guards what follows. Nothing is called under it.
	mu      sync.Mutex
	sources []*Source
	all     kinds         // what is wanted of all sources, also of those to come
	recent  kinds         // as Source.recent, of all sources
	turn    uint64        // the number at which narrow comes next
	ring    []slot        // by number modulo size; nil: off
	first   uint64        // the oldest number that may be in the ring
	next    uint64        // the number of the next event
	readers []*Reader     // that are at it
	until   uint64        // without readers the ring goes at this number
	wake    chan struct{} // closed by the next put; nil: no reader waits
	closed  bool
}

// Open switches the feed on, with room for so many events, at least one, and with a
// witness, which may be nil.
func (f *Feed) Open(size int, witness Witness) {
	f.size, f.life, f.first, f.next = uint64(size), rand.Uint64(), 1, 1
	f.Join(&f.self, "", nil) // before the witness, which is not for commits
	if f.witness = witness; witness != nil {
		f.all = ^kinds(0)
	}
}

// Join makes a queue a source of events, before it has any; core is how its shards work.
func (f *Feed) Join(s *Source, name string, core *shard.Config) {
	s.name, s.feed, s.core = name, f, core
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sources = append(f.sources, s)
	s.wanted.Store(uint64(f.all))
	s.recent = f.recent
}

// Committed tells that the disk took so long for a commit.
func (f *Feed) Committed(took time.Duration) {
	if f.self.wants(commits) {
		f.self.Tell(events.Event{Kind: events.Committed, Duration: took})
	}
}

// Paused tells that the executor is paused, or goes on.
func (f *Feed) Paused(on bool) { f.self.Paused(on, events.Event{}) }

// put hands events of one source to the readers that want them, in this order.
func (f *Feed) put(s *Source, told ...slot) {
	if f.witness != nil {
		for i := range told {
			f.witness.Told(told[i].Event)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.ring == nil {
		return
	}
	wanted, began := kinds(s.wanted.Load()), f.next
	for i := range told {
		if wanted.has(told[i].kind) {
			f.push(&told[i])
		}
	}
	if len(f.readers) == 0 && f.next >= f.until {
		f.off()
		return
	}
	if f.next >= f.turn {
		f.narrow()
	}
	if f.next != began {
		f.rouse()
	}
}

// push gives an event its number, and the place of the oldest one. mu is held.
func (f *Feed) push(e *slot) {
	at := &f.ring[f.next%f.size]
	*at = *e
	at.Number = f.next
	f.next++
	f.first = max(f.first, f.next-min(f.next, f.size))
}

// off lets the ring go: whoever comes back now has missed something. mu is held.
func (f *Feed) off() {
	f.ring = nil
	f.first = f.next
	f.narrow() // in the last lap there was no reader
	f.narrow()
}

// rarely is how many events there are at least between two calls of narrow, which goes through all sources.
const rarely = 256

// narrow ends what only readers have wanted who have gone a lap ago, so that nothing is made for nobody while
// others are at it. mu is held.
func (f *Feed) narrow() {
	f.turn = f.next + max(f.size, rarely)
	if f.witness != nil {
		return // who wants all, still
	}
	f.all, f.recent = f.recent, 0
	for _, s := range f.sources {
		wanted := s.recent
		for _, r := range f.readers {
			if r.wants(s) {
				wanted |= r.kinds
			}
		}
		s.wanted.Store(uint64(wanted))
		s.recent = 0
	}
	for _, r := range f.readers {
		if r.sources == nil {
			f.all |= r.kinds
		}
	}
}

// Close ends the feed: readers get what there is, and then their loops end.
func (f *Feed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.rouse()
}

// rouse wakes all readers that wait. mu is held.
func (f *Feed) rouse() {
	if f.wake != nil {
		close(f.wake)
		f.wake = nil
	}
}
