package shard

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/strandjobs/strand/journal"
)

// ages know when the payloads of a shard that are not over were accepted, to a second,
// however many there are: payloads come in the order of their positions, and so those of a
// second are a range of these, of which it is enough to count how many are left.
//
// What comes out of this order has a time of its own: what was put back from the morgue,
// whose age counts from then on, what a full disk has kept waiting, and a state that has
// taken the place of an older one.
type ages struct {
	spans []span // by position; Invariant: less than half of them, and 64, are empty
	empty int
	last  journal.Position // that was in order

	others map[journal.Position]int64 // out of it, and when they were accepted
	times  map[int64]int              // how many of these have the same time: those of a Requeue do
}

// span is a range of positions, up to the next one, that were accepted within a second.
type span struct {
	from journal.Position
	at   int64 // when the first of them was, in Unix ns
	left int   // that are not over
}

// came counts a payload.
func (a *ages) came(e *journal.Entry, p journal.Position) {
	at := e.AcceptedAt()
	if e.Restored || p <= a.last {
		if e.Restored {
			at = e.Due // which is when it was put back
		}
		a.keep(p, at)
		return
	}
	a.last = p
	if n := len(a.spans) - 1; n >= 0 {
		if s := &a.spans[n]; at >= s.at && at < s.at+int64(time.Second) {
			if s.left++; s.left == 1 {
				a.empty--
			}
			return
		}
	}
	a.spans = append(a.spans, span{p, at, 1})
}

// keep counts a payload that is out of the order.
func (a *ages) keep(p journal.Position, at int64) {
	if a.others == nil {
		a.others, a.times = make(map[journal.Position]int64), make(map[int64]int)
	}
	a.others[p] = at
	a.times[at]++
}

// inherit has a payload be as old as another one, if that is older.
func (a *ages) inherit(p, from journal.Position) {
	if at := a.since(from); at < a.since(p) {
		a.went(p)
		a.keep(p, at)
	}
}

// since returns from when on the age of a payload counts.
func (a *ages) since(p journal.Position) int64 {
	if at, other := a.others[p]; other {
		return at
	}
	return a.span(p).at
}

// span returns the span of a payload that came in order.
func (a *ages) span(p journal.Position) *span {
	n := len(a.spans) - 1
	if n > 0 && a.spans[n].from > p {
		n = sort.Search(n, func(i int) bool { return a.spans[i+1].from > p })
	}
	return &a.spans[n]
}

// went ends a payload.
func (a *ages) went(p journal.Position) {
	if at, other := a.others[p]; other {
		delete(a.others, p)
		if a.times[at]--; a.times[at] == 0 {
			delete(a.times, at)
		}
		return
	}
	s := a.span(p)
	if s.left--; s.left > 0 {
		return
	}
	if a.empty++; a.empty > 64 && a.empty > len(a.spans)/2 {
		// What is accepted from now on is not in what they leave to those before them.
		a.spans = slices.DeleteFunc(a.spans, func(s span) bool { return s.left == 0 })
		a.empty = 0
	}
}

// oldest returns when the oldest payload was accepted, in Unix ns; 0: there is none.
func (a *ages) oldest() int64 {
	oldest := int64(math.MaxInt64)
	for _, s := range a.spans {
		if s.left > 0 {
			oldest = min(oldest, s.at)
		}
	}
	for at := range a.times {
		oldest = min(oldest, at)
	}
	if oldest == math.MaxInt64 {
		return 0
	}
	return oldest
}
