package journal

import (
	"cmp"
	"slices"
)

// reading is a survey that keeps what it reads, so that a log is read, checked
// and decoded once. What turns out to have ended is in memory until load: less
// than what is live and a little, because the log is trimmed to that.
type reading struct {
	*survey
	settle func(b *Block, data []byte) *home
	blocks []*Block
	refs   map[uint32]*refList // by queue
	header header              // of the last block
}

// refList grows without copying what it has.
type refList struct {
	full [][]Ref
	last []Ref
}

const refListPage = 1 << 10

func (r *refList) add(ref Ref) {
	if len(r.last) == cap(r.last) {
		if len(r.last) > 0 {
			r.full = append(r.full, r.last)
		}
		r.last = make([]Ref, 0, min(max(2*cap(r.last), 16), refListPage))
	}
	r.last = append(r.last, ref)
}

func (r *refList) len() int {
	n := len(r.last)
	for _, page := range r.full {
		n += len(page)
	}
	return n
}

func newReading(settle func(*Block, []byte) *home) *reading {
	return &reading{survey: newSurvey(), settle: settle, refs: make(map[uint32]*refList)}
}

// block takes in the next block.
func (r *reading) block(seq uint64, data []byte) error {
	b := &Block{seq: seq, size: len(data)}
	var list *refList // of the queue that the last entry belongs to
	var queue uint32
	h, err := r.visit(seq, data, func(off uint32, size int, e *Entry) {
		if list == nil || e.Queue != queue {
			list, queue = r.list(e.Queue), e.Queue
		}
		list.add(Ref{b, e.Position, off, uint32(size)})
		b.bytes += size
	})
	if err != nil {
		return err
	}
	r.header = h
	b.first, b.base, b.count, b.live = h.first, h.base, h.count, h.count
	if b.live > 0 {
		b.home.Store(r.settle(b, data[:headerSize+h.entries]))
	}
	r.blocks = append(r.blocks, b)
	return nil
}

func (r *reading) list(queue uint32) *refList {
	list := r.refs[queue]
	if list == nil {
		list = new(refList)
		r.refs[queue] = list
	}
	return list
}

// load gives l what was read: the blocks, and what of them is live as pending.
func (r *reading) load(l *Log) {
	for queue, list := range r.refs {
		if refs := r.pending(list); len(refs) > 0 {
			l.pending[queue] = refs
		}
	}
	r.refs = nil
	for _, b := range r.blocks {
		l.admit(b)
	}
}

// pending returns what is live of a list in position order, and marks the rest
// in their blocks.
func (r *reading) pending(list *refList) []Ref {
	refs := make([]Ref, 0, list.len())
	// One by one: a goroutine that copies whole pages can seldom be preempted,
	// and makes the collector wait.
	for _, page := range append(list.full, list.last) {
		for _, ref := range page {
			if r.live(ref.pos, ref.block.seq) {
				refs = append(refs, ref)
			} else {
				ref.block.mark(ref.off, ref.size)
			}
		}
	}
	// Carried entries stand in younger blocks than their neighbours.
	byPosition := func(a, b Ref) int { return cmp.Compare(a.pos, b.pos) }
	if !slices.IsSortedFunc(refs, byPosition) {
		slices.SortFunc(refs, byPosition)
	}
	return refs
}
