package shard

// What a job needs is not in the cache when the backlog is large, and to wait for
// one load after the other is what it costs most then. Loads that don't depend
// on each other go on at the same time: so those of a whole run come first, and
// those of several entries that arrive. Without that, draining 10⁶ ids takes half as
// much processor time again, twice as much if they are due in another order than
// they came in; draining 10⁶ payloads of one id, 64 at a time, takes a fifth more.

// prefetchIDs loads what handing out up to n lanes that stand in line begins
// with: their ids, which are beside their payloads.
func (c *hands) prefetchIDs(now int64, n int) {
	for next := c.due.first; next != 0 && n > 0; n-- {
		l := c.lanes.at(next)
		if l.due > now {
			break
		}
		if !l.one.Ref.IsZero() {
			c.prefetched += uint(l.one.Ref.Prefetch())
		}
		next = l.next
	}
}

// prefetchID loads what taking in an entry of an id begins with.
func (c *hands) prefetchID(id []byte) { c.prefetched += uint(c.lanes.byID.prefetch(hashOf(id)).hash) }

// prefetchIncoming loads what taking in entries begins with: the slots of their
// ids, and those of equal payloads where an id has many.
func (c *hands) prefetchIncoming(as []incoming) {
	for i := range as {
		as[i].lane = c.lanes.byID.prefetch(hashOf(as[i].ID)).value
	}
	for i := range as {
		if as[i].lane == 0 {
			continue
		}
		if b := c.lanes.at(as[i].lane).bag(); b != nil && b.index != nil {
			c.prefetched += uint(b.index.prefetch(hashOf(as[i].Payload)).hash)
		}
	}
}

// prefetchEqual loads what handing out some of the many payloads of a lane begins
// with: their places in the index of equal ones. When all go, it goes as a whole.
func (c *hands) prefetchEqual(l *lane, limit int) {
	b := l.bag()
	if b == nil || b.index == nil || limit == 0 || limit >= b.len() {
		return
	}
	next := b.order.inOrder.values()
	for _, h := range next[:min(limit, len(next))] {
		c.prefetched += uint(b.index.prefetch(h.hash).hash)
	}
}

// prefetchSlots loads what dropping the lanes of a run begins with, if there are
// several.
func (c *hands) prefetchSlots(r *Run) {
	if len(r.Items) < 2 {
		return
	}
	for i := range r.Items {
		c.prefetched += uint(c.lanes.byID.prefetch(r.Items[i].hash).hash)
	}
}
