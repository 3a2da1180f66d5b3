package block

import "github.com/strandjobs/strand/journal/internal/format"

// PositionSet is a set of positions that takes memory only around those it
// holds: a job that waits for a year keeps old positions in use. Pages are small,
// because in a hostile file each mark, of three bytes, may be on a page of its own.
type PositionSet map[format.Position]*[positionPage / 64]uint64

const positionPage = 1 << 9

// Add puts p into the set.
func (s PositionSet) Add(p format.Position) {
	page := s[p/positionPage]
	if page == nil {
		page = new([positionPage / 64]uint64)
		s[p/positionPage] = page
	}
	page[p%positionPage/64] |= 1 << (p % 64)
}

func (s PositionSet) remove(p format.Position) {
	if page := s[p/positionPage]; page != nil {
		page[p%positionPage/64] &^= 1 << (p % 64)
	}
}

// Has reports whether p is in the set.
func (s PositionSet) Has(p format.Position) bool {
	page := s[p/positionPage]
	return page != nil && page[p%positionPage/64]&(1<<(p%64)) != 0
}

// Survey reads a log: it checks every block and finds out which positions ended.
type Survey struct {
	Ended PositionSet
	// Latest tells for a position that was written more than once, because it
	// was carried or restored, which block counts.
	Latest map[format.Position]uint64
	oldest uint64 // sequence of the first block
	Newest uint64 // and of the last one, 0 when there is none
	Next   format.Position
	Header format.Header // of the last block
}

// NewSurvey begins with any block.
func NewSurvey() *Survey { return &Survey{Ended: PositionSet{}, Latest: map[format.Position]uint64{}} }

// Block takes in the next block.
func (s *Survey) Block(seq uint64, data []byte) error {
	_, err := s.visit(seq, data, func(uint32, int, *format.Entry) {})
	return err
}

// visit is Block that calls entry for each entry with its offset and size.
func (s *Survey) visit(seq uint64, data []byte, entry func(off uint32, size int, e *format.Entry)) (h format.Header, err error) {
	if s.Newest != 0 && seq != s.Newest+1 {
		return h, format.DamagedBlock(s.Newest+1, "missing; block %d follows %d", seq, s.Newest)
	}
	if h, err = format.ParseHeader(data, seq); err != nil {
		return h, err
	}
	s.Header = h
	if s.Newest == 0 {
		s.oldest, s.Next = seq, h.First
	}
	s.Newest = seq
	if h.First != s.Next {
		return h, format.DamagedBlock(seq, "begins at position %d, want %d", h.First, s.Next)
	}
	return h, h.Scan(data, func(off uint32, size int, e *format.Entry) {
		entry(off, size, e)
		if e.Position < h.First { // carried or restored
			s.Latest[e.Position] = seq
			s.Ended.remove(e.Position)
			return
		}
		s.Next = e.Position + 1
	}, s.Ended.Add)
}

// Finish compares what was found with where the log says that it begins and ends.
func (s *Survey) Finish(t format.Manifest) error {
	switch {
	case s.Newest == 0 && t.Oldest > t.Seq:
		return nil
	case s.Newest == 0:
		return format.DamagedBlock(t.Oldest, "missing; the log has no blocks")
	case s.oldest != t.Oldest:
		return format.DamagedBlock(t.Oldest, "missing; the log begins at block %d", s.oldest)
	case s.Newest != t.Seq:
		return format.DamagedBlock(t.Seq, "missing; the log ends at block %d", s.Newest)
	case s.Next != t.Next:
		return format.DamagedBlock(s.Newest, "ends before position %d, the log before %d", s.Next, t.Next)
	}
	return nil
}

// Surviving returns how many entries of a block are live, and their bytes, when all of
// the log was read.
func (s *Survey) Surviving(seq uint64, data []byte) (live, bytes int, err error) {
	h, err := format.ParseHeader(data, seq)
	if err != nil {
		return 0, 0, err
	}
	err = h.Scan(data, func(_ uint32, size int, e *format.Entry) {
		if s.Live(e.Position, seq) {
			live++
			bytes += size
		}
	}, nil)
	return live, bytes, err
}

// Live reports whether the entry at p in block seq has not ended and has not
// been written again since.
func (s *Survey) Live(p format.Position, seq uint64) bool {
	if s.Ended.Has(p) {
		return false
	}
	latest, moved := s.Latest[p]
	return !moved || latest == seq
}
