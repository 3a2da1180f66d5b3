package shard

// Hold is why an id may not run now, with a bit for each reason: one that waits for a
// lock may be paused, too, and what lets it run must end both. It is not written down.
type Hold uint8

const (
	// HoldWait: its job waits for something else than its time, a lock or a slot.
	HoldWait Hold = 1 << iota
	// HoldSuspect: it may have killed the process, and waits for its turn.
	HoldSuspect
	// HoldPause: a person wants it so, perhaps of all ids that begin as it does. The id need not have a job.
	HoldPause
	// holdDead: a dead letter of it is on its way out of the morgue; see Core.Depart.
	holdDead
)

// why returns all reasons to hold an id.
func (c *agenda) why(id []byte) Hold {
	why := c.held[string(id)]
	for n := 1; len(c.prefixes) > 0 && n <= len(id); n++ {
		if c.prefixes[string(id[:n])] {
			return why | HoldPause
		}
	}
	return why
}

// Holds reports whether an id is held for a reason.
func (c *agenda) Holds(id string, why Hold) bool { return c.held[id]&why != 0 }

// Paused reports whether an id may not run because a person wants it so: by itself, as
// one that begins in some way, or with all others.
func (c *agenda) Paused(id string) bool {
	return c.paused || c.why([]byte(id))&HoldPause != 0
}

// hold sets the reasons for which an id is held, and reports whether they have changed.
func (c *agenda) hold(id string, is Hold) bool {
	was := c.held[id]
	switch {
	case was == is:
		return false
	case is == 0:
		delete(c.held, id)
	case c.held == nil:
		c.held = map[string]Hold{id: is}
	default:
		c.held[id] = is
	}
	count := func(n *int, why Hold) {
		if was&why == 0 && is&why != 0 {
			*n++
		} else if was&why != 0 && is&why == 0 {
			*n--
		}
	}
	count(&c.counts.Parked, HoldWait|HoldSuspect)
	count(&c.counts.Paused, HoldPause)
	return true
}

// unhold is Let for a caller that gives the job its place itself.
func (c *agenda) unhold(id string, why Hold) bool { return c.hold(id, c.held[id]&^why) }

// Hold keeps an id from running for a reason, until Let. What runs of it at the
// moment goes on, but for what no worker has begun. It reports whether the id was not
// held for that reason.
func (c *Core) Hold(id string, why Hold) bool {
	held := c.hold(id, c.held[id]|why)
	if held {
		c.Reconsider(id)
	}
	return held
}

// Let ends a reason to hold an id, which runs again when no other is left. It reports
// whether the id was held for that reason.
func (c *Core) Let(id string, why Hold) bool {
	let := c.unhold(id, why)
	if let {
		c.Reconsider(id)
	}
	return let
}

// Reconsider gives the job of an id the place that it should have, after a change of what
// holds it. Of a job that is held it takes back what its worker has not begun.
func (c *Core) Reconsider(id string) {
	l := c.lanes.find([]byte(id))
	if l == nil {
		return
	}
	switch it := l.item(); {
	case it == nil:
		c.enqueue(l, l.due)
	case c.why([]byte(id)) == 0:
	case it.revoke():
		c.putBack(l, it)
	case c.cfg.Single && len(it.Payloads) > 1:
		c.recall(it)
	}
}

// Pause keeps all ids from running, or ends that, and takes back what no worker has
// begun: what runs goes on, with the payload, the job or the batch in hand. A shard
// that is paused asks for no worker, and no timer wakes it.
func (c *Core) Pause(now int64, on bool) {
	if c.paused = on; !on {
		return
	}
	pace := c.pace // that runs are short now says nothing of jobs
	for r := range c.runs {
		c.takeApart(now, r)
	}
	c.pace = pace
}

// PausePrefix keeps the ids that begin so from running, or ends that. It holds for what
// arrives from now on. The caller calls Reconsider for each id that is there already: of
// millions, some at a time.
func (c *Core) PausePrefix(prefix string, on bool) {
	if c.prefixes == nil {
		c.prefixes = make(map[string]bool)
	}
	if delete(c.prefixes, prefix); on {
		c.prefixes[prefix] = true
	}
	c.counts.Prefixes = len(c.prefixes)
}
