package shard

import (
	"bytes"
	"hash/maphash"

	"github.com/strandjobs/strand/journal"
)

// Payload is one accepted payload of an id.
type Payload struct {
	Score float64
	Ref   journal.Ref
}

// before is the order in which payloads reach the handler.
func (p Payload) before(q Payload) bool {
	return p.Score < q.Score || (p.Score == q.Score && p.Ref.Position() < q.Ref.Position())
}

// lane is one id that has something to do. There may be millions: what only
// few of them need stands behind a pointer.
type lane struct {
	id    string
	due   int64 // Unix ns; of the payloads that wait
	item  *Item // where its payloads are handed out; nil while all of them wait
	one   Payload
	bag   *bag  // the waiting payloads when they are more than one; one is unused then
	past  *past // nil until a state is written
	retry int32 // −1 new, 0 failed once, …
	turn  uint32
	n     int32 // payloads that wait, without held ones

	queued   bool // the due queue has a valid entry, the one with this turn
	halted   bool
	unpinned bool // its due time has to be written down when that is possible
	loose    bool // Loaded has to look at it again
}

// past is what a job remembers of its runs.
type past struct {
	state   journal.Ref // the state in the log that describes it, if any
	pending int         // 1 + index of a newer state in the change that gathers
	err     string      // the last error
	// held are failed payloads under BlockFailed, in order; they run alone.
	// What waits behind them has its own due time, see over.
	held []Payload
}

// bag holds many payloads of one id.
type bag struct {
	order timeline[*hashed]
	// index finds the payload with equal bytes. Nil under KeepAll.
	index map[uint64]*hashed
	gone  int      // payloads in order that are gone
	slab  []hashed // not used yet
}

// hashed is a payload with the hash of its bytes.
type hashed struct {
	Payload
	hash uint64
	// alone: another payload has the same hash and different bytes, so this one
	// is not in the index.
	alone bool
	// gone: another payload has replaced this one. Taking it out of the order
	// would cost a search; when most are gone, all of these go.
	gone bool
}

func (h *hashed) before(o *hashed) bool { return h.Payload.before(o.Payload) }

var hashSeed = maphash.MakeSeed()

// add puts a payload with the given bytes among those that wait. When one with
// equal bytes is there, only one of them stays, and the other is returned.
func (l *lane) add(m Merge, p Payload, data []byte) (kept Payload, ended journal.Ref) {
	if l.n == 0 {
		l.one, l.n = p, 1
		return p, journal.Ref{}
	}
	if l.bag == nil {
		if m != KeepAll && sameBytes(l.one, data) {
			if replaces(m, p, l.one) {
				l.one, p = p, l.one
			}
			return l.one, p.Ref
		}
		l.openBag(m)
	}
	kept, ended = l.bag.add(m, p, data)
	if ended.IsZero() {
		l.n++
	}
	return kept, ended
}

// replaces reports whether p stays rather than old, which has equal bytes.
func replaces(m Merge, p, old Payload) bool {
	switch m {
	case KeepFirst:
		return p.Ref.Position() < old.Ref.Position()
	case KeepLast:
		return p.Ref.Position() > old.Ref.Position()
	}
	return p.before(old)
}

func sameBytes(p Payload, data []byte) bool {
	var e journal.Entry
	p.Ref.Read(&e)
	return bytes.Equal(e.Payload, data)
}

func (l *lane) openBag(m Merge) {
	l.bag = new(bag)
	if m != KeepAll {
		l.bag.index = make(map[uint64]*hashed)
	}
	var e journal.Entry
	l.one.Ref.Read(&e)
	l.bag.add(m, l.one, e.Payload)
	l.one = Payload{}
}

func (b *bag) add(m Merge, p Payload, data []byte) (kept Payload, ended journal.Ref) {
	if m == KeepAll {
		b.order.push(b.newHashed(p, 0))
		return p, journal.Ref{}
	}
	hash := maphash.Bytes(hashSeed, data)
	old := b.index[hash]
	alone := old != nil && !sameBytes(old.Payload, data)
	if old != nil && !alone {
		if !replaces(m, p, old.Payload) {
			return old.Payload, p.Ref
		}
		ended = old.Ref
		b.forget(old)
	}
	h := b.newHashed(p, hash)
	b.order.push(h)
	if h.alone = alone; !alone {
		b.index[hash] = h
	}
	return p, ended
}

func (b *bag) newHashed(p Payload, hash uint64) *hashed {
	if len(b.slab) == 0 {
		b.slab = make([]hashed, min(max(b.order.len(), 2), slabSize))
	}
	h := &b.slab[0]
	b.slab = b.slab[1:]
	h.Payload, h.hash = p, hash
	return h
}

// forget drops a payload from the order, sooner or later.
func (b *bag) forget(h *hashed) {
	h.gone = true
	b.gone++
	if b.gone > slabSize && b.gone > b.order.len()/2 {
		b.order.keep(func(h *hashed) bool { return !h.gone })
		b.gone = 0
	}
}

// take removes the first payload of those that wait; there is one.
func (l *lane) take() Payload {
	l.n--
	if l.bag == nil {
		p := l.one
		l.one = Payload{}
		return p
	}
	p := l.bag.take()
	if l.n == 0 {
		l.bag = nil
	}
	return p
}

func (b *bag) take() Payload {
	b.first()
	h := b.order.pop()
	if b.index != nil && !h.alone {
		delete(b.index, h.hash)
	}
	return h.Payload
}

// first returns the payload that take would return.
func (l *lane) first() Payload {
	if l.bag == nil {
		return l.one
	}
	return l.bag.first()
}

func (b *bag) first() Payload {
	for {
		h := *b.order.first()
		if !h.gone {
			return h.Payload
		}
		b.gone--
		b.order.pop()
	}
}

func (l *lane) holds() bool { return l.past != nil && len(l.past.held) > 0 }

// empty reports whether nothing waits.
func (l *lane) empty() bool { return l.n == 0 && !l.holds() }

// hasState reports whether the log has, or is about to have, a state of the job.
func (l *lane) hasState() bool {
	return l.past != nil && (!l.past.state.IsZero() || l.past.pending > 0)
}

func (l *lane) remember() *past {
	if l.past == nil {
		l.past = new(past)
	}
	return l.past
}
