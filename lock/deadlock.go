package lock

// circleLocked returns the circle that would be closed if owner queued for keys now, or nil.
//
// An owner waits, through each of its places, for the holder of each key and for those in front of it in the queue. A
// search goes along these arrows from the new place; it is over when it comes back to owner. Places in front that
// wait for this one key only add nothing to what its holder says, except when they are the owner's own, so a queue is
// walked only when it has a wide place in it, or when owner waits elsewhere too: 10,000 waiters on one key cost one
// step each to check, not 10,000.
//
// An expired lease would open a circle by itself; it is refused all the same, since nobody in it could do anything
// else.
func (t *Table) circleLocked(owner string, keys []string) []Hop {
	if owner == "" {
		return nil
	}
	s := search{table: t, target: owner, walk: len(t.waiting[owner]) > 0, seen: map[string]bool{}}
	for _, key := range keys {
		if e := t.entries[key]; e != nil && s.entry(owner, e, e.tail) {
			return s.circle
		}
	}
	return nil
}

// search is a depth-first search for a way from an owner back to the target.
type search struct {
	table  *Table
	target string
	walk   bool            // the target waits somewhere: look for it in every queue
	seen   map[string]bool // owners whose places were followed
	circle []Hop           // the way so far
}

// entry follows what owner waits for at e, standing behind last.
func (s *search) entry(owner string, e *entry, last *spot) bool {
	if e.holder != nil && s.hop(owner, e, e.holder.owner) {
		return true
	}
	if e.wide == 0 && !s.walk {
		return false
	}
	for ; last != nil; last = last.prev {
		if s.hop(owner, e, last.place.opt.Owner) {
			return true
		}
	}
	return false
}

// hop follows holder, for whom owner waits at e, and what it waits for itself.
func (s *search) hop(owner string, e *entry, holder string) bool {
	if holder == "" || s.seen[holder] {
		return false
	}
	s.circle = append(s.circle, Hop{owner, e.key, holder})
	if holder == s.target {
		return true
	}
	s.seen[holder] = true
	for _, p := range s.table.waiting[holder] {
		for i := range p.spots {
			if s.entry(holder, p.spots[i].entry, p.spots[i].prev) {
				return true
			}
		}
	}
	s.circle = s.circle[:len(s.circle)-1]
	return false
}
