package shard

// What a job needs is not in the cache when the backlog is large, and to wait for
// one load after the other is what it costs most then. Loads that don't depend
// on each other go on at the same time: so those of a whole run come first.

// prefetchIDs loads what handing out up to n lanes that stand in line begins
// with: their ids, which are beside their payloads.
func (c *Core) prefetchIDs(now int64, n int) {
	var sum byte
	for next := c.due.first; next != 0 && n > 0; n-- {
		l := c.lanes.at(next)
		if l.due > now {
			break
		}
		if !l.one.Ref.IsZero() {
			sum += l.one.Ref.Prefetch()
		}
		next = l.next
	}
	c.prefetched += uint(sum)
}

// Prefetch loads what taking in an entry of an id begins with.
func (c *Core) Prefetch(id []byte) { c.prefetched += uint(c.lanes.byID.prefetch(hashOf(id))) }

// prefetchSlots loads what dropping the lanes of a run begins with.
func (c *Core) prefetchSlots(r *Run) {
	var sum number
	for i := range r.Items {
		sum += c.lanes.byID.prefetch(r.Items[i].hash)
	}
	c.prefetched += uint(sum)
}
