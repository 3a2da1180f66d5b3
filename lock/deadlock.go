package lock

// deadlock returns the cycle that w, who stands in line, has closed, or nil.
//
// A lease waits, through each of its spots, for the lease that has the key and for those
// in front of it. A search goes along these arrows from w; it is over when it comes back
// to the owner. Spots in front of waiters for one key only add nothing to what has the
// key, except when they are the owner's own, so a line is walked only when it has a wide
// waiter in it, or when the owner waits elsewhere too: 10,000 waiters on one key cost one
// step each to check, not 10,000. What jobs wait for is not looked at: an executor knows
// of more than keys.
//
// An expired lease would open a cycle by itself; it is refused all the same, since
// no owner in it could do anything else.
func (g *engine) deadlock(w *waiter) []Hop {
	if w.owner == (Owner{}) {
		return nil
	}
	first := g.waiting[w.owner]
	s := search{engine: g, target: w.owner, walk: first != nil && (first != w || w.next != nil), seen: map[Owner]bool{}}
	if !s.waits(w) {
		return nil
	}
	cycle := make([]Hop, len(s.way))
	for i, hop := range s.way {
		cycle[i] = Hop{hop.by.String(), hop.key, s.way[(i+1)%len(s.way)].by.String()}
	}
	return cycle
}

// search is a depth-first search for a way from an owner back to itself.
type search struct {
	engine *engine
	target Owner
	walk   bool           // the target waits elsewhere: look for it in every line
	seen   map[Owner]bool // owners whose waiters were followed
	way    []hop          // so far
}

// hop is who waits for a key, which the next one has.
type hop struct {
	by  Owner
	key string
}

// waits follows what w waits for.
func (s *search) waits(w *waiter) bool {
	for i := range w.spots {
		if s.key(w, w.spots[i].entry, w.spots[i].prev) {
			return true
		}
	}
	return false
}

// key follows what w waits for at e, where it stands behind last.
func (s *search) key(w *waiter, e *entry, last *node[*waiter]) bool {
	if e.lease != nil && s.hop(w, e, e.lease.by()) {
		return true
	}
	others := e.wide
	if len(w.spots) > 1 {
		others-- // w itself
	}
	if others == 0 && !s.walk {
		return false
	}
	for ; last != nil; last = last.prev {
		if front := last.value; front.job == nil && s.hop(w, e, front.owner) {
			return true
		}
	}
	return false
}

// hop follows holder, for whom w waits at e, and what it waits for itself.
func (s *search) hop(w *waiter, e *entry, holder Owner) bool {
	if holder == (Owner{}) || s.seen[holder] {
		return false
	}
	s.way = append(s.way, hop{w.owner, e.key})
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
