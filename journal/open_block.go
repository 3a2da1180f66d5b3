package journal

import (
	"slices"

	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// openBlock is the block that appends go to. It is guarded by Log.mu until it
// is sealed; then it belongs to the committer.
type openBlock struct {
	block.Writer
	commit *commit

	deliveries []*Delivery // by route; nil where there is none
	routes     []uint32    // routes in use, in order of first use

	// posted are the entries whose appender does not wait: for each offset, that
	// of the first entry of the same call. Nil when there are none.
	posted map[uint32]uint32

	recorded []uint32 // offsets of follow-ups and of what was rewritten, ascending

	changes  []format.Edit // of side buckets
	restored []format.Edit // of the morgue, undone when the block is refused

	cuts    []cut      // after each call of Record
	carried int        // length of entries before those that were carried here
	calls   int        // of Append, whose callers wait
	refused bool       // its appenders were sent away: only results are to be written
	final   bool       // the last one: no room is waited for
	room    store.Room // that the disk had when it was sealed

	transaction store.Transaction // what it is written with
}

// cut is a place where a block can be cut in two, because a call ended there.
type cut struct{ entries, marks, changes int }

func (b *openBlock) cut() cut { return cut{len(b.Entries), len(b.Marks), len(b.changes)} }

// newOpenBlock begins the block after t, in place of an older one that the committer is
// through with, and with its buffers; nil for none.
func newOpenBlock(old *openBlock, t format.Manifest) *openBlock {
	c := &commit{first: t.Next, done: make(chan struct{})}
	if old == nil {
		return &openBlock{Writer: block.NewWriter(nil, t), commit: c}
	}
	*old = openBlock{
		Writer:     block.NewWriter(&old.Writer, t),
		commit:     c,
		deliveries: old.deliveries,
		routes:     old.routes[:0],
		changes:    old.changes[:0],
		restored:   old.restored[:0],
		cuts:       old.cuts[:0],
		recorded:   old.recorded[:0],
	}
	clear(old.deliveries)
	return old
}

func (b *openBlock) empty() bool {
	return b.Size() == format.HeaderSize && len(b.changes)+len(b.restored) == 0
}

// pends reports whether something in it waits for its commit.
func (b *openBlock) pends() bool { return len(b.routes)+len(b.changes)+len(b.restored) > 0 }

// keep notes that the entry at off stays when the block is refused, together
// with the others of its call, which begins at offset call.
func (b *openBlock) keep(off, call uint32) {
	if b.posted == nil {
		b.posted = make(map[uint32]uint32)
	}
	b.posted[off] = call
}

// route notes that the entry at off is to be delivered to route, and returns
// what is to hold it.
func (b *openBlock) route(route, off uint32) *Delivery {
	for int(route) >= len(b.deliveries) {
		b.deliveries = append(b.deliveries, nil)
	}
	d := b.deliveries[route]
	if d == nil {
		d = newDelivery(b.Block, route)
		d.commit, d.taken = b.commit, make(chan struct{})
		b.deliveries[route] = d
		b.routes = append(b.routes, route)
	}
	d.offsets = append(d.offsets, off)
	return d
}

// stays reports whether the entry at off, which is no state, came with a call of Record: no
// full disk refuses it.
func (b *openBlock) stays(off uint32) bool {
	_, found := slices.BinarySearch(b.recorded, off)
	return found
}

// disown takes out the changes that belong to entries, and shows those that
// stay, in their order.
func (b *openBlock) disown(stays, out func(format.Edit)) {
	kept, cuts := b.changes[:0], b.cuts
	for i, c := range b.changes {
		for len(cuts) > 0 && cuts[0].changes == i {
			cuts[0].changes = len(kept)
			cuts = cuts[1:]
		}
		if c.Owner == 0 {
			kept = append(kept, c)
			stays(c)
		} else {
			out(c)
		}
	}
	for i := range cuts {
		cuts[i].changes = len(kept)
	}
	b.changes = kept
}

// weight is about what the block takes on disk, with its changes.
func (b *openBlock) weight() int { return b.Size() + weigh(b.changes) + weigh(b.restored) }

// weigh counts, beside key and value of a change, a part of the page that is written
// again for it.
func weigh(changes []format.Edit) (n int) {
	for _, c := range changes {
		n += 1<<10 + len(c.Key) + len(c.Value)
	}
	return n
}
