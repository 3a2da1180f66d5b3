package journal

import (
	"fmt"
	"maps"
	"slices"
)

// Moment is what a start would have found after one commit.
type Moment struct {
	Block uint64   // the newest block, 0 when there is none
	Next  Position // the next position
	At    int64    // when the block was begun, Unix ns; 0 when there is none

	live map[uint32][]Ref
}

func newMoment(v *View, l *Log) *Moment {
	m := &Moment{Next: v.tail.next}
	if n := len(v.blocks); n > 0 {
		m.Block, m.At = v.blocks[n-1].Seq, v.blocks[n-1].At
	}
	m.take(l.pending)
	return m
}

func (m *Moment) take(pending map[uint32][][]Ref) {
	m.live = make(map[uint32][]Ref, len(pending))
	for queue, pages := range pending {
		m.live[queue] = byPosition(slices.Concat(pages...))
	}
}

// Queues returns the numbers of the queues that have live entries, ascending.
func (m *Moment) Queues() []uint32 { return slices.Sorted(maps.Keys(m.live)) }

// Live returns the live entries of a queue in position order: what a start
// hands over for it.
func (m *Moment) Live(queue uint32) []Ref { return slices.Clone(m.live[queue]) }

// HistoryError says that the log does not tell what was asked for. Blocks leave
// it, the oldest first, when none of their entries is live.
type HistoryError struct {
	Asked       Position
	First, Last Position // what the log tells: the moments from First to Last
}

func (e *HistoryError) Error() string {
	if e.First > e.Last {
		return fmt.Sprintf("journal: the log does not go back to position %d: it tells only how it stands now, before position %d", e.Asked, e.First)
	}
	return fmt.Sprintf("journal: the log does not tell what was at position %d; it goes from position %d to %d", e.Asked, e.First, e.Last)
}

// At returns what a start would have found right after the commit that wrote
// position p. What else that commit wrote belongs to it: no start ever found
// half of a commit. It returns a [HistoryError] when the log does not go back
// that far, or not yet forward.
//
// Blocks that left the log before that moment are no obstacle, those that left
// it after are: what was live in them then is either seen to be carried into a
// younger block, or it is missing.
func (v *View) At(p Position) (*Moment, error) {
	exact, err := v.exactFrom()
	if err != nil {
		return nil, err
	}
	history := &HistoryError{Asked: p, First: v.tail.next, Last: v.tail.next - 1}
	for _, b := range v.blocks {
		if b.Seq < exact || b.First == b.Next {
			continue
		}
		history.First = min(history.First, b.First)
		if p >= b.First && p < b.Next {
			return v.after(b)
		}
	}
	return nil, history
}

// exactFrom returns the first block after whose commit everything that was live
// is known.
func (v *View) exactFrom() (seq uint64, err error) {
	if len(v.blocks) == 0 {
		return v.tail.oldest, nil
	}
	seq = v.blocks[0].Seq
	oldest := v.blocks[0].First
	known := make(map[Position]bool) // of older positions, those that the log has
	err = v.store.scan(func(at uint64, data []byte) error {
		h, err := parseHeader(data, at)
		if err != nil {
			return err
		}
		return h.scan(data, func(_ uint32, _ int, e *Entry) {
			if e.Position >= oldest || known[e.Position] {
				return
			}
			known[e.Position] = true
			if e.Restored {
				seq = at // carried, or from the morgue a moment ago
			}
		}, func(p Position) {
			if p < oldest && !known[p] {
				seq = at // ended here, and nothing tells what it was
			}
		})
	})
	return seq, v.disturbed(err)
}

// after replays the log up to a block that is exact.
func (v *View) after(last BlockInfo) (*Moment, error) {
	l := newLog(v.store, Config{}, true)
	r := newReading(l.settleIn)
	err := v.store.scan(func(seq uint64, data []byte) error {
		if seq > last.Seq {
			return nil
		}
		return r.block(seq, data)
	})
	if err == nil {
		r.load(l)
		err = v.carriedLater(l, r.survey, last)
	}
	if err = v.disturbed(err); err != nil {
		return nil, err
	}
	m := &Moment{Block: last.Seq, Next: last.Next, At: last.At}
	m.take(l.pending)
	return m, nil
}

// carriedLater adds what was live in blocks that have left the log since.
func (v *View) carriedLater(l *Log, s *survey, last BlockInfo) error {
	taken := make(map[Position]bool)
	return v.store.scan(func(seq uint64, data []byte) error {
		if seq <= last.Seq {
			return nil
		}
		h, err := parseHeader(data, seq)
		if err != nil {
			return err
		}
		var b *Block
		return h.scan(data, func(off uint32, size int, e *Entry) {
			_, known := s.latest[e.Position]
			if e.Position >= v.blocks[0].First || known || taken[e.Position] {
				return
			}
			taken[e.Position] = true
			if b == nil {
				b = &Block{seq: seq, first: h.first, base: h.base}
				b.home.Store(&home{data: append([]byte(nil), data[:headerSize+h.entries]...)})
			}
			l.pending[e.Queue] = append(l.pending[e.Queue], []Ref{{b, e.Position, off, uint32(size)}})
		}, nil)
	})
}
