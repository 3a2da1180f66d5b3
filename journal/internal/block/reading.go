package block

import (
	"cmp"
	"iter"
	"slices"

	"github.com/strandjobs/strand/journal/internal/format"
)

// Reading is a survey that keeps what it reads, so that a log is read, checked and
// decoded once. What turns out to have ended is in memory until Load: less than
// what is live and a little, because the log is trimmed to that.
type Reading struct {
	*Survey
	settle func(b *Block, data []byte) *blockData
	blocks []*Block
	refs   map[uint32]*refPages // by queue
}

// refPages grow without copying what they have.
type refPages struct {
	pages  [][]Ref
	n      int   // how many there are
	states []int // which of them are states of jobs, and no payloads
}

const refPage = 1 << 14

func (r *refPages) add(ref Ref, kind format.Kind) {
	if kind == format.KindState {
		r.states = append(r.states, r.n)
	}
	r.n++
	last := len(r.pages) - 1
	if last < 0 || len(r.pages[last]) == cap(r.pages[last]) {
		r.pages = append(r.pages, make([]Ref, 0, min(max(r.n, 2), refPage)))
		last++
	}
	r.pages[last] = append(r.pages[last], ref)
}

// NewReading begins to read a log. settle says where the entries of a block are from
// now on; its bytes are valid during the call.
func NewReading(settle func(*Block, []byte) *blockData) *Reading {
	return &Reading{Survey: NewSurvey(), settle: settle, refs: make(map[uint32]*refPages)}
}

// Block reads the next block.
func (r *Reading) Block(seq uint64, data []byte) error {
	b := &Block{Seq: seq, Size: len(data)}
	var pages *refPages // of the queue that the last entry belongs to
	var queue uint32
	h, err := r.visit(seq, data, func(off uint32, size int, e *format.Entry) {
		if pages == nil || e.Queue != queue {
			queue = e.Queue
			if pages = r.refs[queue]; pages == nil {
				pages = new(refPages)
				r.refs[queue] = pages
			}
		}
		pages.add(Ref{b, e.Position, off, uint32(size)}, e.Kind)
		b.Bytes += size
	})
	if err != nil {
		return err
	}
	b.First, b.Base, b.Count, b.Live = h.First, h.Base, h.Count, h.Count
	if b.Live > 0 {
		b.Home.Store(r.settle(b, data[:format.HeaderSize+h.Entries]))
	}
	r.blocks = append(r.blocks, b)
	return nil
}

// Load gives c the blocks that were read, and returns what of them is live, by
// queue, in pages and in position order.
func (r *Reading) Load(c *Chain) Pending {
	all := make(Pending)
	for queue, pages := range r.refs {
		if live := r.pending(pages.pages, pages.states); len(live.pages) > 0 {
			all[queue] = live
		}
	}
	r.refs = nil
	for _, b := range r.blocks {
		c.Admit(b)
	}
	return all
}

// pending returns what is live of some pages, in position order, and marks the
// rest in their blocks. The pages are used again. states says which are no payloads.
func (r *Reading) pending(pages [][]Ref, states []int) (live pendingOf) {
	sorted, last, n := true, format.Position(0), 0
	for _, page := range pages {
		kept := page[:0]
		for _, ref := range page {
			state := len(states) > 0 && states[0] == n
			if n++; state {
				states = states[1:]
			}
			if !r.Live(ref.pos, ref.Block.Seq) {
				ref.Block.mark(ref.Off, ref.Bytes)
				continue
			}
			sorted, last = sorted && ref.pos > last, ref.pos
			if kept = append(kept, ref); !state {
				live.payloads++
			}
		}
		if len(kept) > 0 {
			live.pages = append(live.pages, kept)
		}
	}
	if !sorted {
		live.pages = slices.Collect(slices.Chunk(byPosition(slices.Concat(live.pages...)), refPage))
	}
	return live
}

// byPosition sorts refs by position: carried entries stand in younger blocks than
// their neighbours.
func byPosition(refs []Ref) []Ref {
	slices.SortFunc(refs, func(a, b Ref) int { return cmp.Compare(a.pos, b.pos) })
	return refs
}

// Pending are the live entries of a log as it was read, by queue, in pages and in
// position order. The zero value has none.
type Pending map[uint32]pendingOf

// pendingOf are those of one queue.
type pendingOf struct {
	pages    [][]Ref
	payloads int // of them: the others are states of jobs
}

// Take hands over those of a queue.
func (p Pending) Take(queue uint32) [][]Ref {
	pages := p[queue].pages
	delete(p, queue)
	return pages
}

// Join adds to those of a queue what was another one's, of which so many are payloads.
func (p Pending) Join(queue uint32, refs []Ref, payloads int) {
	if len(refs) == 0 {
		return
	}
	all := slices.Concat(append(p[queue].pages, refs)...)
	p[queue] = pendingOf{slices.Collect(slices.Chunk(byPosition(all), refPage)), p[queue].payloads + payloads}
}

// First returns the first refs of a queue, n at most.
func (p Pending) First(queue uint32, n int) (refs []Ref) {
	for _, page := range p[queue].pages {
		if refs = append(refs, page[:min(len(page), n-len(refs))]...); len(refs) == n {
			break
		}
	}
	return refs
}

// Counts returns how many payloads of each queue were not handed over.
func (p Pending) Counts() map[uint32]int {
	counts := make(map[uint32]int, len(p))
	for queue, of := range p {
		counts[queue] = of.payloads
	}
	return counts
}

// Positions lists their positions.
func (p Pending) Positions() iter.Seq[format.Position] {
	return func(yield func(format.Position) bool) {
		for _, of := range p {
			for _, page := range of.pages {
				for _, r := range page {
					if !yield(r.pos) {
						return
					}
				}
			}
		}
	}
}
