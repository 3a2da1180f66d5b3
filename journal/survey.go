package journal

import "fmt"

// positionSet is a set of positions that takes memory only around those it
// holds: a job that waits for a year keeps old positions in use. Pages are small,
// because a file that was made to do harm has a mark of three bytes on each.
type positionSet map[Position]*[positionPage / 64]uint64

const positionPage = 1 << 9

func (s positionSet) add(p Position) {
	page := s[p/positionPage]
	if page == nil {
		page = new([positionPage / 64]uint64)
		s[p/positionPage] = page
	}
	page[p%positionPage/64] |= 1 << (p % 64)
}

func (s positionSet) remove(p Position) {
	if page := s[p/positionPage]; page != nil {
		page[p%positionPage/64] &^= 1 << (p % 64)
	}
}

func (s positionSet) has(p Position) bool {
	page := s[p/positionPage]
	return page != nil && page[p%positionPage/64]&(1<<(p%64)) != 0
}

// survey reads a log: it checks every block and finds out which positions
// ended.
type survey struct {
	ended positionSet
	// latest tells for a position that was written more than once, because it
	// was carried or restored, which block counts.
	latest map[Position]uint64
	oldest uint64 // sequence of the first block
	newest uint64 // and of the last one, 0 when there is none
	next   Position
}

func newSurvey() *survey {
	return &survey{ended: positionSet{}, latest: map[Position]uint64{}}
}

func (s *survey) block(seq uint64, data []byte) error {
	_, err := s.visit(seq, data, func(uint32, int, *Entry) {})
	return err
}

// visit is block that calls entry for each entry with its offset and size.
func (s *survey) visit(seq uint64, data []byte, entry func(off uint32, size int, e *Entry)) (h header, err error) {
	if s.newest != 0 && seq != s.newest+1 {
		return h, &CorruptError{Block: s.newest + 1, Offset: -1, Reason: fmt.Sprintf("missing; block %d follows %d", seq, s.newest)}
	}
	if h, err = parseHeader(data, seq); err != nil {
		return h, err
	}
	if s.newest == 0 {
		s.oldest, s.next = seq, h.first
	}
	s.newest = seq
	if h.first != s.next {
		return h, &CorruptError{Block: seq, Offset: -1, Reason: fmt.Sprintf("begins at position %d, want %d", h.first, s.next)}
	}
	return h, h.scan(data, func(off uint32, size int, e *Entry) {
		entry(off, size, e)
		if e.Position < h.first { // carried or restored
			s.latest[e.Position] = seq
			s.ended.remove(e.Position)
			return
		}
		s.next = e.Position + 1
	}, s.ended.add)
}

// finish compares what was found with where the log says that it begins and
// ends.
func (s *survey) finish(t tail) error {
	missing := func(seq uint64, why string, args ...any) error {
		return &CorruptError{Block: seq, Offset: -1, Reason: "missing; " + fmt.Sprintf(why, args...)}
	}
	switch {
	case s.newest == 0 && t.oldest > t.seq:
		return nil
	case s.newest == 0:
		return missing(t.oldest, "the log has no blocks")
	case s.oldest != t.oldest:
		return missing(t.oldest, "the log begins at block %d", s.oldest)
	case s.newest != t.seq:
		return missing(t.seq, "the log ends at block %d", s.newest)
	case s.next != t.next:
		return &CorruptError{Block: s.newest, Offset: -1, Reason: fmt.Sprintf("ends before position %d, the log before %d", s.next, t.next)}
	}
	return nil
}

// live reports whether the entry at p in block seq has not ended and has not
// been written again since.
func (s *survey) live(p Position, seq uint64) bool {
	if s.ended.has(p) {
		return false
	}
	latest, moved := s.latest[p]
	return !moved || latest == seq
}
