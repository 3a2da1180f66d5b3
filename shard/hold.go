package shard

// Hold is why an id may not run now, with a bit for each reason: one that waits for a
// lock may be paused, too, and what lets it run must end both. It is not written down.
type Hold uint8

const (
	// HoldWait: its job waits for something else than its time, a lock or a slot.
	HoldWait Hold = 1 << iota
	// HoldSuspect: it may have killed the process, and waits for its turn.
	HoldSuspect
	// HoldPause: a person wants it so. The id need not have a job.
	HoldPause
	// HoldDead: a dead letter of it is on its way out of the morgue; see Core.Depart.
	HoldDead
)

// Hold keeps an id from running for a reason, until Let. What runs of it at the
// moment goes on, but for what no worker has begun. It reports whether the id was not
// held for that reason.
func (c *Core) Hold(id string, why Hold) bool {
	was := c.held[id]
	if was&why != 0 {
		return false
	}
	if c.held == nil {
		c.held = make(map[string]Hold)
	}
	c.held[id] = was | why
	c.countHeld(was, was|why)
	if l := c.lanes.find([]byte(id)); l != nil {
		c.takeBack(l)
	}
	return true
}

// takeBack gives a lane whose id is held its place, which is none, and takes what its
// worker has not begun back.
func (c *Core) takeBack(l *lane) {
	switch it := l.item(); {
	case it == nil:
		c.enqueue(l, l.due)
	case it.revoke():
		c.putBack(l, it)
	case c.cfg.Single && len(it.Payloads) > 1:
		c.recall(it)
	}
}

// Let ends a reason to hold an id, which runs again when no other is left. It reports
// whether the id was held for that reason.
func (c *Core) Let(id string, why Hold) bool {
	was := c.held[id]
	if was&why == 0 {
		return false
	}
	if now := was &^ why; now != 0 {
		c.held[id] = now
	} else {
		delete(c.held, id)
	}
	c.countHeld(was, was&^why)
	if l := c.lanes.find([]byte(id)); l != nil && l.item() == nil {
		c.enqueue(l, l.due)
	}
	return true
}

// Holds reports whether an id is held for a reason.
func (c *Core) Holds(id string, why Hold) bool { return c.held[id]&why != 0 }

// Park holds an id until Unpark, because its job waits.
func (c *Core) Park(id string) { c.Hold(id, HoldWait) }

// Unpark lets a parked id run again.
func (c *Core) Unpark(id string) { c.Let(id, HoldWait) }

func (c *Core) countHeld(was, is Hold) {
	count := func(n *int, why Hold) {
		switch {
		case was&why == 0 && is&why != 0:
			*n++
		case was&why != 0 && is&why == 0:
			*n--
		}
	}
	count(&c.counts.Parked, HoldWait|HoldSuspect)
	count(&c.counts.Paused, HoldPause)
}

// Pause keeps all ids from running until Resume, and takes back what no worker has
// begun: what runs goes on, with the payload, the job or the batch in hand. A shard
// that is paused asks for no worker, and no timer wakes it.
func (c *Core) Pause(now int64) {
	c.paused = true
	pace := c.pace // that runs are short now says nothing of jobs
	for r := range c.runs {
		c.takeApart(now, r)
	}
	c.pace = pace
}

// Resume ends a Pause.
func (c *Core) Resume() { c.paused = false }

// Paused reports whether an id may not run because a person wants it so: by itself,
// or with all others.
func (c *Core) Paused(id string) bool { return c.paused || c.held[id]&HoldPause != 0 }
