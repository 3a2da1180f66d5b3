package shard

import (
	"bytes"
	"iter"
	"slices"

	"github.com/strandjobs/strand/journal"
)

// bag holds the payloads that wait for one id, where they are several.
type bag struct {
	order timeline[*hashed]
	// index finds payloads by the hash of their bytes. Nil under MergeKeepAll.
	index *table[*hashed]
	gone  int      // payloads in order that are gone
	due   int64    // no payload was accepted with a later due time
	slab  []hashed // room that no payload has yet

	folding *folding // nil: nothing is folded
}

// hashed is a payload with the hash of its bytes.
type hashed struct {
	Payload
	hash uint32
	// gone: another payload has replaced this one. Taking it out of the order
	// would cost a search; when most are gone, all of these go.
	gone bool
}

func (h *hashed) before(o *hashed) bool { return h.Payload.before(o.Payload) }

// add puts a payload with the given bytes among those that wait. When one with
// equal bytes is there, only one of them stays, and the other is returned.
func (l *lane) add(r *entryReader, m Merge, p Payload, data []byte) (kept Payload, ended journal.Ref) {
	if l.n() == 0 {
		l.one = p
		return p, journal.Ref{}
	}
	if l.bag() == nil {
		if m != MergeKeepAll && sameBytes(r, l.one, data) {
			if replaces(m, p, l.one) {
				l.one, p = p, l.one
			}
			return l.one, p.Ref
		}
		b := new(bag)
		if m != MergeKeepAll {
			b.index = new(table[*hashed])
		}
		var e journal.Entry
		r.read(l.one.Ref, &e)
		b.due = e.Due
		b.add(r, m, l.one, e.Payload)
		l.more().bag, l.one = b, Payload{}
	}
	return l.bag().add(r, m, p, data)
}

func (b *bag) add(r *entryReader, m Merge, p Payload, data []byte) (kept Payload, ended journal.Ref) {
	if m == MergeKeepAll {
		b.order.push(b.newHashed(p, 0))
		return p, journal.Ref{}
	}
	hash := hashOf(data)
	if old := b.index.find(hash, func(h *hashed) bool { return sameBytes(r, h.Payload, data) }); old != nil {
		if !replaces(m, p, old.Payload) {
			return old.Payload, p.Ref
		}
		ended = old.Ref
		b.index.remove(hash, old)
		b.forget(old)
	}
	h := b.newHashed(p, hash)
	b.order.push(h)
	b.index.insert(hash, h)
	return p, ended
}

// len returns the number of payloads that are not gone.
func (b *bag) len() int { return b.order.len() - b.gone }

// slabSize is how many payloads a bag makes room for at once, at most.
const slabSize = 64

func (b *bag) newHashed(p Payload, hash uint32) *hashed {
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

func (b *bag) take() Payload {
	b.first()
	h := b.order.pop()
	if b.index != nil {
		b.index.remove(h.hash, h)
	}
	return h.Payload
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

// takeOut takes payloads out of a bag, in order.
func (b *bag) takeOut(means func(Payload) bool) (out []Payload) {
	if b.folding != nil {
		b.folding.fold = nil // it may be about one of them
	}
	var found []*hashed
	for h := range b.order.all {
		if !h.gone && means(h.Payload) {
			found = append(found, h)
		}
	}
	for _, h := range found {
		out = append(out, h.Payload)
		if b.index != nil {
			b.index.remove(h.hash, h)
		}
		b.forget(h)
	}
	slices.SortFunc(out, compare[Payload])
	return out
}

// detailLooks bounds how many payloads of a job are looked at for each that is shown:
// some are gone, and only wait to be swept up.
const detailLooks = 16

// some returns the first n payloads, or a few less if most of those that are looked
// at are gone.
func (b *bag) some(n int) (list []Payload) {
	for _, inOrder := range [...]iter.Seq[*hashed]{slices.Values(b.order.inOrder.values()), b.order.heap.inOrder} {
		most, looks := len(list)+n, n*detailLooks
		for h := range inOrder {
			if !h.gone {
				list = append(list, h.Payload)
			}
			if looks--; len(list) >= most || looks <= 0 {
				break
			}
		}
	}
	slices.SortFunc(list, compare[Payload])
	return list[:max(min(len(list), n), 0)]
}

// Merge says what becomes of two payloads of one waiting id with equal bytes.
// Only equal payloads are merged, but for MergeSupersede.
type Merge uint8

const (
	MergeKeepAll   Merge = iota
	MergeMinScore        // keeps the one with the lower score, of equal ones the earlier: Lowkiq's set
	MergeKeepFirst       // keeps the one that was accepted first, whatever the scores
	MergeKeepLast        // keeps the one that was accepted last, whatever the scores
	// MergeSupersede keeps the newest, whatever the bytes: the one with the highest
	// score, and of equal scores, or where one has none, the one that was accepted last. It is not about what
	// waits alone: see the package comment. It is without Block, and a run
	// has one payload of an id. Neither with DuePull, DuePush, Pull nor Fold.
	MergeSupersede
)

// replaces reports whether p stays rather than old, which has equal bytes.
func replaces(m Merge, p, old Payload) bool {
	switch m {
	case MergeKeepFirst:
		return p.Ref.Position() < old.Ref.Position()
	case MergeKeepLast:
		return p.Ref.Position() > old.Ref.Position()
	}
	return p.before(old)
}

func sameBytes(r *entryReader, p Payload, data []byte) bool {
	var e journal.Entry
	return r.read(p.Ref, &e) && bytes.Equal(e.Payload, data)
}
