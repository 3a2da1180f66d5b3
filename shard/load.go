package shard

import "github.com/strandjobs/strand/journal"

// Load takes in an entry that was live when the journal was opened. Entries
// come in position order, before anything else; Loaded follows.
func (c *Core) Load(ref journal.Ref) {
	c.loading = true
	var e journal.Entry
	ref.Read(&e)
	if e.Kind == journal.KindEnqueued {
		c.Deliver(&e, ref)
		return
	}
	l := c.lanes[string(e.ID)]
	if l == nil {
		// The payload that the state was written for has been replaced by a
		// later one, or nothing comes: Loaded sees to that.
		l = c.newLane(string(e.ID))
		c.loose = append(c.loose, l)
	}
	c.endState(l)
	p := l.remember()
	p.state, p.err = ref, string(e.Error)
	if c.cfg.OnFailure == BlockFailed && len(e.Failed) > 0 {
		p.held, p.nextDue = l.split(c.cfg.Merge, e.Failed), l.due
	}
	c.setRetry(l, e.Retry)
	c.setHalted(l, e.Halted)
	c.enqueue(l, e.Due)
}

// Loaded ends the loading.
func (c *Core) Loaded() {
	c.loading = false
	for _, l := range c.loose {
		switch {
		case l.empty():
			c.dequeue(l)
			c.drop(l)
		case l.unpinned:
			c.pinDue(l)
		}
	}
	c.loose = nil
}
