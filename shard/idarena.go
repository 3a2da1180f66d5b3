package shard

import "unsafe"

// idArena makes strings of the ids that are handed out, many in one allocation. One
// that stays keeps its neighbours in memory: so they are few, and a long one
// stands alone.
type idArena struct{ room []byte }

const (
	idsRoom = 512
	longID  = idsRoom / 8
)

func (s *idArena) clone(id []byte) string {
	if len(id) == 0 || len(id) > longID {
		return string(id)
	}
	if len(id) > len(s.room) {
		s.room = make([]byte, idsRoom)
	}
	n := copy(s.room, id)
	clone := unsafe.String(&s.room[0], n) // never written to again
	s.room = s.room[n:]
	return clone
}
