package rest

import (
	"maps"
	"slices"

	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/format"
)

// Moment is what a start of the journal would find.
type Moment struct {
	Block uint64          // the newest block, 0 when there is none
	Next  format.Position // the next position
	At    int64           // when the block was begun, Unix ns; 0 when there is none

	live map[uint32][]block.Ref
}

func newMoment(v *View, pending map[uint32][][]block.Ref) *Moment {
	m := &Moment{Next: v.manifest.Next}
	if n := len(v.blocks); n > 0 {
		m.Block, m.At = v.blocks[n-1].Seq, v.blocks[n-1].At
	}
	m.live = make(map[uint32][]block.Ref, len(pending))
	for queue, pages := range pending {
		m.live[queue] = slices.Concat(pages...)
	}
	return m
}

// Queues returns the numbers of the queues that have live entries, ascending.
func (m *Moment) Queues() []uint32 { return slices.Sorted(maps.Keys(m.live)) }

// Live returns the live entries of a queue in position order: what a start
// hands over for it.
func (m *Moment) Live(queue uint32) []block.Ref { return slices.Clone(m.live[queue]) }
