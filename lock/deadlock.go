package lock

// deadlock returns the cycle that p, which stands in line, has closed, or nil.
//
// A place waits, in each of its lines, for the lease that has the key and for those
// in front of it. A search goes along these arrows from p; it is over when it comes back
// to the owner. Spots in front of places for one key only add nothing to what has the
// key, except when they are the owner's own, so a line is walked only when it has a wide
// place in it, or when the owner waits elsewhere too: 10,000 places on one key cost one
// step each to check, not 10,000.
//
// This search is for programs that use a table by hand: it sees one table. Package
// executor has a search of its own, over all that a job can wait for; its jobs ask a
// table once, for all their keys, so that none of them closes a cycle here.
//
// An expired lease would open a cycle by itself; it is refused all the same, since
// no owner in it could do anything else.
func (g *engine) deadlock(p *Place) []Hop {
	if p.owner == "" {
		return nil
	}
	first := g.waiting[p.owner]
	s := search{engine: g, target: p.owner, walk: first != p || p.next != nil, seen: map[string]bool{}}
	if !s.waits(p) {
		return nil
	}
	for i := range s.way {
		s.way[i].Holder = s.way[(i+1)%len(s.way)].Owner
	}
	return s.way
}

// search is a depth-first search for a way from an owner back to itself.
type search struct {
	engine *engine
	target string
	walk   bool            // the target waits elsewhere: look for it in every line
	seen   map[string]bool // owners whose places were followed
	way    []Hop           // so far; each Holder is the next Owner
}

// waits searches on from what p waits for; true: it is back at the target.
func (s *search) waits(p *Place) bool {
	for i := range p.spots {
		if s.key(p, p.spots[i].entry, p.spots[i].prev) {
			return true
		}
	}
	return false
}

// key follows what p waits for at e, where it stands behind last.
func (s *search) key(p *Place, e *entry, last *node[*Place]) bool {
	if e.lease != nil && s.hop(p, e, e.lease.owner) {
		return true
	}
	others := e.wide
	if len(p.spots) > 1 {
		others-- // p itself
	}
	if others == 0 && !s.walk {
		return false
	}
	for ; last != nil; last = last.prev {
		if s.hop(p, e, last.value.owner) {
			return true
		}
	}
	return false
}

// hop follows holder, for whom p waits at e, and what it waits for itself.
func (s *search) hop(p *Place, e *entry, holder string) bool {
	if holder == "" || s.seen[holder] {
		return false
	}
	s.way = append(s.way, Hop{Owner: p.owner, Key: e.key})
	if holder == s.target {
		return true
	}
	s.seen[holder] = true
	for next := s.engine.waiting[holder]; next != nil; next = next.next {
		if s.waits(next) {
			return true
		}
	}
	s.way = s.way[:len(s.way)-1]
	return false
}
